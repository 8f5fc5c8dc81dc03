/**
 * Queues requests before their deadline starts; a queue inside the connections would use up the deadline.
 *
 * Invariants: a request occupies a slot exactly until the body of its answer has ended. Two lanes take turns, so neither waits
 * for the other to become empty.
 */

import { unlessStopped } from './cancellation.ts';

/** `leading`: requests that find out whether there is work; `following`: the requests of that work. */
export type Line = 'leading' | 'following';

export interface Exchange<Answer> {
  readonly answer: Answer;
  /** Resolves once the connection is free again. Never rejects. */
  readonly ended: Promise<void>;
}

export class ConnectionSlots {
  readonly #lines: Readonly<Record<Line, (() => void)[]>> = { leading: [], following: [] };
  #free: number;
  #lastLine: Line = 'following';

  constructor(slots: number) {
    this.#free = slots;
  }

  /** Resolves with a free slot, which the caller must give back. */
  async take(line: Line): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#lines[line].push(resolve));
  }

  giveBack(): void {
    const { leading, following } = this.#lines;
    const isLeadingNext = following.length === 0 || (leading.length > 0 && this.#lastLine === 'following');
    this.#lastLine = isLeadingNext ? 'leading' : 'following';
    const next = (isLeadingNext ? leading : following).shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

/**
 * Calls `send` once a slot is free, and returns its result. @throws the error of `send`
 * @throws InterruptedError at once when `signal` is aborted, even while waiting for a slot
 */
export function fairQueue<Answer>(
  slots: ConnectionSlots,
  line: Line,
  send: () => Promise<Exchange<Answer>>,
  signal: AbortSignal,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const takeSlot = async (): Promise<void> => {
    await slots.take(line);
    try {
      const { answer, ended } = await send();
      resolve(answer);
      await ended;
    } catch (error) {
      reject(error);
    } finally {
      slots.giveBack();
    }
  };
  void takeSlot();
  return unlessStopped(promise, signal);
}
