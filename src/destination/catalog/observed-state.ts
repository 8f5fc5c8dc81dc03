/** The observed state from the rows of the catalog, in the order of columns that is written here. Pure. */

import type { ReloadMark } from '../../model/desired-state.ts';
import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import type { Row } from '../../staging/engine/engine.ts';
import {
  booleanAt,
  dateAt,
  dateOrNullAt,
  numberAt,
  numberOrNullAt,
  textAt,
  textListAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import type { ObservedState, RetiredTable } from '../destination.ts';
import { type Checksum, checksumOrNullAt, digestKindAt, reloadMarkAt } from './cells.ts';
import {
  META_FORMAT_VERSION,
  META_KEPT_DAMAGED,
  META_SERVICE_ORIGIN,
  META_SUBSCRIPTION_ID,
} from './tables.ts';

export const EMPTY: ObservedState = { service: null, datasets: new Map(), progress: null, retired: [] };

/** A live table as the catalog records it. */
export interface CatalogedTable {
  readonly observed: ObservedTable;
  /** Null when none was recorded. */
  readonly checksum: Checksum | null;
}

/**
 * Reads the cells `dataset_id, table_name, version, schema_version, row_count, key_columns, snapshot_version, snapshot_digest,
 * digest_kind, loaded_through, loaded_at, published_at, applied_at, checksum, checksum_version, commit_number, pinned_since,
 * schema_name`, times as milliseconds.
 */
export function catalogedTableAt(
  row: Row,
  columns: ReadonlyMap<string, readonly ObservedColumn[]>,
  reloads: ReadonlyMap<string, ReadonlyMap<string, ReloadMark>>,
): CatalogedTable {
  const datasetId = textAt(row, 0);
  const observed = {
    datasetId,
    schemaName: textAt(row, 17),
    tableName: textAt(row, 1),
    commitNumber: numberOrNullAt(row, 15),
    version: numberAt(row, 2),
    schemaVersion: textOrNullAt(row, 3),
    rowCount: numberAt(row, 4),
    keyColumns: textListAt(row, 5),
    snapshotVersion: numberAt(row, 6),
    snapshotDigest: textAt(row, 7),
    digestKind: digestKindAt(row, 8),
    loadedThrough: textOrNullAt(row, 9),
    loadedAt: dateOrNullAt(row, 10),
    publishedAt: dateOrNullAt(row, 11),
    appliedAt: dateAt(row, 12),
    pinnedSince: dateOrNullAt(row, 16),
    columns: columns.get(datasetId) ?? [],
    reloads: reloads.get(datasetId) ?? new Map(),
  };
  return { observed, checksum: checksumOrNullAt(row, 13) };
}

/** Groups rows of the cells `dataset_id, subscription_id, log_number, event_number, created_at` by dataset. */
export function reloadsOf(rows: readonly Row[]): ReadonlyMap<string, ReadonlyMap<string, ReloadMark>> {
  const reloads = new Map<string, Map<string, ReloadMark>>();
  for (const row of rows) {
    const ofDataset = reloads.get(textAt(row, 0)) ?? new Map<string, ReloadMark>();
    ofDataset.set(textAt(row, 1), reloadMarkAt(row, 2));
    reloads.set(textAt(row, 0), ofDataset);
  }
  return reloads;
}

/** Adds which live tables of the catalog somebody has dropped. `isThere`: a view that took the name of a table is no table. */
export function withMissing(state: ObservedState, isThere: (table: ObservedTable) => boolean): ObservedState {
  const tables = [...state.datasets.values()];
  const missing = tables.flatMap((table) => (isThere(table) ? [] : table.datasetId));
  return missing.length === 0 ? state : { ...state, missing };
}

/** Longer than any rule looks back. Counted from the newest retirement, because the machine's clock may be wrong. */
export const RETIRED_DAYS = 3;

/** Reads the cells `dataset_id, service_time, approved`. */
export function retiredTableAt(row: Row): RetiredTable {
  return { datasetId: textAt(row, 0), retiredAt: dateAt(row, 1), isApproved: booleanAt(row, 2) };
}

export interface Meta {
  /** NaN where none is written. */
  readonly format: number;
  readonly service: ObservedState['service'];
  /** The names include tables that an operator has dropped since. */
  readonly keptDamaged: readonly string[];
}

/** Decodes the rows of `meta`. */
export function metaOf(rows: readonly Row[]): Meta {
  const all = (key: string) => rows.filter((row) => textAt(row, 0) === key).map((row) => textAt(row, 1));
  const format = Number(all(META_FORMAT_VERSION)[0] ?? Number.NaN);
  const origin = all(META_SERVICE_ORIGIN)[0];
  const keptDamaged = all(META_KEPT_DAMAGED);
  if (origin === undefined) return { format, service: null, keptDamaged };
  return { format, service: { origin, subscriptionIds: all(META_SUBSCRIPTION_ID) }, keptDamaged };
}
