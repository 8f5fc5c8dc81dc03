/**
 * Decides when the past of a table is too old to be kept, and how much of it is forgotten at once: the same in every destination.
 *
 * Invariant: the noted time is never later than the end of the oldest state that a log can still restore. States that end after it was
 * noted do not break this: they end later.
 */

import type { Clock } from '../../lib/clock.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { numberOrNullAt, textAt } from '../../staging/engine/sql.ts';

/** The past is pruned at most so often once everything old is gone. */
const PRUNE_EVERY_MS = 3_600_000;
/** No further transaction begins after this time, so that readers and commits come in between. */
const MAX_PRUNING_MS = 2_000;

/** A log with entries, or a frozen table, that is too old. */
export interface OldLog {
  readonly logName: string;
  /** With its schema. */
  readonly tableName: string;
  readonly datasetId: string;
  readonly isFrozen: boolean;
}

export class PastLimit {
  readonly #keepMs: number;
  readonly #clock: Clock;
  /** When everything old was gone, on the monotonic clock. */
  #prunedMs = Number.NEGATIVE_INFINITY;
  /** Null: not known yet. */
  #oldest: Date | null = null;
  /** Names of logs that could not be forgotten. They come last: there may be time for one log alone. */
  readonly #unusable = new Set<string>();

  constructor(keepMs: number, clock: Clock) {
    this.#keepMs = keepMs;
    this.#clock = clock;
  }

  /** False before the destination was read. */
  get isKnown(): boolean {
    return this.#oldest !== null || !Number.isFinite(this.#keepMs);
  }

  /** Returns the time before which states have to have ended to be forgotten now; null: nothing is to be forgotten now. */
  before(): Date | null {
    const hasWaited = this.#clock.monotonicMs() - this.#prunedMs >= PRUNE_EVERY_MS;
    if (!Number.isFinite(this.#keepMs) || !hasWaited) return null;
    const before = new Date(this.#clock.now().getTime() - this.#keepMs);
    return this.#oldest === null || this.#oldest < before ? before : null;
  }

  /** Notes the age of the oldest state, which `oldest` reads, where there is a limit. */
  async measure(oldest: () => Promise<Date | null>): Promise<void> {
    if (Number.isFinite(this.#keepMs)) this.note(await oldest());
  }

  /** Notes when the oldest state of all logs ended; null: they have no earlier state than that of now. */
  note(oldest: Date | null): void {
    this.#oldest = oldest ?? this.#clock.now();
  }

  /**
   * Calls `forget` for each log until nothing of it is left to forget, as long as there is time and nobody waits, but once at least.
   * Resolves to whether more is left.
   */
  async prune(
    logs: readonly OldLog[],
    forget: (log: OldLog) => Promise<boolean>,
    isAwaited: () => boolean,
  ): Promise<boolean> {
    const endMs = this.#clock.monotonicMs() + MAX_PRUNING_MS;
    const isUnusable = ({ logName }: OldLog): boolean => this.#unusable.has(logName);
    const inOrder = logs.toSorted((left, right) => Number(isUnusable(left)) - Number(isUnusable(right)));
    let isOver = false;
    for (const log of inOrder) {
      for (let isMore = true; isMore; ) {
        if (isOver) return true;
        isMore = await forget(log);
        isOver = this.#clock.monotonicMs() >= endMs || isAwaited();
      }
    }
    return false;
  }

  noteUnusable({ logName }: OldLog): void {
    this.#unusable.add(logName);
  }

  /** Notes that everything old was forgotten; `oldest` as for `note`. */
  done(oldest: Date | null, isAnyForgotten: boolean): void {
    this.note(oldest);
    if (isAnyForgotten) this.waitAgain();
  }

  /** Postpones the next pruning. */
  waitAgain(): void {
    this.#prunedMs = this.#clock.monotonicMs();
  }
}

/** Returns SQL for the times at which the states that logs can restore ended, of `logs` and `commits`: names of tables. */
export function endsOfStates(logs: string, commits: string): string {
  return `FROM ${logs} AS logs JOIN ${commits} AS commits ON commits.dataset_id = logs.dataset_id
    AND CASE WHEN frozen_commit IS NULL THEN commit_number > first_commit ELSE commit_number = frozen_commit END`;
}

/** Selects the rows of `oldLogAt`: the logs that can restore states which ended before `before`, a time as SQL. The others as above. */
export function selectOldLogs(logs: string, commits: string, before: string): string {
  return `SELECT DISTINCT log_name, table_name, logs.dataset_id, frozen_commit
    ${endsOfStates(logs, commits)} WHERE applied_at < ${before} ORDER BY log_name`;
}

export function oldLogAt(row: Row): OldLog {
  return {
    logName: textAt(row, 0),
    tableName: textAt(row, 1),
    datasetId: textAt(row, 2),
    isFrozen: numberOrNullAt(row, 3) !== null,
  };
}
