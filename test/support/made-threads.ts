/** The threads that this process makes while a test runs. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Session } from 'node:inspector';
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

/** What an expression that gives a text is worth in the one thread of this process, which has nothing else to do. */
export async function evaluatedInThread(expression: string): Promise<string> {
  const session = new Session();
  session.connect();
  try {
    const { promise, resolve } = Promise.withResolvers<string>();
    session.on('NodeWorker.receivedMessageFromWorker', ({ params }) => resolve(params.message));
    session.on('NodeWorker.attachedToWorker', ({ params: { sessionId } }) => {
      const message = JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression } });
      session.post('NodeWorker.sendMessageToWorker', { sessionId, message });
    });
    session.post('NodeWorker.enable', { waitForDebuggerOnStart: false });
    return JSON.parse(await promise).result.result.value;
  } finally {
    session.disconnect();
  }
}
