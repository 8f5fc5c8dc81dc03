/**
 * Has requests wait for their turn here, where no deadline runs yet, and not in the connections, where it would.
 *
 * Invariants: a request has its place until the body of its answer has ended, in whatever way, and no longer. There are two
 * lines, which take turns: neither waits for the end of the other, however long that is.
 */

import { unlessStopped } from './cancellation.ts';

/** `leading`: what tells what there is to do; `following`: all that is asked for because of it. */
export type Line = 'leading' | 'following';

export interface Exchange<Answer> {
  readonly answer: Answer;
  /** Resolves once its connection is free for another. Never rejects. */
  readonly ended: Promise<void>;
}

export class ConnectionSlots {
  readonly #lines: Readonly<Record<Line, (() => void)[]>> = { leading: [], following: [] };
  #free: number;
  #lastLine: Line = 'following';

  constructor(slots: number) {
    this.#free = slots;
  }

  /** Resolves once there is one, which then has to be given back. */
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
 * What `send` gives, once there is a place. @throws what `send` throws
 * @throws InterruptedError at once when `signal` is aborted, also while others have all places
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
