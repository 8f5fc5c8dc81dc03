/**
 * Reads the subscriptions: lists them, reads every one that owes an audit to the head of its log and compares its manifest with the
 * desired state, and judges by these readings which tables may retire. `once` reads all of them in rounds, `run` when its clocks
 * say so.
 *
 * Invariants: a subscription has one reader at a time; the service is not asked about suspended subscriptions.
 */

import type { LimitFunction } from 'p-limit';
import pLimit from 'p-limit';
import { ContractViolationError, ServiceUnavailableError } from '../model/errors.ts';
import type { Subscription } from '../model/records.ts';
import type { Engine } from './engine.ts';
import type { VerdictOf } from './plan/retirement.ts';
import { currentSuspensions } from './suspensions.ts';

/** Returns whether the service could not be reached, or gave no usable answer. */
function isOfService(error: unknown): error is Error {
  return error instanceof ServiceUnavailableError || error instanceof ContractViolationError;
}

/** The progress of reading one subscription. */
export class SubscriptionProgress {
  readonly id: string;
  /** As the service last listed it. */
  record: Subscription;
  /** Lets one reader in at a time. */
  readonly inTurn: LimitFunction = pLimit(1);
  /** The position has to be taken, or the manifest has to be compared with the desired state. */
  owesAudit = true;
  /** The log cannot be read on: there is no position, or the position has expired. */
  isLost = true;
  /** When the last reading began, on the monotonic clock; null: the reading did not reach the head. */
  headAtMs: number | null = null;

  constructor(record: Subscription) {
    this.id = record.id;
    this.record = record;
  }
}

interface ReaderOptions<Progress extends SubscriptionProgress> {
  readonly engine: Engine;
  readonly signal: AbortSignal;
  /** How many subscriptions are read side by side. */
  readonly atOnce: number;
  readonly create: (record: Subscription) => Progress;
  /** A reading has ended; `error` is null where it succeeded. */
  readonly onEnded: (subscription: Progress, startedMs: number, error: unknown) => void;
}

export class SubscriptionReader<Progress extends SubscriptionProgress> {
  readonly #options: ReaderOptions<Progress>;
  readonly #atOnce: LimitFunction;
  readonly #subscriptions = new Map<string, Progress>();
  #listedMs = Number.NEGATIVE_INFINITY;
  #listedAt = new Date(0);

  constructor(options: ReaderOptions<Progress>) {
    this.#options = options;
    this.#atOnce = pLimit(options.atOnce);
  }

  /** The chosen subscriptions as they were listed last, by id. */
  get subscriptions(): ReadonlyMap<string, Progress> {
    return this.#subscriptions;
  }

  /** When the subscriptions were listed last, in service time. */
  get listedAt(): Date {
    return this.#listedAt;
  }

  /** Lists the subscriptions and reads the observed state. `isMirrorIdle`: nobody works on the mirror, so it answers at once. */
  async connect(isMirrorIdle: boolean): Promise<void> {
    const { engine, signal, create } = this.#options;
    const startedMs = this.#nowMs();
    const { subscriptions, readAt } = await this.#noting(null, () => engine.connect(isMirrorIdle, signal));
    this.#listedMs = startedMs;
    this.#listedAt = readAt;
    const listed = new Set(subscriptions.map(({ id }) => id));
    for (const id of this.#subscriptions.keys()) if (!listed.has(id)) this.#subscriptions.delete(id);
    for (const record of subscriptions) {
      const subscription = this.#subscriptions.get(record.id);
      if (subscription === undefined) this.#subscriptions.set(record.id, create(record));
      else subscription.record = record;
    }
  }

  /** Reads every subscription that owes an audit. Resolves to whether all of them could be read. @throws StorageError */
  async readOwing(): Promise<boolean> {
    const { engine, signal } = this.#options;
    const isSuspended = ({ id }: Progress): boolean =>
      currentSuspensions(engine.parts).ofSubscription(id) !== null;
    const readings = [...this.#subscriptions.values()].map(async (subscription) => {
      if (!subscription.owesAudit || isSuspended(subscription)) return true;
      return this.read(subscription, async (startedMs) => {
        await engine.follow(subscription.record, this.#listedAt, signal);
        subscription.owesAudit = false;
        subscription.isLost = false;
        subscription.headAtMs = startedMs;
      });
    });
    return (await Promise.all(readings)).every((isGood) => isGood);
  }

  /** Calls `read` with the time of its start, on the monotonic clock. Resolves to whether it succeeded. Never rejects. */
  read(subscription: Progress, read: (startedMs: number) => Promise<void>): Promise<boolean> {
    const { signal, onEnded } = this.#options;
    const readNow = async (): Promise<boolean> => {
      const startedMs = this.#nowMs();
      try {
        signal.throwIfAborted();
        await this.#noting(subscription.id, () => read(startedMs));
        onEnded(subscription, startedMs, null);
        return true;
      } catch (error) {
        onEnded(subscription, startedMs, error);
        return false;
      }
    };
    return subscription.inTurn(() => this.#atOnce(readNow));
  }

  /** Stores whether the service gave what `poll` asked it for. A refusal is stored as a suspension, elsewhere. */
  async #noting<T>(subscriptionId: string | null, poll: () => Promise<T>): Promise<T> {
    const { checkpoint, clock, process } = this.#options.engine.parts;
    try {
      const result = await poll();
      checkpoint.notePoll(subscriptionId, clock.now(), process);
      return result;
    } catch (error) {
      if (isOfService(error)) checkpoint.notePoll(subscriptionId, clock.now(), error);
      throw error;
    }
  }

  isAtHead(subscriptionId: string): boolean {
    return (this.#subscriptions.get(subscriptionId)?.headAtMs ?? null) !== null;
  }

  /** Judges which tables may retire. A log counts where it was read, after the subscriptions were listed, since `leftMs`. */
  judge(leftMs: number): VerdictOf {
    const all = [...this.#subscriptions.values()];
    const areListed = this.#listedMs >= leftMs;
    const readToHead = all.filter(({ headAtMs }) => areListed && headAtMs !== null && headAtMs >= leftMs);
    return this.#options.engine.judgeRetirements({
      records: all.map(({ record }) => record),
      readToHead: new Set(readToHead.map(({ id }) => id)),
      readAt: this.#listedAt,
    });
  }

  #nowMs(): number {
    return this.#options.engine.parts.clock.monotonicMs();
  }
}
