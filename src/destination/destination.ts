/**
 * The port of a destination: the database that is kept equal to the feed.
 *
 * The destination stores the version of each table in the same transaction as its rows, and is the truth about versions.
 * Every operation may throw `BusyError` (a reader holds the database longer than we may wait), `StorageError` (the disk or a
 * file fails) and `ConfigurationError` (the format of the database is newer than this program).
 */

import type { Requests } from '../checkpoint/requests.ts';
import type { Candidate } from '../model/candidate.ts';
import type { CommitResult } from '../model/commits.ts';
import type { ReloadMark } from '../model/desired-state.ts';
import type { JudgedCommit } from '../model/gate.ts';
import type { ScrubbedSlice, ScrubPosition } from '../model/scrub.ts';
import type { ChangesJob, ObservedTable, ReadAhead, WriteJob } from '../model/write-jobs.ts';
import type { RecordedUnion } from './catalog/unions.ts';

export interface Destination {
  /** The requests of operators in the destination; absent where the checkpoint has their requests. */
  readonly requests?: Requests;

  /** The candidates that wait for approval, for every instance; absent where only one ever works on the destination. */
  readonly candidates?: StoredCandidates;

  /** Absent where the destination is a server, which looks after its files itself. */
  readonly scrubbing?: Scrubbing;

  /** Reads the observed state of all tables in one transaction. */
  has(): Promise<ObservedState>;

  /**
   * Records which service the destination mirrors, and gives every dataset its table name. Of datasets that would share a
   * name, the first in the list gets it. A name never changes.
   */
  enroll(enrolment: Enrolment): Promise<void>;

  /**
   * Checks a job before the database is touched: files and pages, columns, types, values of changes.
   * @throws DataError when the content cannot be loaded, naming file or page, column and value.
   * @throws UnknownColumnsError when files or rows have columns that the schema does not have.
   * @throws InapplicableChangesError when the snapshot has to be loaded instead of these changes.
   */
  validate(job: WriteJob): Promise<ValidatedJob>;

  /**
   * Decodes the changes of a job's first versions while its other versions are still being downloaded, so that `validate`
   * has less left to do. `job` has those versions alone. Resolves to null if decoding ahead does not help. Errors in the
   * content surface in `validate`.
   */
  readAhead(job: ChangesJob): Promise<ReadAhead | null>;

  /**
   * Commits jobs in one write session: those that are ready when it begins, and those that become ready meanwhile, as long
   * as a session of their own would cost more. Each job is proven first, and fails alone. Changes that cannot be proven
   * fail with `InapplicableChangesError`.
   * @throws what ends the session. Jobs without a reported outcome may have been committed or not.
   */
  commit(queue: JobQueue): Promise<void>;

  /**
   * Reads every table to its end, after an error with the code `mirror_damaged`. Resolves to the tables that cannot be read; null
   * where the destination as a whole could not be read and was quarantined.
   */
  findDamage(): Promise<readonly DamagedTable[] | null>;

  /** Ends the pin of a table: it takes new versions again. */
  unpin(datasetId: string): Promise<void>;

  /**
   * Replaces the stored progress in one transaction. Writes the differences only; without a difference the database is not
   * opened for writing. Resolves to whether the destination has `progress` now: false if there is no destination yet, or if
   * it was lost and made again since `has`, because progress is stored only beside the tables that it describes.
   *
   * `wait` waits for readers as commits do and throws `BusyError` as they do. `if-free` resolves to false at once if a
   * reader holds the destination or other work on it is under way.
   *
   * Rows about an id that no database can store (an id with a NUL) are left out.
   */
  storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean>;

  /**
   * Stores resyncs that tables owe, in place of earlier ones of their datasets, beside other work on the destination. Absent where only
   * one instance ever works on it, whose checkpoint keeps them.
   */
  keepResyncs?(resyncs: readonly OwedReload[]): Promise<void>;

  /**
   * Forgets the past of tables that is older than it is to be kept, in small transactions, for a few seconds at most. Does nothing
   * where a reader holds the destination or other work on it is under way, and where the past was pruned within the last hour.
   */
  forgetPast(): Promise<Forgotten>;

  /**
   * Records this checksum of a table whose content was found right.
   */
  storeChecksum(checksum: TableChecksum): Promise<StoredChecksum>;

  /**
   * Stores the checksums that are missing, or of another version of the hash, and closes undo logs that were altered or cannot be
   * read. An archived or frozen table that cannot be read is kept under another name, by which nothing reads it any more.
   */
  renewChecksums(renewal: ChecksumRenewal): Promise<RenewedChecksums>;

  /** Returns the unions of the configuration as the last transaction left them, in order of name. Reads nothing. */
  unions?(): readonly RecordedUnion[];

  /** Returns a number that changes while work goes on: statements end, or the running one reads rows. Cheap to read. */
  progress(): number;

  close(): Promise<void>;
}

/** How much of what is too old was forgotten; of a `part` more can be forgotten at once. */
export type Forgotten = 'nothing' | 'part' | 'all';

/** The candidates of all datasets, at most one each. */
export interface StoredCandidates {
  /** Returns them in order of the datasets' ids. */
  all(): Promise<readonly Candidate[]>;
  /** Stores the candidate of a dataset in place of an earlier one. */
  keep(candidate: Candidate): Promise<void>;
  /** Removes one that ends without a commit of its dataset: a commit removes it itself. */
  remove(datasetId: string): Promise<void>;
}

export interface Scrubbing {
  /**
   * Reads the next slice, in another process. It stops at once for any other work on the destination, and keeps what it has
   * read until then. Where the destination is busy it reads nothing.
   */
  readSlice(from: ScrubPosition | null): Promise<ScrubbedSlice>;

  /** Has another process read all of it before it is opened again. */
  suspect(): void;
}

/** A table that cannot be read to its end. */
export interface DamagedTable {
  /** With its schema. */
  readonly tableName: string;
  /** The dataset whose live table it is; null for an undo log, an archived table, a table of the catalog or of an operator. */
  readonly datasetId: string | null;
  /** The dataset whose undo log, frozen or archived table it is; null for any other table. */
  readonly pastOf: string | null;
  /** A rollback keeps the table where it is. */
  readonly isPinned: boolean;
  /** The words of the database, as a clause. */
  readonly why: string;
}

/** Returns whether a table is in the schemas of the past. `name`: with its schema. */
export function isOfPast(name: string): boolean {
  return /^(?:archived|history)\./.test(name);
}

/** The checksum of a table, as the destination computes it. */
export interface TableChecksum {
  readonly datasetId: string;
  /** The newest commit of the table; null when it was not recorded. */
  readonly commitNumber: number | null;
  readonly sum: bigint;
  /** The version of the hash. */
  readonly version: string;
}

/**
 * The result of storing a checksum:
 * - `stale`: the newest commit of the table is another one; nothing was stored.
 * - `log-closed`: another checksum was recorded, so entries of the undo log hold rows that were altered by hand.
 */
export type StoredChecksum = 'stale' | 'stored' | 'log-closed';

export interface ChecksumRenewal {
  readonly datasetIds: readonly string[];
  /** Tables that cannot be read, with their schema. */
  readonly unreadable: readonly string[];
}

/** Names of tables and logs, with their schemas. */
export interface RenewedChecksums {
  readonly stored: readonly string[];
  readonly closed: readonly string[];
  /** The names under which archived and frozen tables that cannot be read are kept as they were found. */
  readonly kept: readonly string[];
}

/** The source of jobs for an open write session. */
export interface JobQueue {
  /** Takes some of the jobs that are ready, oldest first; an empty list if none is ready. */
  take(): readonly ValidatedJob[];
  /** Resolves once a job is ready, which may be never. */
  arrival(): Promise<void>;
  /**
   * Reports the outcome of a job that was taken, once: a failure after the session has ended, any other outcome as soon as
   * it is certain.
   */
  report(job: ValidatedJob, result: JobResult): void;
  /**
   * The progress to store before the session ends, so that the destination need not be opened again; null if the tables are
   * not caught up yet. Called when no job is ready and every job that was taken has its outcome. The session stays open
   * until the answer comes: it must come soon and must not depend on the end of `commit`.
   *
   * The progress gets a transaction of its own after those of the jobs: a destination that has it has everything that was
   * reported as committed. A failure to store it is logged, does not fail the commit, and leaves the earlier progress.
   */
  progressToStore?(): Promise<StoredProgress | null>;
}

export interface ObservedState {
  /** The service this destination belongs to; null in a new one. */
  readonly service: { readonly origin: string; readonly subscriptionIds: readonly string[] } | null;
  /** By dataset id. */
  readonly datasets: ReadonlyMap<string, ObservedTable>;
  /** Null in a destination that never stored any, as a new one has not. */
  readonly progress: StoredProgress | null;
  /** The retirements of the last days, newest first; of a dataset that came back since, too. */
  readonly retired: readonly RetiredTable[];
  /** Damaged tables of the past that are kept as they were found, with their schema. Absent: none. */
  readonly keptDamaged?: readonly string[];
  /** The datasets whose table the catalog lists, and somebody has dropped. Absent: none. */
  readonly missing?: readonly string[];
}

export interface RetiredTable {
  readonly datasetId: string;
  /** In service time. */
  readonly retiredAt: Date;
  /** An operator has agreed. */
  readonly isApproved: boolean;
}

export interface Enrolment {
  readonly origin: string;
  readonly subscriptionIds: readonly string[];
  /** Subscriptions that an operator gave up. The destination forgets them, their progress and their reloads. */
  readonly forgottenSubscriptionIds: readonly string[];
  readonly datasetIds: readonly string[];
}

/** A job that passed `validate`. Opaque to everyone but the destination that made it. */
export interface ValidatedJob {
  readonly job: WriteJob;
}

/** The result of a write job. */
export type JobResult =
  | { readonly kind: 'committed'; readonly datasetId: string; readonly committed: CommitResult }
  /** `table` names the retired table with its schema; null when its rows are gone. */
  | { readonly kind: 'retired'; readonly datasetId: string; readonly table: string | null }
  /** Nothing was changed for this dataset. */
  | { readonly kind: 'failed'; readonly datasetId: string; readonly error: Error }
  /** The gate of the job holds it back until an operator approves. Nothing was changed for this dataset. */
  | { readonly kind: 'awaiting'; readonly datasetId: string; readonly judged: JudgedCommit }
  /** The destination differs from the state that the job was planned from: plan again. */
  | { readonly kind: 'stale-plan'; readonly datasetId: string };

/**
 * How far the destination has followed the service: a lost checkpoint starts from here. Up to the events of
 * `subscriptions` the tables owe nothing but `owed`.
 */
export interface StoredProgress {
  readonly subscriptions: readonly StoredSubscription[];
  readonly members: readonly StoredMember[];
  readonly owed: readonly OwedReload[];
}

/** The position in the log of a subscription. */
export interface StoredSubscription {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly logNumber: number;
  /** The newest event that was read; null when the log must be read from its start. */
  readonly eventNumber: bigint | null;
  /** When that event was created; null: not known. Another event under its number is one of another log. */
  readonly eventCreatedAt: Date | null;
  /** When the position was taken or moved last, in service time. Its event was created before that. */
  readonly positionAt: Date;
  /** Whether the record of the subscription has ever named the newest event of this log. */
  readonly statesLastEvent: boolean;
}

/** A dataset that a subscription contains, or dropped while the table is not retired yet. */
export interface StoredMember {
  readonly subscriptionId: string;
  readonly datasetId: string;
  /** The event that added it; null where no event did. */
  readonly addedEvent: bigint | null;
  /** The event that dropped it; null for a member. */
  readonly droppedEvent: bigint | null;
}

/**
 * A reload that a subscription's log or an operator asked for and that the table does not satisfy yet. A dataset may owe several. An
 * operator's has an empty subscription, its number is the time of the request, and its time that of the request to move the table.
 */
export interface OwedReload extends ReloadMark {
  readonly datasetId: string;
  readonly subscriptionId: string;
}
