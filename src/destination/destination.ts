/**
 * The port of a destination: the database that is kept equal to the feed.
 *
 * What it holds of each dataset is written in it, in the same transaction as the rows, and is the truth about
 * versions. Every operation may throw `BusyError` (a reader holds the database longer than we may wait),
 * `StorageError` (disk or file trouble) and `ConfigurationError` (its format is newer than this program).
 */

import type { Schema } from '../model/schema.ts';

export interface Destination {
  /** What the destination has, read in one moment. */
  has(): Promise<Held>;

  /**
   * Records which service the destination mirrors and gives every dataset its table name: in the order of the list
   * for those that would share one. A name, once given, never changes.
   */
  enroll(enrolment: Enrolment): Promise<void>;

  /**
   * Examines a unit of work before the database is touched: files, columns, types.
   * @throws DataError when the content cannot be loaded, naming file, column and value.
   */
  prepare(unit: Unit): Promise<Prepared>;

  /**
   * Commits the units inside one window in which the database is open for writing. Each is proven first, and each
   * fails alone. The outcomes are in the order of the units.
   */
  commit(units: readonly Prepared[]): Promise<readonly Outcome[]>;

  close(): Promise<void>;
}

export interface Held {
  /** The service this destination belongs to; null in a new one. */
  readonly service: { readonly origin: string; readonly subscriptionIds: readonly string[] } | null;
  /** By dataset id. */
  readonly datasets: ReadonlyMap<string, HeldDataset>;
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
  readonly publishedAt: Date | null;
  readonly appliedAt: Date;
  /** By subscription id: the number of the newest reload event that the table satisfies. */
  readonly reloads: ReadonlyMap<string, bigint>;
}

export interface Enrolment {
  readonly origin: string;
  readonly subscriptionIds: readonly string[];
  readonly datasetIds: readonly string[];
}

/** A unit of work: what is committed as one for one dataset. */
export type Unit = SnapshotUnit;

/** The whole table is replaced by the content of the files. */
export interface SnapshotUnit {
  readonly kind: 'snapshot';
  readonly datasetId: string;
  readonly version: number;
  readonly publishedAt: Date | null;
  readonly schema: Schema;
  readonly files: readonly SnapshotFile[];
  readonly digest: string;
  /** Every number the service gave for the rows of this version (version record, manifest); each is checked. */
  readonly expectedRowCounts: readonly ExpectedRowCount[];
  /** The reload events that this snapshot satisfies, by subscription id. */
  readonly reloads: ReadonlyMap<string, bigint>;
  /** What the unit was planned from. If the destination has something else by then, the outcome is `overtaken`. */
  readonly plannedFrom: PlannedFrom | null;
}

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
  /** Nothing was changed for this dataset. */
  | { readonly kind: 'failed'; readonly datasetId: string; readonly error: Error }
  /** The destination is no longer what the unit was planned from: plan again. */
  | { readonly kind: 'overtaken'; readonly datasetId: string };

export interface Committed {
  readonly tableName: string;
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly rowCount: number;
}
