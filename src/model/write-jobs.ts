/** The jobs that a destination executes, and its tables. */

import type { ReloadMark } from './desired-state.ts';
import type { Gate } from './gate.ts';
import type { ColumnType, Counts, Schema } from './records.ts';

/**
 * The source of a digest:
 * - `stated`: computed from the digests in the manifest.
 * - `computed`: computed from the downloaded files, because the manifest lacks a digest.
 */
export type DigestKind = 'stated' | 'computed';

/** A live table: a row of `feed_sync.datasets`, with its reloads. */
export interface ObservedTable {
  readonly datasetId: string;
  /** The schema of the database that has the table: `main` in DuckDB. */
  readonly schemaName: string;
  readonly tableName: string;
  /** The newest commit of the table; null when it was not recorded. */
  readonly commitNumber: number | null;
  readonly version: number;
  readonly schemaVersion: string | null;
  readonly rowCount: number;
  readonly keyColumns: readonly string[];
  /** The version of the snapshot that the table was last loaded from; its digest follows. */
  readonly snapshotVersion: number;
  readonly snapshotDigest: string;
  /** Null when unknown: an earlier format of the mirror did not record it. */
  readonly digestKind: DigestKind | null;
  /** The subscription whose manifest named that snapshot; null for the dataset's own manifest, or when unknown. */
  readonly loadedThrough: string | null;
  /** The service time of that manifest; null when unknown. */
  readonly loadedAt: Date | null;
  readonly publishedAt: Date | null;
  readonly appliedAt: Date;
  /** Since when a rollback keeps the table where it is; null: the table takes new versions. */
  readonly pinnedSince: Date | null;
  /** In the order of the table. */
  readonly columns: readonly ObservedColumn[];
  /** The newest reload event that the table satisfies, by subscription id. */
  readonly reloads: ReadonlyMap<string, ReloadMark>;
}

/** Returns whether a rollback keeps the table where it is. */
export function isPinned(observed: ObservedTable | null): boolean {
  return observed !== null && observed.pinnedSince !== null;
}

/** A column of a live table: a row of `feed_sync.columns`. */
export interface ObservedColumn {
  /** The service's name of the column. */
  readonly name: string;
  /** The column's name in the table. */
  readonly columnName: string;
  readonly type: ColumnType;
  readonly role: 'key' | 'data' | 'envelope';
  /** The coordinate system of a geometry; null when unknown, and for other columns. */
  readonly crs: string | null;
}

/** A write job: one step of one dataset, which is committed as one. */
export type WriteJob = SnapshotJob | ChangesJob | RetirementJob | RollbackJob | RepairJob;

/** A job that replaces the whole table by the content of the files. */
export interface SnapshotJob {
  readonly kind: 'snapshot';
  readonly datasetId: string;
  readonly version: number;
  readonly publishedAt: Date | null;
  readonly schema: Schema;
  readonly files: readonly SnapshotFile[];
  readonly digest: string;
  readonly digestKind: DigestKind;
  /** The subscription whose manifest names the files; null for the dataset's own manifest. */
  readonly loadedThrough: string | null;
  /** The service time of that manifest; null when unknown. */
  readonly loadedAt: Date | null;
  /** Every row count that the service stated for this version (version record, manifest). Each is checked. */
  readonly expectedRowCounts: readonly ExpectedRowCount[];
  /**
   * The newest reload event that this snapshot satisfies, by subscription id. An event older than the table's changes nothing.
   */
  readonly reloads: ReadonlyMap<string, ReloadMark>;
  /** The table moves into the schema that the settings say, if they say another one. */
  readonly moves?: boolean;
  readonly fetched: Fetched;
  /** Missing where nothing is judged. */
  readonly gate?: Gate;
  /** The state that the job was planned from. If the destination has another one by then, the plan is stale. */
  readonly plannedFrom: PlannedFrom | null;
}

/** The source and size of a job's content, for the report. */
export interface Fetched {
  /** The size of the files, or of the pages of changes. */
  readonly bytes: number;
  /** Milliseconds since the first request. */
  elapsedMs(): number;
}

/** A job that moves a table along the versions of a chain, in one step: the net change of them all. */
export interface ChangesJob {
  readonly kind: 'changes';
  readonly datasetId: string;
  /** The table's version afterwards: the last of `versions`. */
  readonly version: number;
  readonly publishedAt: Date | null;
  /** The schema of `version`. Its new columns are added to the table if the job `addsColumns`. */
  readonly schema: Schema;
  /** False keeps the table's columns as they are. */
  readonly addsColumns: boolean;
  /** All versions after the table's, oldest first; never empty. */
  readonly versions: readonly VersionChanges[];
  /** The leading part of `versions` that was read ahead, from the first version on, without a gap. */
  readonly ahead?: readonly ReadAhead[];
  readonly fetched: Fetched;
  /** Missing where nothing is judged. */
  readonly gate?: Gate;
  readonly plannedFrom: ObservedTable;
}

/** The result of `readAhead`. Opaque to all but the destination that made it. */
export interface ReadAhead {
  /** The number of versions in it. */
  readonly versions: number;
}

/** The recorded changes of one version, and the service's statements about it; null is not checked. */
export interface VersionChanges {
  readonly version: number;
  /** The paths of the response bodies as sent, in order. */
  readonly pages: readonly string[];
  readonly counts: Counts | null;
  /** Rows of the whole dataset at this version. */
  readonly rowCount: number | null;
}

/** The content that the service has for a version of a dataset: a snapshot, and the changes from there to the version. */
export interface VersionContent {
  readonly datasetId: string;
  readonly version: number;
  readonly snapshot: SnapshotJob;
  /** Null where the snapshot is that of the version. */
  readonly changes: Omit<ChangesJob, 'plannedFrom'> | null;
  /** Rows of the whole dataset at the version; null where the service does not say. */
  readonly rowCount: number | null;
}

/** A job that brings the rows of a table to the content that the service has for its version. Nothing else of the table changes. */
export interface RepairJob {
  readonly kind: 'repair';
  readonly datasetId: string;
  readonly version: number;
  readonly content: VersionContent;
  readonly fetched: Fetched;
  readonly plannedFrom: ObservedTable;
}

/**
 * A job that retires the table from the mirrored data. The dataset keeps the table's name in case it returns. The table's reloads,
 * satisfied or owed, are removed, and so is the stored progress about the subscriptions that contained the dataset.
 */
export interface RetirementJob {
  readonly kind: 'retirement';
  readonly datasetId: string;
  readonly how: Retirement;
  /** The reason, for people. */
  readonly reason: string;
  /** The service time of the decision. */
  readonly retiredAt: Date;
  /** True when an operator approved the retirement. */
  readonly isApproved: boolean;
  readonly plannedFrom: ObservedTable;
}

/** A job that restores the state which an earlier commit left, rows, columns and catalog, and pins the table there. */
export interface RollbackJob {
  readonly kind: 'rollback';
  readonly datasetId: string;
  readonly toCommit: number;
  /** The version that the commit left. */
  readonly version: number;
  readonly fetched: Fetched;
  readonly plannedFrom: ObservedTable;
}

/**
 * The retirement of a table:
 * - `archive`: a copy under another name, outside the mirrored data.
 * - `drop`: the table is deleted.
 * - `keep`: the table stays where it is, and is no longer updated.
 */
export type Retirement = 'archive' | 'drop' | 'keep';

export interface SnapshotFile {
  readonly path: string;
  /** The name by which an operator recognises the file. */
  readonly name: string;
  readonly bytes: number;
  readonly rowCount: number | null;
}

interface ExpectedRowCount {
  readonly rowCount: number;
  /** The source of the number, for the message: `the version record`, `the manifest`. */
  readonly statedBy: string;
}

/**
 * The state of a table that a job was planned from. A repair and a rollback leave a table with the version and the digest that it
 * had, so the commit number distinguishes them; a mirror that was rebuilt counts its commits anew, so the number alone does not.
 */
export type PlannedFrom = Pick<ObservedTable, 'commitNumber' | 'version' | 'snapshotDigest'>;
