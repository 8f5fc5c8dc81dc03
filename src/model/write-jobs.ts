/** What a destination is asked to write, and the tables that it has. */

import type { ReloadMark } from './desired-state.ts';
import type { ColumnType, Counts, Schema } from './records.ts';

/**
 * - `stated`: made of the digests that the manifest states.
 * - `computed`: made of the files that were downloaded, because the manifest does not state every digest.
 */
export type DigestKind = 'stated' | 'computed';

/** A live table: a row of `feed_sync.datasets`, with its reloads. */
export interface ObservedTable {
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
  readonly columns: readonly ObservedColumn[];
  /** By subscription id: the newest reload event that the table satisfies. */
  readonly reloads: ReadonlyMap<string, ReloadMark>;
}

/** A column of a live table: a row of `feed_sync.columns`. */
export interface ObservedColumn {
  /** As the service names it. */
  readonly name: string;
  /** Its name in the table. */
  readonly columnName: string;
  readonly type: ColumnType;
  readonly role: 'key' | 'data' | 'envelope';
  /** The coordinate system of a geometry; null where it is not known, and for other columns. */
  readonly crs: string | null;
}

/** A job of work: what is committed as one for one dataset. */
export type WriteJob = SnapshotJob | ChangesJob | RetirementJob;

/** The whole table is replaced by the content of the files. */
export interface SnapshotJob {
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
  readonly fetched: Fetched;
  /** What the job was planned from. If the destination has something else by then, the plan is stale. */
  readonly plannedFrom: PlannedFrom | null;
}

/** How the content of a job was fetched, for the report. */
export interface Fetched {
  /** Of the files or of the pages of changes. */
  readonly bytes: number;
  /** Milliseconds since the first request. */
  elapsedMs(): number;
}

/** The table moves along the versions of a chain, in one step: the net change of them all. */
export interface ChangesJob {
  readonly kind: 'changes';
  readonly datasetId: string;
  /** The version the table has afterwards: that of the last of `versions`. */
  readonly version: number;
  readonly publishedAt: Date | null;
  /** That of `version`. Columns of it that the table lacks are added, where the job `addsColumns`. */
  readonly schema: Schema;
  /** Without it the table's columns stay as they are. */
  readonly addsColumns: boolean;
  /** From the version after the table's on, oldest first, never empty. */
  readonly versions: readonly VersionChanges[];
  /** What was read of `versions` before they were all there: from the first one on, without a gap. */
  readonly ahead?: readonly ReadAhead[];
  readonly fetched: Fetched;
  readonly plannedFrom: ObservedTable;
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
export interface RetirementJob {
  readonly kind: 'retirement';
  readonly datasetId: string;
  readonly how: Retirement;
  /** For people: why. */
  readonly reason: string;
  /** When it was judged, in service time. */
  readonly retiredAt: Date;
  /** An operator has agreed to it. */
  readonly isApproved: boolean;
  readonly plannedFrom: ObservedTable;
}

/**
 * - `archive`: a copy under another name, out of the mirrored data.
 * - `drop`: gone.
 * - `keep`: it stays where it is, and is followed no more.
 */
export type Retirement = 'archive' | 'drop' | 'keep';

export interface SnapshotFile {
  readonly path: string;
  /** What an operator knows the file by. */
  readonly name: string;
  readonly bytes: number;
  readonly rowCount: number | null;
}

interface ExpectedRowCount {
  readonly rowCount: number;
  /** Who says so, for the message: `the version record`, `the manifest`. */
  readonly statedBy: string;
}

export interface PlannedFrom {
  readonly version: number;
  readonly snapshotDigest: string;
}
