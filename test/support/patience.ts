/** How long tests wait for what has to come: for the condition itself, however slow and busy the machine is. */

import { setTimeout as sleep } from 'node:timers/promises';

/** Only against a test that hangs for ever: nothing that is waited for takes a hundredth of it on an idle machine. */
export const PATIENCE_MS = 5 * 60_000;
/** The interval between two checks of a cheap condition. */
const CHECK_EVERY_MS = 20;

/**
 * Repeats `check` until it no longer throws, and returns its result. `everyMs`: the pause between two attempts.
 * @throws what `check` threw last, after PATIENCE_MS
 */
export async function eventually<Result>(
  check: () => Result | Promise<Result>,
  everyMs: number = CHECK_EVERY_MS,
): Promise<Result> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > untilMs) throw error;
    }
    await sleep(everyMs);
  }
}

/** Resolves once the condition holds. @throws Error that names `what` was waited for, after PATIENCE_MS */
export function until(what: string, condition: () => boolean): Promise<void> {
  return eventually(() => {
    if (!condition()) throw new Error(`This never came: ${what}.`);
  });
}
