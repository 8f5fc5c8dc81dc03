/**
 * What the daemon knows of itself, for whoever shows it: the status server, metrics, the service manager. A snapshot is
 * immutable and made when it is asked for; what happens in between is told to observers as it happens.
 *
 * Observers only show. Nothing depends on them, and one that throws is cut off.
 */

import type { Failure, Suspension } from '../checkpoint/checkpoint.ts';
import type { CommitResult } from '../model/commits.ts';
import type { ErrorCode } from '../model/error-codes.ts';
import type { EventType } from '../model/event.ts';

/** The side of the daemon that is looked at. */
export interface Observed {
  /** As of now. */
  state(): DaemonState;
  /**
   * Milliseconds since the loop last went round, on the clock that only goes forward. It does so at least once a minute,
   * whatever is under way and whether or not the service answers: a loop that does not is stuck. Asks nothing of anybody.
   */
  loopSilentMs(): number;
  /** Calls `observer` for everything that happens from now on, until the returned function is called. */
  observe(observer: Observer): () => void;
}

export type Observer = (daemonEvent: DaemonEvent) => void;

export interface DaemonState {
  readonly startedAt: Date;
  readonly now: Date;
  /**
   * - `starting`: the first audit has not ended yet.
   * - `following`: it has; polls and work go on.
   * - `draining`: asked to stop or to start anew; what is begun is finished or rolled back.
   */
  readonly phase: 'starting' | 'following' | 'draining';
  /** As `Observed.loopSilentMs` tells it. */
  readonly loopSilentMs: number;
  /** When every dataset had, for the first time, either nothing left to do or a known reason to wait; null: not yet. */
  readonly caughtUpAt: Date | null;
  /** When the subscriptions and their manifests were last compared with what is wanted; null: not yet. */
  readonly lastAuditAt: Date | null;
  readonly nextAuditAt: Date;
  readonly nextPollAt: Date;
  /** By subscription id. */
  readonly subscriptions: ReadonlyMap<string, SubscriptionState>;
  /** By dataset id: every dataset that a subscription contains or that has a table. */
  readonly datasets: ReadonlyMap<string, DatasetActivity>;
  /** Of the workspace, of subscriptions, of datasets and of retirements. */
  readonly suspensions: readonly Suspension[];
  /** What goes wrong now, but for what belongs to a dataset; the longest first. */
  readonly incidents: readonly OngoingIncident[];
  readonly counters: Counters;
}

/** One subscription by its three clocks: when it was read, what was applied, where its log ends. */
export interface SubscriptionState {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly condition: PollCondition;
  /** Since when it stands so. */
  readonly conditionSince: Date;
  /** When its log was last asked for, whatever came of it; null: not since the start of this process. */
  readonly lastPollAt: Date | null;
  /** When its log was last read to its head; null: not since the start of this process. */
  readonly lastGoodPollAt: Date | null;
  /** The newest event whose wants are stored; null: none. */
  readonly cursor: string | null;
  /** When the newest event was created by the service, else when it was read; null: none is known. */
  readonly lastEventAt: Date | null;
  /** The newest event of the log, as far as it is known; null: not known, or there is none. */
  readonly head: string | null;
  /** How old the cursor is against the retention of the log; 0 where nothing can expire. */
  readonly cursorAgeMs: number;
  /** When the service keeps the cursor no more, unless an event moves it; null: nothing can expire. */
  readonly cursorExpiresAt: Date | null;
}

/**
 * - `suspended`: an operator has to act.
 * - `failing`: the last attempt to read it failed, and it is tried again.
 * - `stalled`: behind, and nothing has moved for `STALLED_AFTER_MS`.
 * - `behind`: its log goes on after the cursor, or datasets of it are not where they should be yet.
 * - `idle`: read to its head, and nothing is left to do.
 */
export type PollCondition = 'suspended' | 'failing' | 'stalled' | 'behind' | 'idle';

export interface DatasetActivity {
  readonly datasetId: string;
  /** Null: there is no table. */
  readonly version: number | null;
  /** The newest version that was announced or found; null: none is known. */
  readonly wantedVersion: number | null;
  /** Since when it is not where it should be; null: it is. The lag of a dataset is the time since then. */
  readonly behindSince: Date | null;
  /** What is done about it now; null: nothing. */
  readonly work: WorkState | null;
  /** When it is tried again, where it waits; null: it does not. */
  readonly retryAt: Date | null;
  /** Why it waits, for people; null: it does not. */
  readonly waitsFor: string | null;
  readonly failure: Failure | null;
}

/** A unit of work that is under way. */
export interface WorkState {
  /** For people: `loading version 12`. */
  readonly step: string;
  readonly since: Date;
  /** Downloaded for it so far. */
  readonly bytes: number;
}

/** Trouble that goes on: told when it begins, louder as it lasts, and once when it is over. */
export interface OngoingIncident {
  /** What it belongs to: `service`, `mirror`, `loop`, `run` (all that is worked on), or `subscription` and the id. */
  readonly of: string;
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly since: Date;
  readonly attempts: number;
  /** It has lasted so long that a person should look: health reports it. */
  readonly isStall: boolean;
}

/** Counts since the start of this process. Keys that never occurred are absent. */
export interface Counters {
  /** By type; those that could not be read as `unreadable`. */
  readonly events: ReadonlyMap<EventType | 'unreadable', number>;
  readonly commits: ReadonlyMap<CommitResult['kind'] | 'retirement', number>;
  /** `loaded`: rows of tables that were replaced as a whole. */
  readonly rows: ReadonlyMap<'added' | 'changed' | 'removed' | 'loaded', number>;
  /** Snapshots that were loaded again into a table, by why: see `ResyncReason`. */
  readonly resyncs: ReadonlyMap<ResyncReason, number>;
  readonly downloadedBytes: number;
  /** By operation (`list subscriptions`), then by status; answers that never came as `none`. */
  readonly requests: ReadonlyMap<string, ReadonlyMap<string, number>>;
  readonly polls: number;
  readonly audits: number;
  /** Units of work that the watchdog interrupted. */
  readonly interruptions: number;
}

/**
 * Why a snapshot replaced a table: the service asked (`reload`), a person did (`resync`), the schema changed (`schema`),
 * or changes did not lead on or were more work (`version`).
 */
export type ResyncReason = 'reload' | 'resync' | 'schema' | 'version';

export type DaemonEvent =
  /** An answer of the service, or none. */
  | {
      readonly kind: 'request';
      readonly operation: string;
      readonly status: number | null;
      readonly durationMs: number;
    }
  | { readonly kind: 'events'; readonly subscriptionId: string; readonly type: EventType | 'unreadable' }
  | { readonly kind: 'bytes'; readonly datasetId: string; readonly bytes: number }
  /** How long the files or the pages of what was committed took to arrive, from the beginning of the work on it. */
  | { readonly kind: 'download'; readonly datasetId: string; readonly durationMs: number }
  /** `resync` is null for a first load and for changes. */
  | {
      readonly kind: 'commit';
      readonly datasetId: string;
      readonly commit: CommitResult;
      readonly resync: ResyncReason | null;
    }
  | { readonly kind: 'retired'; readonly datasetId: string }
  | {
      readonly kind: 'poll';
      readonly subscriptionId: string;
      readonly isGood: boolean;
      readonly durationMs: number;
    }
  | { readonly kind: 'audit'; readonly durationMs: number }
  | { readonly kind: 'interruption' };
