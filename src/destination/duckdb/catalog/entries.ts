/** The rows that jobs write into the catalog. All entries of a batch are collected as data before any becomes SQL. Pure. */

import { present } from '../../../lib/assert.ts';
import type { CommitKind, RowDifference } from '../../../model/commits.ts';
import { isLaterMark, type ReloadMark } from '../../../model/desired-state.ts';
import type { Counts } from '../../../model/records.ts';
import type {
  ChangesJob,
  ObservedColumn,
  ObservedTable,
  RetirementJob,
  SnapshotJob,
  WriteJob,
} from '../../../model/write-jobs.ts';
import { identifier, integer, json, text, tuple } from '../../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../../staging/snapshot/table-plan.ts';
import type { Checksum } from '../checksum.ts';
import { observedColumn } from './observed-state.ts';
import {
  type CatalogTable,
  type CatalogType,
  catalogColumns,
  catalogTable,
  RESTORED_COLUMNS,
} from './schema.ts';
import { type Current, type RecordedColumn, recordedColumn } from './tables.ts';

export type CatalogEntry = LiveEntry | RetiredEntry;

interface LiveEntry {
  readonly kind: 'live';
  readonly datasetId: string;
  /** Replaces the record of the table. */
  readonly table: Omit<ObservedTable, 'datasetId' | 'commitNumber' | 'columns' | 'reloads'>;
  readonly checksum: Checksum;
  readonly columns: readonly RecordedColumn[];
  /** False when the recorded columns stay as they are. */
  readonly areColumnsNew: boolean;
  /** The satisfied reloads before and afterwards, by subscription id. */
  readonly reloads: {
    readonly before: ReadonlyMap<string, ReloadMark>;
    readonly after: ReadonlyMap<string, ReloadMark>;
  };
  /** True when the commit records what a rollback to it restores. */
  readonly isLogged: boolean;
  /**
   * True when the list of retired tables contains this table, because retirement kept it. The entry removes it from that list.
   */
  readonly wasKept: boolean;
  readonly commit: CommitEntry;
}

/**
 * Returns the observed state of the table after the entry is written with the commit number; `live` is the state before. Lone
 * surrogates are replaced, because no database stores them.
 */
export function observedAfter(
  { datasetId, table, columns, areColumnsNew, reloads }: LiveEntry,
  live: ObservedTable | null,
  commitNumber: number,
): ObservedTable {
  return {
    datasetId,
    commitNumber,
    ...table,
    schemaVersion: table.schemaVersion?.toWellFormed() ?? null,
    keyColumns: table.keyColumns.map((name) => name.toWellFormed()),
    snapshotDigest: table.snapshotDigest.toWellFormed(),
    loadedThrough: table.loadedThrough?.toWellFormed() ?? null,
    columns: areColumnsNew || live === null ? columns.map(wellFormed) : live.columns,
    reloads: reloads.after,
  };
}

function wellFormed(column: RecordedColumn): ObservedColumn {
  return observedColumn({ ...column, name: column.name.toWellFormed() });
}

/** The dataset loses its live table and keeps its name. */
interface RetiredEntry {
  readonly kind: 'retired';
  readonly datasetId: string;
  readonly reason: string;
  /** The table that has the rows now: one in schema `archived`, or the dataset's own; null when the rows are gone. */
  readonly tableName: string | null;
  readonly commit: CommitEntry;
}

/** The row of `feed_sync.commits`, without its number. */
interface CommitEntry {
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly kind: CommitKind;
  readonly net: RowDifference | null;
  readonly appliedAt: Date;
  /** Null when the commit is not a retirement. */
  readonly retirement?: { readonly judgedAt: Date; readonly isApproved: boolean };
}

/** The kinds of commit that each kind of job can produce. The type makes the compiler refuse a missing kind. */
export const KINDS_OF_JOB: Readonly<Record<WriteJob['kind'], readonly CommitKind[]>> = {
  snapshot: ['load', 'reload', 'return'],
  changes: ['changes'],
  retirement: ['retire'],
};

export const COMMIT_KINDS: readonly CommitKind[] = [
  ...Object.values(KINDS_OF_JOB).flat(),
  'repair',
  'rollback',
];

interface LoadedTable {
  readonly current: Current;
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  readonly checksum: Checksum;
  /** Null where there was no table before, or where its rows cannot be compared. */
  readonly net: RowDifference | null;
  readonly appliedAt: Date;
  readonly isLogged: boolean;
}

export function entryOfSnapshot(job: SnapshotJob, loaded: LoadedTable): LiveEntry {
  const { current, columns, rowCount, checksum, net, appliedAt, isLogged } = loaded;
  const { tableName, live, isKept, hasCommits } = current;
  const before = live?.reloads ?? new Map();
  const firstOrReturn = hasCommits ? 'return' : 'load';
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: {
      ...tableOf(job, rowCount, appliedAt),
      tableName,
      pinnedSince: live?.pinnedSince ?? null,
      snapshotVersion: job.version,
      snapshotDigest: job.digest,
      digestKind: job.digestKind,
      loadedThrough: job.loadedThrough,
      loadedAt: job.loadedAt,
    },
    checksum,
    columns: columns.map(recordedColumn),
    areColumnsNew: true,
    reloads: { before, after: withNewer(before, job.reloads) },
    isLogged,
    wasKept: isKept,
    commit: {
      fromVersion: live?.version ?? null,
      toVersion: job.version,
      kind: live === null ? firstOrReturn : 'reload',
      net,
      appliedAt,
    },
  };
}

interface ChangedTable {
  readonly live: ObservedTable;
  readonly columns: readonly RecordedColumn[];
  /** False when the recorded columns stay as they are. */
  readonly areColumnsNew: boolean;
  readonly rowCount: number;
  readonly checksum: Checksum;
  readonly net: Counts;
  readonly appliedAt: Date;
  readonly isLogged: boolean;
}

/** Changes do not alter the record of the snapshot that the table was last loaded from. */
export function entryOfChanges(job: ChangesJob, changed: ChangedTable): LiveEntry {
  const { live, columns, areColumnsNew, rowCount, checksum, net, appliedAt, isLogged } = changed;
  const { tableName, pinnedSince, snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt } =
    live;
  const loaded = { pinnedSince, snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt };
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: { ...tableOf(job, rowCount, appliedAt), tableName, ...loaded },
    checksum,
    columns,
    areColumnsNew,
    reloads: { before: live.reloads, after: live.reloads },
    isLogged,
    wasKept: false,
    commit: {
      fromVersion: live.version,
      toVersion: job.version,
      kind: 'changes',
      net,
      appliedAt,
    },
  };
}

export interface RetiredTable {
  /** The table that has the rows; null when the rows are gone. */
  readonly tableName: string | null;
  /** Rows that left the table: none when retirement keeps the table. */
  readonly removedRows: number;
}

export function entryOfRetirement(
  { datasetId, reason, retiredAt: judgedAt, isApproved, plannedFrom: { version } }: RetirementJob,
  { tableName, removedRows }: RetiredTable,
  appliedAt: Date,
): RetiredEntry {
  return {
    kind: 'retired',
    datasetId,
    reason,
    tableName,
    commit: {
      fromVersion: version,
      toVersion: version,
      kind: 'retire',
      net: { added: 0, changed: 0, removed: removedRows },
      appliedAt,
      retirement: { judgedAt, isApproved },
    },
  };
}

function tableOf(
  { version, publishedAt, schema: { schemaVersion, keyColumns } }: SnapshotJob | ChangesJob,
  rowCount: number,
  appliedAt: Date,
) {
  return { version, schemaVersion, rowCount, keyColumns, publishedAt, appliedAt };
}

/** The set of satisfied reloads only grows: an earlier snapshot does not undo a later reload. */
function withNewer(
  written: ReadonlyMap<string, ReloadMark>,
  reloads: ReadonlyMap<string, ReloadMark>,
): ReadonlyMap<string, ReloadMark> {
  const newer = [...reloads].filter(([subscriptionId, mark]) => {
    const known = written.get(subscriptionId);
    return known === undefined || isLaterMark(mark, known);
  });
  return new Map([...written, ...newer]);
}

/** The most characters of rows in one statement. A longer row gets a statement of its own. */
export const MAX_ROWS_CHARACTERS = 1_000_000;

type Cell = string | number | bigint | boolean | Date | readonly string[] | null;
/** In the order of the table's columns. */
export type CatalogRow = readonly Cell[];

/** The tables with rows about a live table, which retirement deletes. */
const OF_RETIRED = ['reloads', 'members', 'owed'] as const;

/** The entries belong to different datasets. Their commits take the numbers after `newestNumber`, in order. */
export function writeEntries(given: readonly CatalogEntry[], newestNumber: number): readonly string[] {
  const entries = given.map((entry, index) => ({ ...entry, commitNumber: newestNumber + index + 1 }));
  const live = entries.filter((entry) => entry.kind === 'live');
  const retired = entries.filter((entry) => entry.kind === 'retired');
  const described = live.filter(({ areColumnsNew }) => areColumnsNew);
  return [
    ...deleteOf('datasets', entries),
    ...insertRows('datasets', live.map(datasetRow)),
    ...deleteOf('columns', [...described, ...retired]),
    ...insertRows(
      'columns',
      described.flatMap(({ datasetId, columns }) => columnRows(datasetId, columns)),
    ),
    ...OF_RETIRED.flatMap((table) => deleteOf(table, retired)),
    ...replaceReloads(live),
    ...deleteReturned(live.filter(({ wasKept }) => wasKept)),
    ...insertRows('archived', retired.map(archivedRow)),
    ...insertRows('commits', entries.map(commitRow)),
  ];
}

type Numbered<Entry> = Entry & { readonly commitNumber: number };

function datasetRow({ datasetId, table, checksum, commitNumber }: Numbered<LiveEntry>): CatalogRow {
  return [
    datasetId,
    table.tableName,
    table.version,
    table.schemaVersion,
    table.rowCount,
    table.keyColumns,
    commitNumber,
    table.snapshotVersion,
    table.snapshotDigest,
    table.digestKind,
    table.loadedThrough,
    table.loadedAt,
    table.publishedAt,
    table.appliedAt,
    checksum.sum,
    checksum.version,
    table.pinnedSince,
  ];
}

function columnRows(datasetId: string, columns: readonly RecordedColumn[]): readonly CatalogRow[] {
  return columns.map((column, index) => {
    const { name, columnName, type, isNullable, description, sourceName, role, crs } = column;
    return [datasetId, index + 1, name, columnName, type, isNullable, description, sourceName, role, crs];
  });
}

function replaceReloads(live: readonly LiveEntry[]): readonly string[] {
  const same = live.flatMap(({ datasetId, reloads: { before, after } }) =>
    [...new Set([...before.keys(), ...after.keys()])]
      .filter((subscriptionId) => before.get(subscriptionId) !== after.get(subscriptionId))
      .map((subscriptionId) => tuple([text(datasetId), text(subscriptionId)])),
  );
  const rows = live.flatMap(({ datasetId, reloads: { before, after } }) =>
    [...after]
      .filter(([subscriptionId, mark]) => before.get(subscriptionId) !== mark)
      .map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
        return [datasetId, subscriptionId, logNumber, eventNumber, createdAt] as const;
      }),
  );
  return [...deleteWhere('reloads', '(dataset_id, subscription_id)', same), ...insertRows('reloads', rows)];
}

/** A kept table that is loaded again becomes the live one and leaves the list of retired tables. */
function deleteReturned(returned: readonly LiveEntry[]): readonly string[] {
  const same = returned.map(({ datasetId, table }) => tuple([text(datasetId), text(table.tableName)]));
  return deleteWhere('archived', '(dataset_id, table_name)', same);
}

function archivedRow({ datasetId, tableName, reason, commit }: RetiredEntry): CatalogRow {
  return [datasetId, tableName, commit.toVersion, reason, commit.appliedAt];
}

function commitRow(entry: Numbered<CatalogEntry>): CatalogRow {
  const { datasetId, commit, commitNumber } = entry;
  const { fromVersion, toVersion, kind, net, appliedAt, retirement = null } = commit;
  const counts = [net?.added ?? null, net?.changed ?? null, net?.removed ?? null];
  const judged = [retirement?.judgedAt ?? null, retirement?.isApproved ?? null];
  const restored =
    entry.kind === 'live' && entry.isLogged
      ? restoredCells(entry.table, entry.checksum, entry.reloads.after, entry.columns)
      : RESTORED_COLUMNS.map(() => null);
  return [
    commitNumber,
    datasetId,
    fromVersion,
    toVersion,
    kind,
    ...counts,
    appliedAt,
    ...judged,
    ...restored,
  ];
}

/** Returns the cells of `RESTORED_COLUMNS`. */
function restoredCells(
  table: LiveEntry['table'],
  checksum: Checksum | null,
  reloads: ReadonlyMap<string, ReloadMark>,
  columns: readonly RecordedColumn[],
): CatalogRow {
  return [
    table.schemaVersion,
    table.keyColumns,
    table.rowCount,
    table.snapshotVersion,
    table.snapshotDigest,
    table.digestKind,
    table.loadedThrough,
    table.loadedAt,
    table.publishedAt,
    checksum?.sum ?? null,
    checksum?.version ?? null,
    reloadsJson(reloads),
    JSON.stringify(columns),
  ];
}

function reloadsJson(reloads: ReadonlyMap<string, ReloadMark>): string {
  const rows = [...reloads].map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
    return { subscriptionId, logNumber, eventNumber: integer(eventNumber), createdAt };
  });
  return JSON.stringify(rows);
}

/** Records what a rollback restores for a commit that was made before the history of its table began. */
export function completeCommit(
  live: ObservedTable,
  commitNumber: number,
  checksum: Checksum | null,
  columns: readonly RecordedColumn[],
): readonly string[] {
  const cells = restoredCells(live, checksum, live.reloads, columns);
  const types = new Map(catalogColumns('commits'));
  const assignments = RESTORED_COLUMNS.map((name, index) => {
    const type = present(types.get(name), 'the table has the column');
    return `${identifier(name)} = ${FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`)}`;
  });
  return [
    `UPDATE ${catalogTable('commits')} SET ${assignments.join(', ')}
      FROM (SELECT ${text(jsonRow(cells))}::JSON AS "row") AS restored WHERE commit_number = ${integer(commitNumber)}`,
  ];
}

function deleteOf(table: CatalogTable, entries: readonly CatalogEntry[]): readonly string[] {
  return deleteWhere(
    table,
    'dataset_id',
    entries.map(({ datasetId }) => text(datasetId)),
  );
}

/** `values` are SQL values of the column `what`; their rows are deleted. */
function deleteWhere(table: CatalogTable, what: string, values: readonly string[]): readonly string[] {
  return together(values).map((some) => `DELETE FROM ${catalogTable(table)} WHERE ${what} IN (${some})`);
}

/** Inserts rows into a table of the catalog, in order. */
export function insertRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  return selectRows(table, rows).map((select) => `INSERT INTO ${catalogTable(table)} ${select}`);
}

/** Deletes the rows whose first columns have these values. No value is null. */
export function deleteRows(table: CatalogTable, keys: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table).slice(0, keys[0]?.length);
  const same = columns.map(([name]) => identifier(name)).join(', ');
  return selectRows(table, keys).map(
    (select) => `DELETE FROM ${catalogTable(table)} WHERE (${same}) IN (${select})`,
  );
}

/** Returns queries for the rows, each of which has a value for each of the first columns of the table. */
function selectRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table)
    .slice(0, rows[0]?.length)
    .map(([, type], index) => FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`));
  return together(rows.map(jsonRow)).map(
    (some) => `SELECT ${columns.join(', ')}
      FROM (SELECT unnest(from_json(${text(`[${some}]`)}, '["JSON"]')) AS "row")`,
  );
}

/** Rows that the database stores as equal have the same text. @throws DataError when a text holds a NUL character. */
export function jsonRow(row: CatalogRow): string {
  return json(row.map(jsonCell));
}

/** Builds a cell from its JSON, which is given as a value and as text. The type makes the compiler refuse a missing type. */
const FROM_JSON: Readonly<Record<CatalogType, (value: string, shown: string) => string>> = {
  VARCHAR: (_value, shown) => shown,
  BIGINT: (_value, shown) => `(${shown})::BIGINT`,
  HUGEINT: (_value, shown) => `(${shown})::HUGEINT`,
  BOOLEAN: (_value, shown) => `(${shown})::BOOLEAN`,
  TIMESTAMPTZ: (_value, shown) => `make_timestamptz((${shown})::BIGINT * 1000)`,
  'VARCHAR[]': (value) => `from_json(${value}, '["VARCHAR"]')`,
};

/** Whole numbers become text, because JSON numbers have 53 bits. Times become milliseconds. */
function jsonCell(cell: Cell): string | boolean | readonly string[] | null {
  if (cell instanceof Date) return integer(cell.getTime());
  return typeof cell === 'number' || typeof cell === 'bigint' ? integer(cell) : cell;
}

/** Joins the parts by commas, within `MAX_ROWS_CHARACTERS`. */
function together(parts: readonly string[]): readonly string[] {
  const runs: string[][] = [];
  let characters = 0;
  for (const part of parts) {
    characters += part.length;
    const run = runs.at(-1);
    if (run !== undefined && characters <= MAX_ROWS_CHARACTERS) run.push(part);
    else {
      runs.push([part]);
      characters = part.length;
    }
  }
  return runs.map((run) => run.join(', '));
}
