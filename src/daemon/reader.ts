/**
 * Reads a subscription, whatever for: alone, with its trouble noted as its own, and with its clocks kept.
 */

import pLimit from 'p-limit';
import { InterruptedError, RefusalError } from '../model/errors.ts';
import { laterEvent } from '../model/event.ts';
import { storeHold } from '../sync/holds.ts';
import { AT_ONCE } from './due-time.ts';
import type { Followee } from './followee.ts';
import type { Session } from './session.ts';

/** Subscriptions read side by side: those that cannot be read take their time, and hold up no other. */
const SUBSCRIPTIONS_AT_ONCE = 32;

export class Reader {
  readonly #session: Session;
  readonly #atOnce = pLimit(SUBSCRIPTIONS_AT_ONCE);
  readonly #onRefused: () => void;

  /** `onRefused`: the service has refused the whole workspace. */
  constructor(session: Session, onRefused: () => void) {
    this.#session = session;
    this.#onRefused = onRefused;
  }

  /** `read` is given when it began, on the monotonic clock. True where it ended well. Never rejects. */
  async read(followee: Followee, read: (startedMs: number) => Promise<void>): Promise<boolean> {
    return followee.inTurn(() => this.#atOnce(() => this.#readNow(followee, read)));
  }

  /** The log was read; `headAtMs`: when the reading began that reached its head, null where it goes on. */
  noteRead(followee: Followee, headAtMs: number | null): void {
    const { clock, checkpoint } = this.#session.parts;
    followee.headAtMs = headAtMs;
    // What is behind still is read on without waiting, and what may have come after this reading began.
    const isBehind = headAtMs === null || followee.pollAskedMs > headAtMs;
    followee.nextPoll = isBehind ? AT_ONCE : this.#session.nextPoll();
    if (headAtMs === null) return;
    followee.lastGoodPollAt = clock.now();
    const cursor = checkpoint.followed().get(followee.id)?.cursor ?? null;
    followee.head = laterEvent(cursor, followee.record.lastEventId);
  }

  /** A refusal is stored, and nothing more is asked for what it belongs to; other trouble goes on until it is over. */
  noteTrouble(of: string, error: unknown): void {
    if (error instanceof InterruptedError) return;
    if (!(error instanceof RefusalError)) {
      this.#session.met(of, error);
      return;
    }
    try {
      storeHold(this.#session.parts, error.refusal);
      if (error.refusal.scope.kind === 'workspace') this.#onRefused();
    } catch (cause) {
      this.#session.met(of, cause);
    }
  }

  async #readNow(followee: Followee, read: (startedMs: number) => Promise<void>): Promise<boolean> {
    const of = `subscription ${followee.id}`;
    const startedMs = this.#session.nowMs();
    followee.lastPollAt = this.#session.parts.clock.now();
    let isGood = false;
    try {
      await read(startedMs);
      if (followee.isFailing) this.#session.agenda.outageOver(this.#session.nowMs());
      followee.retry.succeeded();
      this.#session.over(of);
      isGood = true;
    } catch (error) {
      followee.retry.failed(this.#session.nowMs());
      this.noteTrouble(of, error);
    }
    const durationMs = this.#session.nowMs() - startedMs;
    this.#session.tell({ kind: 'poll', subscriptionId: followee.id, isGood, durationMs });
    return isGood;
  }
}
