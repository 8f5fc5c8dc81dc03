/** The deadlines of exchanges, which go by the timers of the system: none of them ends but by the test. */

import { onTestFinished, vi } from 'vitest';

export interface SteeredDeadline {
  /** What it was set to. */
  readonly afterMs: number;
  /** Its time has come. */
  end(): void;
}

/** Those that have begun since, in order; the others again when the test has finished. */
export function steeredDeadlines(): readonly SteeredDeadline[] {
  const begun: SteeredDeadline[] = [];
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockImplementation((afterMs) => {
    const controller = new AbortController();
    const end = (): void => controller.abort(new DOMException('The time has come.', 'TimeoutError'));
    begun.push({ afterMs, end });
    return controller.signal;
  });
  onTestFinished(() => timeout.mockRestore());
  return begun;
}
