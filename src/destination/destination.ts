/**
 * The port of a destination: the database that is kept equal to the feed.
 *
 * What it holds of each dataset is written in it, in the same transaction as the rows, and is the truth about
 * versions. Every operation may throw `BusyError` (a reader holds the database longer than we may wait),
 * `StorageError` (disk or file trouble) and `ConfigurationError` (its format is newer than this program).
 */

import type { ReloadMark } from '../model/desired-state.ts';
import type { Counts } from '../model/records.ts';
import type { ChangesJob, ObservedTable, ReadAhead, WriteJob } from '../model/write-jobs.ts';

export interface Destination {
  /** What the destination has, read in one moment. */
  has(): Promise<ObservedState>;

  /**
   * Records which service the destination mirrors and gives every dataset its table name: in the order of the list
   * for those that would share one. A name, once given, never changes.
   */
  enroll(enrolment: Enrolment): Promise<void>;

  /**
   * Examines a unit of work before the database is touched: files and pages, columns, types, values of changes.
   * @throws DataError when the content cannot be loaded, naming file or page, column and value.
   * @throws UnknownColumnsError when files or rows hold columns that the schema does not know.
   * @throws InapplicableChangesError when the snapshot has to be loaded instead of these changes.
   */
  validate(job: WriteJob): Promise<ValidatedJob>;

  /**
   * Reads the changes of the first versions of a unit, or of those after what was read ahead already, while those that follow are
   * still being fetched: a unit of them alone. What it gives goes into the whole unit, which is then prepared sooner. Null where
   * that does not help; whatever is wrong comes out as the unit is prepared.
   */
  readAhead(job: ChangesJob): Promise<ReadAhead | null>;

  /**
   * Commits units inside one window in which the database is open for writing: those that are ready as it begins, and those
   * that have become ready meanwhile, as long as a window of their own would cost more. Each is proven first, and each
   * fails alone. Changes that do not prove fail with `InapplicableChangesError`.
   * @throws what concerns the window, after which nothing more is told: of the units that were taken, those that nobody was
   * told of may have been committed or not.
   */
  commit(queue: JobQueue): Promise<void>;

  /**
   * Stores, in one transaction, how far the destination has followed the service, in place of what was
   * stored before. Only what differs is written; where nothing differs, the destination is not opened for
   * writing. Resolves to whether the destination holds `progress` now. False where there is no destination
   * yet, and where it was lost and made anew since `has` was called: progress is stored only beside the
   * tables that it describes.
   *
   * `wait` waits for readers as commits do, and throws `BusyError` as they do. `if-free` resolves to false at
   * once where a reader holds the destination, or where other work on the destination is under way or waits.
   *
   * Rows about an id that no database can keep (an id with a NUL) are left out.
   */
  storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean>;

  /**
   * Another number as long as what it was asked to do gets on: statements end, or the one that runs reads rows. Costs next
   * to nothing to ask for.
   */
  progress(): number;

  close(): Promise<void>;
}

/** Where a destination takes its units from while its window is open. */
export interface JobQueue {
  /** Some of the units that are ready, oldest first; none where none is. */
  take(): readonly ValidatedJob[];
  /** Resolves once a unit is ready, which may be never. */
  arrival(): Promise<void>;
  /**
   * Tells once of each unit that was taken what became of it: of one that failed when the window has ended, of others as soon as
   * it is certain.
   */
  report(job: ValidatedJob, outcome: Outcome): void;
  /**
   * The progress to store in the window that is about to end, so that the destination need not be opened
   * once more; null where the tables are not caught up yet. Called when no unit is ready, and only where every
   * unit that was taken was told of. The destination waits for the answer while its window is open: the answer
   * must come soon, and must not depend on the end of `commit`.
   *
   * The progress is stored in a transaction of its own, after those of the units: a destination that holds it
   * holds everything that was told as committed. A failure to store it is logged and does not fail the commit;
   * the earlier progress then stays.
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
  /**
   * Subscriptions that a person gave up: the destination belongs to them no more, and forgets their progress
   * and reloads.
   */
  readonly forgottenSubscriptionIds: readonly string[];
  readonly datasetIds: readonly string[];
}

/** A unit that `prepare` found fit. Opaque to all but the destination that made it. */
export interface ValidatedJob {
  readonly job: WriteJob;
}

export type Outcome =
  | { readonly kind: 'committed'; readonly datasetId: string; readonly committed: Committed }
  /** `table` is where the rows are now, with its schema; null where they are gone. */
  | { readonly kind: 'retired'; readonly datasetId: string; readonly table: string | null }
  /** Nothing was changed for this dataset. */
  | { readonly kind: 'failed'; readonly datasetId: string; readonly error: Error }
  /** The destination is no longer what the unit was planned from: plan again. */
  | { readonly kind: 'stale-plan'; readonly datasetId: string };

export interface Committed {
  readonly tableName: string;
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly rowCount: number;
  /** Rows that the commit added, changed and removed; null where the table was replaced as a whole. */
  readonly net: Counts | null;
  /** The live table as `has` tells it from now on: the next step is planned from it. */
  readonly observed: ObservedTable;
}

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
  /** The newest event that was read; null where the log is to be read from its start. */
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

/** A reload that a subscription's log asked for and that the table does not satisfy yet. A dataset may owe several. */
export interface OwedReload extends ReloadMark {
  readonly datasetId: string;
  readonly subscriptionId: string;
}
