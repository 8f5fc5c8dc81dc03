/**
 * What a unit did, as it is written into the books: data, which is put together for the units of a whole batch before
 * any of it becomes SQL. Pure.
 */

import type { HistoryLine } from '../../../model/history.ts';
import { isLaterMark, type ReloadMark } from '../../../model/reload-mark.ts';
import type { Counts } from '../../../model/version.ts';
import type {
  ChangesUnit,
  HeldColumn,
  HeldDataset,
  RetirementUnit,
  SnapshotUnit,
  Unit,
} from '../../destination.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { Current } from './current-table.ts';

export type BookEntry = LiveEntry | RetiredEntry;

export interface LiveEntry {
  readonly kind: 'live';
  readonly datasetId: string;
  /** In the place of what is written of the table. */
  readonly table: Omit<HeldDataset, 'datasetId' | 'columns' | 'reloads'>;
  /** In the place of what is written of its columns; null: that stays. */
  readonly columns: readonly PlannedColumn[] | null;
  /** In the place of what is written of these subscriptions. */
  readonly newerReloads: ReadonlyMap<string, ReloadMark>;
  /** Whether the table is listed among the retired, because it was kept: it no longer is. */
  readonly wasKept: boolean;
  readonly line: LineEntry;
}

/**
 * What `has` tells of the table once the entry is written; `live` is what it was before. A service may send halves of characters,
 * which no database keeps.
 */
export function heldAfter(
  { datasetId, table, columns, newerReloads: newer }: LiveEntry,
  live: HeldDataset | null,
): HeldDataset {
  return {
    datasetId,
    ...table,
    schemaVersion: table.schemaVersion?.toWellFormed() ?? null,
    keyColumns: table.keyColumns.map((name) => name.toWellFormed()),
    snapshotDigest: table.snapshotDigest.toWellFormed(),
    loadedThrough: table.loadedThrough?.toWellFormed() ?? null,
    columns: columns?.map(heldColumn) ?? live?.columns ?? [],
    reloads: new Map([...(live?.reloads ?? []), ...newer]),
  };
}

function heldColumn({ column, columnName, type, role, crs }: PlannedColumn): HeldColumn {
  return { name: column.name.toWellFormed(), columnName, type, role, crs };
}

/** The dataset has no live table any more. Its name stays its own. */
export interface RetiredEntry {
  readonly kind: 'retired';
  readonly datasetId: string;
  readonly reason: string;
  /** Where the rows are now: a table of the schema `archived`, or the dataset's own; null where they are gone. */
  readonly tableName: string | null;
  readonly line: LineEntry;
}

/** A line of the history. */
export interface LineEntry {
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly kind: HistoryLine['kind'];
  readonly net: Counts | null;
  readonly appliedAt: Date;
  /** Of a retirement; null: it is none. */
  readonly retirement?: { readonly judgedAt: Date; readonly isApproved: boolean };
}

/** How a line of the history tells of each kind of unit. Complete by its type. */
export const HISTORY_KINDS: Readonly<Record<Unit['kind'], HistoryLine['kind']>> = {
  snapshot: 'snapshot',
  changes: 'changes',
  retirement: 'retired',
};

export interface LoadedTable {
  readonly current: Current;
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  readonly appliedAt: Date;
}

export function entryOfSnapshot(unit: SnapshotUnit, loaded: LoadedTable): LiveEntry {
  const { current, columns, rowCount, appliedAt } = loaded;
  const { tableName, live, isKept } = current;
  return {
    kind: 'live',
    datasetId: unit.datasetId,
    table: {
      ...tableOf(unit, rowCount, appliedAt),
      tableName,
      snapshotVersion: unit.version,
      snapshotDigest: unit.digest,
      digestKind: unit.digestKind,
      loadedThrough: unit.loadedThrough,
      loadedAt: unit.loadedAt,
    },
    columns,
    newerReloads: newerReloads(unit.reloads, live?.reloads ?? new Map()),
    wasKept: isKept,
    // What a snapshot added, changed and removed is not known: the table was replaced as a whole.
    line: {
      fromVersion: live?.version ?? null,
      toVersion: unit.version,
      kind: HISTORY_KINDS.snapshot,
      net: null,
      appliedAt,
    },
  };
}

export interface ChangedTable {
  readonly live: HeldDataset;
  /** Null: what is written of them is so already. */
  readonly columns: readonly PlannedColumn[] | null;
  readonly rowCount: number;
  readonly net: Counts;
  readonly appliedAt: Date;
}

/** The snapshot that the table was last loaded from stays what it was. */
export function entryOfChanges(unit: ChangesUnit, changed: ChangedTable): LiveEntry {
  const { live, columns, rowCount, net, appliedAt } = changed;
  const { tableName, snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt } = live;
  const loaded = { snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt };
  return {
    kind: 'live',
    datasetId: unit.datasetId,
    table: { ...tableOf(unit, rowCount, appliedAt), tableName, ...loaded },
    columns,
    newerReloads: new Map(),
    wasKept: false,
    line: {
      fromVersion: live.version,
      toVersion: unit.version,
      kind: HISTORY_KINDS.changes,
      net,
      appliedAt,
    },
  };
}

export interface RetiredTable {
  /** Where the rows are; null where they are gone. */
  readonly tableName: string | null;
  /** Rows that left the table: none where it is kept. */
  readonly removedRows: number;
}

export function entryOfRetirement(
  { datasetId, reason, retiredAt: judgedAt, isApproved, plannedFrom: { version } }: RetirementUnit,
  { tableName, removedRows }: RetiredTable,
  appliedAt: Date,
): RetiredEntry {
  return {
    kind: 'retired',
    datasetId,
    reason,
    tableName,
    line: {
      fromVersion: version,
      toVersion: version,
      kind: HISTORY_KINDS.retirement,
      net: { added: 0, changed: 0, removed: removedRows },
      appliedAt,
      retirement: { judgedAt, isApproved },
    },
  };
}

function tableOf(
  { version, publishedAt, schema: { schemaVersion, keyColumns } }: SnapshotUnit | ChangesUnit,
  rowCount: number,
  appliedAt: Date,
) {
  return { version, schemaVersion, rowCount, keyColumns, publishedAt, appliedAt };
}

/** What a table satisfies only grows: a snapshot that was asked for earlier does not undo a later one. */
function newerReloads(
  reloads: ReadonlyMap<string, ReloadMark>,
  written: ReadonlyMap<string, ReloadMark>,
): ReadonlyMap<string, ReloadMark> {
  return new Map(
    [...reloads].filter(([subscriptionId, mark]) => {
      const known = written.get(subscriptionId);
      return known === undefined || isLaterMark(mark, known);
    }),
  );
}
