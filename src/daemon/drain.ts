/** Waits for what is under way to end, and not for ever. */

import type { Clock } from '../lib/clock.ts';
import { InterruptedError } from '../model/errors.ts';

/** False where `ending` did not resolve within `limitMs`. `ending` never rejects. */
export async function endsInTime(clock: Clock, ending: Promise<unknown>, limitMs: number): Promise<boolean> {
  const done = new AbortController();
  const tooLate = clock.sleep(limitMs, done.signal).then(
    () => false,
    () => true,
  );
  const inTime = ending.then(() => true);
  try {
    return await Promise.race([inTime, tooLate]);
  } finally {
    done.abort(new InterruptedError('It ended in time.'));
  }
}
