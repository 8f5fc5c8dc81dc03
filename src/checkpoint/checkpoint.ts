/**
 * The port of the checkpoint, which stores what the program must remember beside the mirror. Invariant: the checkpoint may lag
 * behind the mirror and never leads it. All of it can be lost and is then built anew.
 *
 * Calls are synchronous and durable when they return. Every call may throw `StorageError`.
 */

import type { Absence, AbsenceSubject } from '../model/absence.ts';
import type { Candidate } from '../model/candidate.ts';
import type { CommitPosition } from '../model/commits.ts';
import type { RememberedContract } from '../model/contract.ts';
import type { DesiredState, FollowStep, Reload, Resync } from '../model/desired-state.ts';
import type { ErrorCode } from '../model/error-codes.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';
import type { EventId } from '../model/event.ts';
import type { NotificationLedger } from '../model/notification.ts';
import type { ScrubRecord } from '../model/scrub.ts';
import type { Requests } from './requests.ts';

export interface CheckpointReader {
  rememberedContract(): RememberedContract;

  /** Returns the subscriptions whose log is followed, by id. */
  followed(): ReadonlyMap<string, Followed>;

  /** Returns the last polls: of the list of subscriptions, and of the log of each subscription. */
  polls(): readonly Poll[];

  /** By dataset id. */
  desiredStates(): ReadonlyMap<string, DesiredState>;
  /** Returns null for a dataset that no subscription has named. */
  desired(datasetId: string): DesiredState | null;

  /** Returns the subjects that are absent without an event that says so. */
  absences(): readonly Absence[];

  /** Returns the mentions whose absence is not confirmed. */
  mentions(): readonly Mention[];

  /** Returns the subscriptions that an operator forgot and that the destination still names. */
  forgotten(): readonly string[];

  /** Returns the suspensions that are stored as such; `suspensionsAmong` adds those of candidates. */
  suspensions(): readonly Suspension[];

  /** Returns the contents that wait for approval, in order of dataset. */
  candidates(): readonly Candidate[];

  /** By dataset id. */
  failures(): ReadonlyMap<string, Failure>;
  failure(datasetId: string): Failure | null;

  /** Returns the webhooks that this program added, the newest first. The service has no list of them. */
  webhooks(): readonly KeptWebhook[];

  /** Returns the number of the newest delivery that arrived; 0 where none has. */
  newestDelivery(): number;

  hook(): HookRecord;

  /** Returns what operators were notified of. */
  notificationLedger(): NotificationLedger;

  /** Returns how far the mirror has been scrubbed. */
  scrub(): ScrubRecord;

  /** Returns the newest sync runs first. */
  recentSyncRuns(limit: number): readonly SyncRun[];

  /** Returns a number that changes whenever another process has stored something. The call costs next to nothing. */
  othersStored(): number;

  close(): void;
}

/** The record of the subscription named the dataset, whose table no subscription was known to contain. */
export interface Mention {
  readonly subscriptionId: string;
  readonly datasetId: string;
}

/**
 * Texts for people are cut to a limit. Ids are kept whole, because a cut id would be the id of something else.
 *
 * Every call that stores may also throw `BusyError`: another process of feed-sync writes for longer than this one waits.
 */
export interface Checkpoint extends CheckpointReader {
  readonly requests: Requests;

  rememberContract(contract: RememberedContract): void;

  /**
   * Stores the desired states and the cursor of one step in one transaction. The cursor is stored as it is, also null or an
   * earlier one. A dataset that its subscription dropped and contains again is no longer suspended. The subscription is no
   * longer forgotten. Storing the same step again changes nothing but requested refreshes, each of which is owed.
   * @throws ContractViolationError for an id that cannot be kept as it is; nothing of the step is then stored.
   */
  commitFollowStep(step: FollowStep): void;

  /**
   * Stores several steps as one: the progress in the destination, after the checkpoint was lost or an older one restored, or another
   * instance has worked. A resync that is not newer than the known one changes nothing, nor one of a dataset in no subscription.
   */
  adopt(steps: readonly FollowStep[], resyncs: readonly Resync[]): void;

  /** Notes that the subscription's record states its newest event. A record that states none later has a new log. */
  noteStatedLastEvent(subscriptionId: string): void;

  /** Notes that the subscription's manifest was compared with the desired states at this service time. */
  noteAudited(subscriptionId: string, at: Date): void;

  /**
   * Notes the end of a poll: the process for which it succeeded, or its error. A success ends a failure; a failure keeps the
   * last success and its own start. The subject is as in `Poll`.
   */
  notePoll(subscriptionId: string | null, at: Date, end: ProcessName | Error): void;

  /** Stores `absent`, and removes `present`: subjects that are present again or confirmed to be gone. */
  noteAbsences(absent: readonly Absence[], present: readonly AbsenceSubject[]): void;

  /** Stores new mentions, and removes mentions that are over. An event about a dataset ends its mention, too. */
  noteMentions(mentions: readonly Mention[], over: readonly Mention[]): void;

  /** Notes that a list of versions ended with `newest`, for reloads that wait for the first list after them. */
  noteListed(datasetId: string, newest: number): void;

  /** Withdraws announced versions above this one. */
  voidAnnounced(datasetId: string, above: number): void;

  /**
   * Notes that the table is retired: it owes nothing any more, and none of its versions is absent. `owed` is what a table
   * from before the retirement owes, for a destination that is restored.
   */
  noteRetired(datasetId: string, owed: readonly Reload[]): void;

  /** Notes reloads that a rollback may leave unsatisfied; those that are known already are not noted twice. */
  oweAgain(datasetId: string, reloads: readonly Reload[]): void;

  /** Removes the reloads that the table satisfies. The newest of each subscription stays, for a restored destination. */
  markSatisfied(datasetId: string, isSatisfied: (reload: Reload) => boolean): void;

  /** Marks this many refreshes as done: versions and schemas were read and the table is at their head. */
  markRefreshed(datasetId: string, refreshesRequested: number): void;

  /**
   * Requests for an operator that the snapshots be loaded again, also of datasets that failed. Datasets that no subscription
   * contains are left out. `moves`: whether the load also moves the table into the schema that the settings say; null
   * leaves that as an earlier request has decided it.
   * @returns the datasets that will be loaded.
   */
  requestResync(datasetIds: readonly string[], moves?: boolean | null): readonly string[];

  /**
   * Approves for an operator the retirement of every dataset that no subscription contains now, and lifts the suspension of
   * retirements.
   * @returns the datasets.
   */
  approveRetirements(): readonly string[];

  /**
   * Forgets subscriptions for an operator: removes their positions, their part of the desired states and their suspensions in
   * one transaction, and approves the retirement of the datasets that no other subscription contains.
   * @returns the datasets that each of them contained.
   */
  forget(...subscriptionIds: readonly string[]): readonly string[];

  /** Removes forgotten subscriptions that the destination no longer names, and those of their reloads that are satisfied. */
  clearForgotten(
    subscriptionIds: readonly string[],
    isSatisfied: (reload: Reload, datasetId: string) => boolean,
  ): void;

  /** Stores a suspension in place of an earlier one of the same scope. */
  suspend(suspension: Suspension): void;
  /** Returns true where the scope was suspended. */
  lift(scope: RefusalScope): boolean;

  /** Stores the candidate of a dataset in place of an earlier one. */
  keepCandidate(candidate: Candidate): void;
  removeCandidate(datasetId: string): void;

  fail(failure: Failure): void;
  clearFailure(datasetId: string): void;

  /** Stores a webhook that was added; a test needs its id. The oldest are dropped past a limit. */
  keepWebhook(webhook: KeptWebhook): void;
  forgetWebhook(webhookId: string): void;

  /**
   * Stores the id of a delivery. The oldest are dropped past a limit of number and of age.
   * @returns false where the delivery had arrived before.
   */
  rememberDelivery(deliveryId: string, at: Date): boolean;

  /** Notes that the hook was given every commit up to this position, which ends its failure. */
  hookReported(position: CommitPosition, at: Date): void;
  /** Notes that the hook failed. It is given the same commits again. */
  hookFailed(message: string, at: Date): void;

  /** Stores what operators were notified of, in place of what is stored. */
  keepNotificationLedger(ledger: NotificationLedger): void;

  /** Stores how far the mirror has been scrubbed, in place of what is stored. */
  keepScrub(record: ScrubRecord): void;

  /** Reads the whole file anew. Returns what SQLite finds wrong with it, null where nothing is. */
  damage(): string | null;

  /** The oldest sync runs are dropped past a limit. */
  recordSyncRun(run: SyncRun): void;
}

export interface Followed {
  readonly subscriptionId: string;
  readonly name: string | null;
  /** Counts the logs of the subscription that the service has started, from 1. */
  readonly logNumber: number;
  /** Null: the log is read from its start. */
  readonly cursor: EventId | null;
  /** When the event at the cursor was created; null: not known. */
  readonly cursorCreatedAt: Date | null;
  /** When the cursor last moved or was taken, in service time. */
  readonly cursorAt: Date;
  /**
   * When the log was last read from its start because its cursor had expired, in service time; null: it is read after the
   * cursor.
   */
  readonly replayedAt: Date | null;
  /** The manifest watermark: the tables were loaded from a manifest that contains every event created up to this time. */
  readonly coveredUntil: Date | null;
  /** Whether its record has stated its newest event before. */
  readonly statesLastEvent: boolean;
  /** When its manifest was last compared with the desired states, in service time; null: never. */
  readonly auditedAt: Date | null;
}

/** When the service was last asked for something, by the clock of this machine. */
export interface Poll {
  /** The subscription whose log was read; null: the list of subscriptions. */
  readonly subscriptionId: string | null;
  /** Null: it never succeeded. */
  readonly success: { readonly at: Date; readonly process: ProcessName } | null;
  /** Null: the last poll succeeded. */
  readonly failure: PollFailure | null;
}

/** Names a process for people. */
export interface ProcessName {
  readonly command: string;
  readonly pid: number;
  readonly host: string;
}

export interface PollFailure {
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly since: Date;
  /** When it failed last. */
  readonly at: Date;
}

/** A suspension, which stands until an operator has acted. */
export interface Suspension {
  readonly refusal: Refusal;
  readonly suspendedAt: Date;
  /** Hashes of the refused API key and of the base URL. Another of either lifts a suspension of the workspace. */
  readonly keyHash: string;
  /** The content that waits for approval, where that is why the dataset is suspended. */
  readonly candidate?: Candidate;
}

/** Why a dataset is behind, though nothing is suspended. */
export interface Failure {
  readonly datasetId: string;
  readonly error: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  /** The identities of bad content, which is not fetched again before `retryAt`. Empty: the content was not at fault. */
  readonly contents: readonly string[];
  /** Content that differed from what the service states about it, the newest first. */
  readonly differing: readonly DifferingContent[];
  /** Consecutive failures. */
  readonly attempts: number;
  readonly failedAt: Date;
  readonly retryAt: Date;
}

/** The content that is not fetched again before its own `retryAt`. */
export interface DifferingContent {
  /** The identity of the content. */
  readonly content: string;
  readonly failedAt: Date;
  readonly retryAt: Date;
}

export interface KeptWebhook {
  readonly webhookId: string;
  readonly url: string;
  readonly createdAt: Date;
  /** The file with its secret, and the digest of the secret; null where an older program added it. */
  readonly secret: { readonly path: string; readonly digest: string } | null;
}

export interface HookRecord {
  /** The last commit that the hook was given; null: none yet. */
  readonly reported: CommitPosition | null;
  /** When the hook was last given commits; null: never. */
  readonly reportedAt: Date | null;
  /** Null: the last run of the hook did not fail. */
  readonly failure: { readonly message: string; readonly attempts: number; readonly failedAt: Date } | null;
}

export interface SyncRun {
  readonly at: Date;
  readonly kind: string;
  readonly datasetId: string | null;
  readonly detail: string;
}
