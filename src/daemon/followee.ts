/** One subscription that is followed: what is known of it, and when it is read next. */

import pLimit, { type LimitFunction } from 'p-limit';
import type { Random } from '../lib/random.ts';
import type { EventId } from '../model/event.ts';
import type { Subscription } from '../model/subscription.ts';
import { AT_ONCE, type ClockReading, type DueTime } from './due-time.ts';
import { ASKING_AGAIN, RetryClock } from './retry-clocks.ts';

export class Followee {
  readonly id: string;
  /** As the service last listed it. */
  record: Subscription;
  readonly retry: RetryClock;
  /** It is read by one at a time. */
  readonly inTurn: LimitFunction = pLimit(1);
  nextPoll: DueTime = AT_ONCE;
  /** When a poll was last asked for from outside, on the monotonic clock. */
  pollAskedMs = Number.NEGATIVE_INFINITY;
  /** Its position is to be taken, or its manifest to be compared with what is wanted. */
  owesAudit = true;
  /** Its log cannot be read on from its position: there is none, or the service keeps it no more. */
  isLost = true;
  /** When the reading began that last reached the head, on the monotonic clock; null: the last one did not. */
  headAtMs: number | null = null;
  /** When its log was last asked for, whatever came of it. */
  lastPollAt: Date | null = null;
  lastGoodPollAt: Date | null = null;
  /** When an event was last read or a dataset of it got on, on the monotonic clock. */
  movedMs: number;
  /** The newest event that is known to be in the log. */
  head: EventId | null = null;

  constructor(record: Subscription, random: Random, nowMs: number) {
    this.id = record.id;
    this.record = record;
    this.retry = new RetryClock(ASKING_AGAIN, random);
    this.movedMs = nowMs;
  }

  get name(): string | null {
    return this.record.name;
  }

  get isBusy(): boolean {
    return this.inTurn.activeCount + this.inTurn.pendingCount > 0;
  }

  /** The last attempt to read it was in vain. */
  get isFailing(): boolean {
    return this.retry.attempts > 0;
  }

  /** When it is read next, on the monotonic clock. */
  dueMs(now: ClockReading): number {
    return this.isFailing ? this.retry.dueMs : this.nextPoll.dueMs(now);
  }
}
