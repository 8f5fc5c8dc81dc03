/** The shape of `status --json`, which programs rely on. */

import type { AbsenceSubject } from '../../model/absence.ts';
import type { Need } from '../../sync/plan/need.ts';
import type { DatasetPhaseKind } from '../../sync/plan/plan.ts';
import type { AwaitedSubscription } from '../../sync/plan/retirement.ts';
import type { SuspensionStatus } from '../../sync/suspensions.ts';
import type { FailureStatus } from './datasets.ts';

export interface Status {
  readonly dataDirectory: string;
  readonly mirror: MirrorStatus;
  /** Null where none is to be published. */
  readonly publishedCopy: PublishedCopyStatus | null;
  /** Null where no command is to be run after commits. */
  readonly afterCommit: AfterCommitStatus | null;
  readonly runningInstance: { readonly pid: number; readonly host: string; readonly command: string } | null;
  readonly subscriptions: readonly SubscriptionStatus[];
  /** Ids of subscriptions that a person gave up and that the next catch-up takes out of the mirror. */
  readonly forgottenSubscriptions: readonly string[];
  readonly datasets: readonly DatasetStatus[];
  /** What complete reads lack without an event that says so. Nothing changes before a later read confirms that it is gone. */
  readonly absences: readonly AbsenceStatus[];
  /** Of the workspace, of subscriptions and of retirements; those of datasets are with the datasets. */
  readonly suspensions: readonly SuspensionStatus[];
}

export interface MirrorStatus {
  readonly path: string;
  readonly state: 'present' | 'absent' | 'busy' | 'unusable';
  /** Why it is unusable, or who keeps it; null where it can be read, or was not looked at yet. */
  readonly problem: string | null;
  /** What can be done about that trouble; null where there is none, or the trouble says all there is. */
  readonly hint: string | null;
  /** Processes of others that have it open: a commit waits for them. Empty where the system does not tell. */
  readonly lockHolders: readonly number[];
  /** Of the file and its log; 0 where there is none, or it cannot be looked at. */
  readonly bytes: number;
  /** Those of the file that hold nothing; null where that is not known. */
  readonly freeBytes: number | null;
  /** So much of it holds nothing that `feed-sync compact` is worth it; null where that is not known. */
  readonly isWorthCompacting: boolean | null;
}

export interface PublishedCopyStatus {
  readonly path: string;
  /** Null: there is none yet. */
  readonly publishedAt: string | null;
}

export interface AfterCommitStatus {
  /** When it was last told of something; null: never. */
  readonly reportedAt: string | null;
  /** Null: its last run did not fail. */
  readonly failure: {
    readonly message: string;
    readonly attempts: number;
    readonly failedAt: string;
  } | null;
}

export interface SubscriptionStatus {
  readonly id: string;
  readonly name: string | null;
  readonly cursor: string | null;
  readonly cursorAt: string;
  /** When its log was last read from its start because the service keeps nothing as old as the cursor; null: it is read on. */
  readonly replayedAt: string | null;
  /** `refused`: by the service, alone or with the workspace; `missing`: it was there and is gone. */
  readonly state: 'followed' | 'refused' | 'missing';
  /** Whether a hold keeps it from being read: it is refused or missing. */
  readonly isSuspended: boolean;
}

export interface DatasetStatus {
  readonly id: string;
  readonly state: DatasetPhaseKind;
  /** Whether datasets.include and datasets.exclude let it be mirrored. Where they do not, nothing is done about it. */
  readonly isChosen: boolean;
  /**
   * The most pressing thing to do; null where the mirror could not be read, where no subscription holds the dataset and
   * where it is not chosen.
   */
  readonly need: Need | null;
  /** Ids of the subscriptions that hold it. */
  readonly subscriptions: readonly string[];
  readonly table: string | null;
  readonly version: number | null;
  readonly wantedVersion: number | null;
  readonly rows: number | null;
  readonly publishedAt: string | null;
  readonly appliedAt: string | null;
  /** The service asked that it be loaded again; null where the mirror could not be read. */
  readonly isReloadPending: boolean | null;
  /** A person asked that it be loaded again; null where the mirror, which says whether it was, could not be read. */
  readonly isResyncPending: boolean | null;
  /** Its versions and schemas are to be read. */
  readonly isRefreshPending: boolean;
  /** Its table is to leave the mirror; null where it stays. */
  readonly retirement: RetirementStatus | null;
  /** Its own. What is suspended with its subscriptions or the workspace has the state `held` and no hold of its own. */
  readonly suspension: SuspensionStatus | null;
  readonly failure: FailureStatus | null;
}

export interface AbsenceStatus {
  readonly kind: AbsenceSubject['kind'];
  /** Null for a version and for a table. */
  readonly subscriptionId: string | null;
  /** Null for a subscription and for a log. */
  readonly datasetId: string | null;
  /** Null for all but a version. */
  readonly version: number | null;
  /** In service time, as the next one. */
  readonly since: string;
  /** A read that lacks it from then on confirms that it is gone. */
  readonly confirmedAfter: string;
}

export interface RetirementStatus {
  /** For people: why. */
  readonly reason: string;
  /** So many go at once that a person has to agree first. */
  readonly waitsForApproval: boolean;
  /** Subscriptions that the next catch-up has to wait for, as far as the stores tell. */
  readonly waitsFor: readonly AwaitedStatus[];
}

interface AwaitedStatus {
  readonly subscriptionId: string;
  readonly reason: AwaitedSubscription['reason'];
}
