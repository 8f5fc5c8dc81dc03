/**
 * The state of the daemon for the status server, the metrics and the service manager. A snapshot is immutable and made
 * on request; observers receive events as they happen.
 *
 * Observers only show. Nothing depends on them, and one that throws is removed.
 */

import type { Failure, Suspension } from '../checkpoint/checkpoint.ts';
import type { CommitResult } from '../model/commits.ts';
import type { ErrorCode } from '../model/error-codes.ts';
import type { EventType } from '../model/event.ts';
import type { ScrubRecord } from '../model/scrub.ts';

/** The observable side of the daemon. */
export interface Observed {
  /** Returns the current state. Reads the checkpoint: with many datasets that takes a while. */
  state(): DaemonState;
  /** Returns a part of the current state that takes no time, however many datasets there are. */
  readiness(): Readiness;
  /**
   * Milliseconds since the last round of the loop, on the monotonic clock. The loop makes a round at least once a
   * minute, whatever else is running and whether or not the service answers: a loop that does not is stuck. Makes no
   * request.
   */
  loopSilentMs(): number;
  /** Calls `observer` for every further event, until the returned function is called. */
  observe(observer: Observer): () => void;
}

/** The state that decides whether the mirror is worth reading. */
export type Readiness = Pick<DaemonState, 'phase' | 'caughtUpAt' | 'startedAt' | 'incidents'>;

export type Observer = (daemonEvent: DaemonEvent) => void;

export interface DaemonState {
  readonly startedAt: Date;
  readonly now: Date;
  /**
   * `starting`: the first audit has not ended yet. `following`: polls and work go on. `draining`: the daemon was asked to stop or
   * restart, and running work is finished or rolled back.
   */
  readonly phase: 'starting' | 'following' | 'draining';
  /** See `Observed.loopSilentMs`. */
  readonly loopSilentMs: number;
  /** When every dataset, for the first time, had either no work left or a known reason to wait; null: not yet. */
  readonly caughtUpAt: Date | null;
  /** When the subscriptions and their manifests were last compared with the desired state; null: not yet. */
  readonly lastAuditAt: Date | null;
  readonly nextAuditAt: Date;
  readonly nextPollAt: Date;
  /** By subscription id. */
  readonly subscriptions: ReadonlyMap<string, SubscriptionState>;
  /** By dataset id: every dataset that a subscription contains or that has a table. */
  readonly datasets: ReadonlyMap<string, DatasetActivity>;
  /** The suspensions of the workspace, of subscriptions, of datasets and of retirements. */
  readonly suspensions: readonly Suspension[];
  /** The ongoing incidents except those of datasets; the longest first. */
  readonly incidents: readonly OngoingIncident[];
  readonly counters: Counters;
  /** Null: a server looks after its own files. */
  readonly scrub: ScrubRecord | null;
}

/** A subscription by its three clocks: when its log was read, when its events were applied, and where the log ends. */
export interface SubscriptionState {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly condition: PollCondition;
  /** Since when the subscription is in this condition. */
  readonly conditionSince: Date;
  /** When its log was last requested, whatever the result; null: not since the start of this process. */
  readonly lastPollAt: Date | null;
  /** When its log was last read to its head; null: not since the start of this process. */
  readonly lastGoodPollAt: Date | null;
  /** The newest event whose changes of the desired state are stored; null: none. */
  readonly cursor: string | null;
  /** When the service created the newest event, else when the event was read; null: none is known. */
  readonly lastEventAt: Date | null;
  /** The newest known event of the log; null: unknown, or none. */
  readonly head: string | null;
  /** The age of the cursor as far as the log's retention counts; 0 where nothing can expire. */
  readonly cursorAgeMs: number;
  /** When the service drops the cursor unless an event moves it; null: nothing can expire. */
  readonly cursorExpiresAt: Date | null;
}

/**
 * The condition of a subscription. `suspended`: an operator has to act. `failing`: the last attempt to read the log failed, and is retried.
 * `stalled`: behind, and without progress for `STALLED_AFTER_MS`. `behind`: the log continues after the cursor, or datasets have work left.
 * `idle`: the log was read to its head, and no work is left.
 */
export type PollCondition = 'suspended' | 'failing' | 'stalled' | 'behind' | 'idle';

export interface DatasetActivity {
  readonly datasetId: string;
  /** Null: there is no table. */
  readonly version: number | null;
  /** The newest version that was announced or listed; null: none is known. */
  readonly targetVersion: number | null;
  /** Since when the dataset is behind; null: it is up to date. The lag of a dataset is the time since then. */
  readonly behindSince: Date | null;
  /** The running work; null: none. */
  readonly work: WorkState | null;
  /** When a waiting dataset is retried; null: it does not wait. */
  readonly retryAt: Date | null;
  /** Why the dataset waits, for the operator; null: it does not wait. */
  readonly waitsFor: string | null;
  /** Since when a commit waits for approval; null: none does. */
  readonly awaitingSince: Date | null;
  readonly failure: Failure | null;
  /** Since when a rollback keeps the table where it is; null: it takes new versions. */
  readonly pinnedSince: Date | null;
}

/** A step in progress. */
export interface WorkState {
  /** For the operator: `loading version 12`. */
  readonly step: string;
  readonly since: Date;
  /** Bytes downloaded for the step so far. */
  readonly bytes: number;
}

/** An ongoing incident: reported when it is raised, louder as it lasts, and once when it is resolved. */
export interface OngoingIncident {
  /** The owner of the incident: `service`, `mirror`, `loop`, `run` (all work), or `subscription` and the id. */
  readonly of: string;
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly since: Date;
  readonly attempts: number;
  /** The incident has lasted so long that an operator should act: health reports it. */
  readonly isStall: boolean;
}

/** Counts since the start of this process. Keys that never occurred are absent. */
export interface Counters {
  /** By type; unreadable events as `unreadable`. */
  readonly events: ReadonlyMap<EventType | 'unreadable', number>;
  readonly commits: ReadonlyMap<CommitResult['kind'] | 'retirement', number>;
  /** `loaded`: rows of tables that were replaced as a whole. */
  readonly rows: ReadonlyMap<'added' | 'changed' | 'removed' | 'loaded', number>;
  /** Snapshots that were loaded again into a table, by reason: see `ResyncReason`. */
  readonly resyncs: ReadonlyMap<ResyncReason, number>;
  readonly downloadedBytes: number;
  /** By operation (`list subscriptions`), then by status; missing responses as `none`. */
  readonly requests: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** By what came of them; an export that found nothing new is none. */
  readonly exports: ReadonlyMap<ExportOutcome, number>;
  readonly polls: number;
  readonly audits: number;
  /** Steps that the watchdog interrupted. */
  readonly interruptions: number;
}

/**
 * Why a snapshot replaced a table: the service asked for it (`reload`), an operator did (`resync`), the schema changed
 * (`schema`), or changes were no possible path or cost more (`version`).
 */
export type ResyncReason = 'reload' | 'resync' | 'schema' | 'version';

/** A generation of the export was written, or an attempt failed. */
export type ExportOutcome = 'written' | 'failed';

export type DaemonEvent =
  /** A response of the service, or none. */
  | {
      readonly kind: 'request';
      readonly operation: string;
      readonly status: number | null;
      readonly durationMs: number;
    }
  | { readonly kind: 'events'; readonly subscriptionId: string; readonly type: EventType | 'unreadable' }
  | { readonly kind: 'bytes'; readonly datasetId: string; readonly bytes: number }
  /** How long the files or pages of a commit took to arrive, from the start of the work. */
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
  | { readonly kind: 'export'; readonly outcome: ExportOutcome }
  | { readonly kind: 'interruption' };
