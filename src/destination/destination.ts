/**
 * The port of a destination: the database that is kept equal to the feed.
 *
 * What it holds of each dataset is written in it, in the same transaction as the rows, and is the truth about
 * versions. Every operation may throw `BusyError` (a reader holds the database longer than we may wait),
 * `StorageError` (disk or file trouble) and `ConfigurationError` (its format is newer than this program).
 */

import type { ColumnType } from '../model/column.ts';
import type { ReloadMark } from '../model/reload-mark.ts';
import type { Schema } from '../model/schema.ts';
import type { Counts } from '../model/version.ts';
import type { StoredProgress } from './stored-progress.ts';

export interface Destination {
  /** What the destination has, read in one moment. */
  has(): Promise<Held>;

  /**
   * Records which service the destination mirrors and gives every dataset its table name: in the order of the list
   * for those that would share one. A name, once given, never changes.
   */
  enroll(enrolment: Enrolment): Promise<void>;

  /**
   * Examines a unit of work before the database is touched: files and pages, columns, types, values of changes.
   * @throws DataError when the content cannot be loaded, naming file or page, column and value.
   * @throws UnknownColumnsError when files or rows hold columns that the schema does not know.
   * @throws UnusableChangesError when the snapshot has to be loaded instead of these changes.
   */
  prepare(unit: Unit): Promise<Prepared>;

  /**
   * Reads the changes of the first versions of a unit, or of those after what was read ahead already, while those that follow are
   * still being fetched: a unit of them alone. What it gives goes into the whole unit, which is then prepared sooner. Null where
   * that does not help; whatever is wrong comes out as the unit is prepared.
   */
  readAhead(unit: ChangesUnit): Promise<ReadAhead | null>;

  /**
   * Commits units inside one window in which the database is open for writing: those that are ready as it begins, and those
   * that have become ready meanwhile, as long as a window of their own would cost more. Each is proven first, and each
   * fails alone. Changes that do not prove fail with `UnusableChangesError`.
   * @throws what concerns the window, after which nothing more is told: of the units that were taken, those that nobody was
   * told of may have been committed or not.
   */
  commit(queue: UnitQueue): Promise<void>;

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
export interface UnitQueue {
  /** Some of the units that are ready, oldest first; none where none is. */
  take(): readonly Prepared[];
  /** Resolves once a unit is ready, which may be never. */
  arrival(): Promise<void>;
  /**
   * Tells once of each unit that was taken what became of it: of one that failed when the window has ended, of others as soon as
   * it is certain.
   */
  tell(unit: Prepared, outcome: Outcome): void;
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

export interface Held {
  /** The service this destination belongs to; null in a new one. */
  readonly service: { readonly origin: string; readonly subscriptionIds: readonly string[] } | null;
  /** By dataset id. */
  readonly datasets: ReadonlyMap<string, HeldDataset>;
  /** Null in a destination that never stored any, as a new one has not. */
  readonly progress: StoredProgress | null;
  /** The retirements of the last days, newest first; of a dataset that came back since, too. */
  readonly retired: readonly RetiredTable[];
}

/**
 * - `stated`: made of the digests that the manifest states.
 * - `computed`: made of the files that were downloaded, because the manifest does not state every digest.
 */
export type DigestKind = 'stated' | 'computed';

export interface RetiredTable {
  readonly datasetId: string;
  /** In service time. */
  readonly retiredAt: Date;
  /** An operator has agreed. */
  readonly isApproved: boolean;
}

/** A live table: a row of `feed_sync.datasets`, with its reloads. */
export interface HeldDataset {
  readonly datasetId: string;
  readonly tableName: string;
  readonly version: number;
  readonly schemaVersion: string | null;
  readonly rowCount: number;
  readonly keyColumns: readonly string[];
  /** The version and the digest of the snapshot the table was last loaded from. */
  readonly snapshotVersion: number;
  readonly snapshotDigest: string;
  /** Null where it is not known: in a mirror that an earlier format recorded. */
  readonly digestKind: DigestKind | null;
  /** The subscription whose manifest named that snapshot; null: the dataset's own manifest, or not known. */
  readonly loadedThrough: string | null;
  /** The service time of that manifest; null where it is not known. */
  readonly loadedAt: Date | null;
  readonly publishedAt: Date | null;
  readonly appliedAt: Date;
  /** In the order of the table. */
  readonly columns: readonly HeldColumn[];
  /** By subscription id: the newest reload event that the table satisfies. */
  readonly reloads: ReadonlyMap<string, ReloadMark>;
}

/** A column of a live table: a row of `feed_sync.columns`. */
export interface HeldColumn {
  /** As the service names it. */
  readonly name: string;
  /** Its name in the table. */
  readonly columnName: string;
  readonly type: ColumnType;
  readonly role: 'key' | 'data' | 'envelope';
  /** The coordinate system of a geometry; null where it is not known, and for other columns. */
  readonly crs: string | null;
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

/** A unit of work: what is committed as one for one dataset. */
export type Unit = SnapshotUnit | ChangesUnit | RetirementUnit;

/** The whole table is replaced by the content of the files. */
export interface SnapshotUnit {
  readonly kind: 'snapshot';
  readonly datasetId: string;
  readonly version: number;
  readonly publishedAt: Date | null;
  readonly schema: Schema;
  readonly files: readonly SnapshotFile[];
  readonly digest: string;
  readonly digestKind: DigestKind;
  /** The subscription whose manifest names the files; null: the dataset's own manifest. */
  readonly loadedThrough: string | null;
  /** The service time of that manifest; null where it is not known. */
  readonly loadedAt: Date | null;
  /** Every number the service gave for the rows of this version (version record, manifest); each is checked. */
  readonly expectedRowCounts: readonly ExpectedRowCount[];
  /**
   * By subscription id, the newest reload event that this snapshot satisfies. One that is older than what the
   * table satisfies already changes nothing.
   */
  readonly reloads: ReadonlyMap<string, ReloadMark>;
  /** What the unit was planned from. If the destination has something else by then, the outcome is `overtaken`. */
  readonly plannedFrom: PlannedFrom | null;
}

/** The table moves along the versions of a chain, in one step: the net change of them all. */
export interface ChangesUnit {
  readonly kind: 'changes';
  readonly datasetId: string;
  /** The version the table has afterwards: that of the last of `versions`. */
  readonly version: number;
  readonly publishedAt: Date | null;
  /** That of `version`. Columns of it that the table lacks are added, where the unit `addsColumns`. */
  readonly schema: Schema;
  /** Without it the table's columns stay as they are. */
  readonly addsColumns: boolean;
  /** From the version after the table's on, oldest first, never empty. */
  readonly versions: readonly VersionChanges[];
  /** What was read of `versions` before they were all there: from the first one on, without a gap. */
  readonly ahead?: readonly ReadAhead[];
  readonly plannedFrom: HeldDataset;
}

/** What `readAhead` read. Opaque to all but the destination that made it. */
export interface ReadAhead {
  /** How many versions it holds. */
  readonly versions: number;
}

/** The recorded changes of one version, and what the service says of them; null is not checked. */
export interface VersionChanges {
  readonly version: number;
  /** Paths of the response bodies as the service sent them, in order. */
  readonly pages: readonly string[];
  readonly counts: Counts | null;
  /** Rows of the whole dataset at this version. */
  readonly rowCount: number | null;
}

/**
 * The table leaves the mirrored data; its name stays the dataset's, should it come back. The reloads that the
 * table satisfies or owes go with it, and so do the rows of stored progress that say which subscriptions
 * contained the dataset.
 */
export interface RetirementUnit {
  readonly kind: 'retirement';
  readonly datasetId: string;
  readonly how: Retirement;
  /** For people: why. */
  readonly reason: string;
  /** When it was judged, in service time. */
  readonly retiredAt: Date;
  /** An operator has agreed to it. */
  readonly isApproved: boolean;
  readonly plannedFrom: HeldDataset;
}

/**
 * - `archive`: a copy under another name, out of the mirrored data.
 * - `drop`: gone.
 * - `keep`: it stays where it is, and is followed no more.
 */
export type Retirement = 'archive' | 'drop' | 'keep';

export interface SnapshotFile {
  readonly path: string;
  /** What a person knows the file by. */
  readonly name: string;
  readonly bytes: number;
  readonly rowCount: number | null;
}

export interface ExpectedRowCount {
  readonly rowCount: number;
  /** Who says so, for the message: `the version record`, `the manifest`. */
  readonly statedBy: string;
}

export interface PlannedFrom {
  readonly version: number;
  readonly snapshotDigest: string;
}

/** A unit that `prepare` found fit. Opaque to all but the destination that made it. */
export interface Prepared {
  readonly unit: Unit;
}

export type Outcome =
  | { readonly kind: 'committed'; readonly datasetId: string; readonly committed: Committed }
  /** `table` is where the rows are now, with its schema; null where they are gone. */
  | { readonly kind: 'retired'; readonly datasetId: string; readonly table: string | null }
  /** Nothing was changed for this dataset. */
  | { readonly kind: 'failed'; readonly datasetId: string; readonly error: Error }
  /** The destination is no longer what the unit was planned from: plan again. */
  | { readonly kind: 'overtaken'; readonly datasetId: string };

export interface Committed {
  readonly tableName: string;
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly rowCount: number;
  /** Rows that the commit added, changed and removed; null where the table was replaced as a whole. */
  readonly net: Counts | null;
  /** The live table as `has` tells it from now on: the next step is planned from it. */
  readonly held: HeldDataset;
}
