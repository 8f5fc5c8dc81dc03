/** Time as a process has it that a busy machine does not let run: a bound in it says nothing about the machine. */

const TICK_MS = 50;

/**
 * Returns for how long this process could run while the work lasted, in milliseconds. A timer of the work that is due
 * after so long has had its chance; time in which others had the processor does not count.
 */
export async function ranMs(work: () => Promise<unknown>): Promise<number> {
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, TICK_MS);
  try {
    await work();
    return ticks * TICK_MS;
  } finally {
    clearInterval(timer);
  }
}
