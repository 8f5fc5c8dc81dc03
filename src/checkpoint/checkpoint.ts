/**
 * The port of the checkpoint: what the program must remember beside the mirror. It may lag behind the mirror and
 * never leads it; all of it can be lost and is then built anew.
 *
 * Calls are synchronous and durable when they return. Every call may throw `StorageError`.
 */

import type { Absence, AbsenceSubject } from '../model/absence.ts';
import type { CommitPosition } from '../model/commits.ts';
import type { RememberedContract } from '../model/contract.ts';
import type { DesiredState, FollowStep, Reload } from '../model/desired-state.ts';
import type { ErrorCode } from '../model/error-codes.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';
import type { EventId } from '../model/event.ts';

/** What can be read of a checkpoint. */
export interface CheckpointReader {
  rememberedContract(): RememberedContract;

  /** Subscriptions that were started, by id. */
  followed(): ReadonlyMap<string, Followed>;

  /** By dataset id. */
  desiredStates(): ReadonlyMap<string, DesiredState>;
  /** Null where nothing is wanted of the dataset. */
  desired(datasetId: string): DesiredState | null;

  /** What is absent without an event that says so. */
  absences(): readonly Absence[];

  /** Subscriptions that a person gave up and that the destination still names. */
  forgotten(): readonly string[];

  suspensions(): readonly Suspension[];

  /** By dataset id. */
  failures(): ReadonlyMap<string, Failure>;
  failure(datasetId: string): Failure | null;

  /** Those that were added from here, the newest first. The service has no list of them. */
  webhooks(): readonly KeptWebhook[];

  /** Of the command that is run after commits. */
  hook(): HookRecord;

  /** The newest lines first. */
  recentSyncRuns(limit: number): readonly SyncRun[];

  /** A number that is another one after another process has stored something. Costs next to nothing to ask for. */
  othersStored(): number;

  close(): void;
}

/**
 * Texts meant for people are cut to a limit. Ids are kept whole, because a cut one would be another's.
 *
 * Every call that stores may also throw `BusyError`: another process of ours writes for longer than we wait.
 */
export interface Checkpoint extends CheckpointReader {
  rememberContract(contract: RememberedContract): void;

  /**
   * The wants and the cursor of one step, in one transaction. The cursor is stored as it is, also null or an earlier
   * one. A dataset that was dropped and is held again is refused no more: its hold is lifted in the same transaction.
   * The subscription is forgotten no more. The same step again changes nothing but the looks: each one asked for is
   * owed.
   * @throws ContractViolationError for an id that cannot be kept as it is; nothing of the step is then stored.
   */
  commitFollowStep(step: FollowStep): void;

  /** Several steps as one: what is taken over from the destination after the checkpoint was lost, or an older one restored. */
  adopt(steps: readonly FollowStep[]): void;

  /** The record of the subscription names its newest event: should it name none one day, the log has begun anew. */
  noteStatedLastEvent(subscriptionId: string): void;

  /** The manifest of the subscription was compared with what is wanted, at this service time. */
  noteAudited(subscriptionId: string, at: Date): void;

  /** `absent` from now on or still, `present` again or confirmed to be gone: of these nothing is remembered. */
  noteAbsences(absent: readonly Absence[], present: readonly AbsenceSubject[]): void;

  /** A list of versions was read that ends with `newest`: for reloads that wait for the first one after them. */
  noteListed(datasetId: string, newest: number): void;

  /** Versions above this one were announced and are withdrawn. */
  voidAnnounced(datasetId: string, above: number): void;

  /**
   * The table is retired: of its versions none is absent, and it owes nothing any more. `owed` is what a table from before the
   * retirement owes, for a destination that is restored.
   */
  noteRetired(datasetId: string, owed: readonly Reload[]): void;

  /** The table satisfies these reloads; of each subscription the newest stays, for a destination that is restored. */
  markAnswered(datasetId: string, isSatisfied: (reload: Reload) => boolean): void;

  /** The looks asked for up to `looksAsked` are done: versions and schemas were read and the table is at their head. */
  markLooked(datasetId: string, refreshesRequested: number): void;

  /**
   * A person asks that the snapshots be loaded again, also of datasets that failed. Those not wanted by any
   * subscription are left out.
   * @returns the datasets that will be loaded.
   */
  askResync(datasetIds: readonly string[]): readonly string[];

  /**
   * A person agrees that everything is retired that no subscription holds now, and lifts the hold of retirements.
   * @returns the datasets.
   */
  approveRetirements(): readonly string[];

  /**
   * A person gives subscriptions up: their positions, what they wanted and their holds are gone in one transaction, and
   * with them the person agrees that what only they held is retired.
   * @returns the datasets they held, one that several held as often.
   */
  forget(...subscriptionIds: readonly string[]): readonly string[];
  /**
   * The destination names these subscriptions no more, nor which of their reloads its tables satisfy: those that
   * `isSatisfied` names are owed by nobody.
   */
  clearForgotten(
    subscriptionIds: readonly string[],
    isSatisfied: (reload: Reload, datasetId: string) => boolean,
  ): void;

  /** Stores a refusal. One that stands already for the same scope is replaced. */
  suspension(suspension: Suspension): void;
  /** True when something was held. */
  lift(scope: RefusalScope): boolean;

  fail(failure: Failure): void;
  /** The dataset's work ended well: its failure is over. */
  clearFailure(datasetId: string): void;

  /** A webhook that was added: its id is what it is tested by. The oldest are dropped past a limit. */
  keepWebhook(webhook: KeptWebhook): void;

  /**
   * A webhook arrived. The oldest are dropped past a limit of number and of age.
   * @returns false where one of this id had arrived before.
   */
  rememberDelivery(deliveryId: string, at: Date): boolean;

  /** The command that is run after commits was told of everything up to there: it fails no more. */
  hookReported(position: CommitPosition, at: Date): void;
  /** It failed, and is to be told again. */
  hookFailed(message: string, at: Date): void;

  /** A line of what was done. The oldest lines are dropped past a limit. */
  syncRuns(entry: SyncRun): void;
}

export interface Followed {
  readonly subscriptionId: string;
  readonly name: string | null;
  /** Counts the logs that the service has begun for the subscription, from 1. */
  readonly logNumber: number;
  /** Null: the log is read from its start. */
  readonly cursor: EventId | null;
  /** When the event at the cursor was created; null: not known. */
  readonly cursorCreatedAt: Date | null;
  /** When the cursor last moved or was taken, in service time. */
  readonly cursorAt: Date;
  /**
   * When the log was last read from its start because it is quiet (`LogPosition.isQuiet`), in service time; null: it is read after
   * the cursor.
   */
  readonly replayedAt: Date | null;
  /** Events created up to then are reflected by the manifest that the tables were taken from; null: that says nothing of time. */
  readonly coveredUntil: Date | null;
  /** Its record has named its newest event before. */
  readonly statesLastEvent: boolean;
  /** When its manifest was last compared with what is wanted, in service time; null: it never was. */
  readonly auditedAt: Date | null;
}

/** A refusal that stands until a person has acted. */
export interface Suspension {
  readonly refusal: Refusal;
  readonly suspendedAt: Date;
  /** Hashes of the API key that was refused and of the base URL; another of either lifts a hold of the workspace. */
  readonly keyHash: string;
}

/** Why a dataset is not where it should be, though nothing is refused. */
export interface Failure {
  readonly datasetId: string;
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  /** The identities of what was found bad: none of it is fetched again before `retryAt`. Empty: it was no content. */
  readonly contents: readonly string[];
  /** Beside them, what differed from what the service states of it; the newest first. */
  readonly differing: readonly DifferingContent[];
  /** Consecutive failures. */
  readonly attempts: number;
  readonly failedAt: Date;
  readonly retryAt: Date;
}

/** Content that is not fetched again before a time of its own. */
export interface DifferingContent {
  /** Its identity. */
  readonly content: string;
  /** When it last differed. */
  readonly failedAt: Date;
  readonly retryAt: Date;
}

export interface KeptWebhook {
  readonly webhookId: string;
  readonly url: string;
  readonly createdAt: Date;
}

export interface HookRecord {
  /** The last commit that the command was told of; null: none yet. */
  readonly reported: CommitPosition | null;
  /** When it was last told of something; null: never. */
  readonly reportedAt: Date | null;
  /** Null: its last run did not fail. */
  readonly failure: { readonly message: string; readonly attempts: number; readonly failedAt: Date } | null;
}

export interface SyncRun {
  readonly at: Date;
  readonly kind: string;
  readonly datasetId: string | null;
  readonly detail: string;
}
