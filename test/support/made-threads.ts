/** The threads that this process makes while a test runs. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

/** Grows with each that is made from now on. */
export function madeThreads(): readonly Worker[] {
  const made: Worker[] = [];
  const note = (message: unknown): void => {
    made.push((message as { readonly worker: Worker }).worker);
  };
  subscribe('worker_threads', note);
  onTestFinished(() => void unsubscribe('worker_threads', note));
  return made;
}
