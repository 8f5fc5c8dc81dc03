/** How an operator stops a long run. */

import process from 'node:process';

/** From now on SIGINT and SIGTERM only ask to stop. Returns whether one has come. */
export function stopOnSignal(): () => boolean {
  let isStopped = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      isStopped = true;
    });
  }
  return () => isStopped;
}
