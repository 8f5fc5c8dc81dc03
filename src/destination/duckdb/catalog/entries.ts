/**
 * The rows that jobs write into the catalog. The entries of a whole batch are collected as data before any of them becomes
 * SQL. Pure.
 */

import type { CommitKind } from '../../../model/commits.ts';
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
import { type CatalogTable, type CatalogType, catalogColumns, catalogTable } from './schema.ts';
import { type Current, recordedColumn } from './tables.ts';

export type CatalogEntry = LiveEntry | RetiredEntry;

interface LiveEntry {
  readonly kind: 'live';
  readonly datasetId: string;
  /** In the place of what is written of the table. */
  readonly table: Omit<ObservedTable, 'datasetId' | 'columns' | 'reloads'>;
  /** In the place of what is written of its columns; null: that stays. */
  readonly columns: readonly PlannedColumn[] | null;
  /** In the place of what is written of these subscriptions. */
  readonly newerReloads: ReadonlyMap<string, ReloadMark>;
  /** Whether the table is listed among the retired, because it was kept: it no longer is. */
  readonly wasKept: boolean;
  readonly commit: CommitEntry;
}

/**
 * What `has` tells of the table once the entry is written; `live` is what it was before. A service may send halves of characters,
 * which no database keeps.
 */
export function observedAfter(
  { datasetId, table, columns, newerReloads: newer }: LiveEntry,
  live: ObservedTable | null,
): ObservedTable {
  return {
    datasetId,
    ...table,
    schemaVersion: table.schemaVersion?.toWellFormed() ?? null,
    keyColumns: table.keyColumns.map((name) => name.toWellFormed()),
    snapshotDigest: table.snapshotDigest.toWellFormed(),
    loadedThrough: table.loadedThrough?.toWellFormed() ?? null,
    columns: columns?.map(observedColumn) ?? live?.columns ?? [],
    reloads: new Map([...(live?.reloads ?? []), ...newer]),
  };
}

function observedColumn({ column, columnName, type, role, crs }: PlannedColumn): ObservedColumn {
  return { name: column.name.toWellFormed(), columnName, type, role, crs };
}

/** The dataset has no live table any more. Its name stays its own. */
interface RetiredEntry {
  readonly kind: 'retired';
  readonly datasetId: string;
  readonly reason: string;
  /** Where the rows are now: a table of the schema `archived`, or the dataset's own; null where they are gone. */
  readonly tableName: string | null;
  readonly commit: CommitEntry;
}

/** The row of `feed_sync.commits`, but for its number. */
interface CommitEntry {
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly kind: CommitKind;
  readonly net: Counts | null;
  readonly appliedAt: Date;
  /** Of a retirement; null: it is none. */
  readonly retirement?: { readonly judgedAt: Date; readonly isApproved: boolean };
}

/** The kinds of commit that each kind of job ends in. The type checker proves the table complete. */
export const KINDS_OF_JOB: Readonly<Record<WriteJob['kind'], readonly CommitKind[]>> = {
  snapshot: ['load', 'reload', 'return'],
  changes: ['changes'],
  retirement: ['retire'],
};

export const COMMIT_KINDS: readonly CommitKind[] = Object.values(KINDS_OF_JOB).flat();

interface LoadedTable {
  readonly current: Current;
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  readonly appliedAt: Date;
}

export function entryOfSnapshot(job: SnapshotJob, loaded: LoadedTable): LiveEntry {
  const { current, columns, rowCount, appliedAt } = loaded;
  const { tableName, live, isKept, hasCommits } = current;
  const firstOrReturn = hasCommits ? 'return' : 'load';
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: {
      ...tableOf(job, rowCount, appliedAt),
      tableName,
      snapshotVersion: job.version,
      snapshotDigest: job.digest,
      digestKind: job.digestKind,
      loadedThrough: job.loadedThrough,
      loadedAt: job.loadedAt,
    },
    columns,
    newerReloads: newerReloads(job.reloads, live?.reloads ?? new Map()),
    wasKept: isKept,
    // What a snapshot added, changed and removed is not known: the table was replaced as a whole.
    commit: {
      fromVersion: live?.version ?? null,
      toVersion: job.version,
      kind: live === null ? firstOrReturn : 'reload',
      net: null,
      appliedAt,
    },
  };
}

interface ChangedTable {
  readonly live: ObservedTable;
  /** Null: what is written of them is so already. */
  readonly columns: readonly PlannedColumn[] | null;
  readonly rowCount: number;
  readonly net: Counts;
  readonly appliedAt: Date;
}

/** The snapshot that the table was last loaded from stays what it was. */
export function entryOfChanges(job: ChangesJob, changed: ChangedTable): LiveEntry {
  const { live, columns, rowCount, net, appliedAt } = changed;
  const { tableName, snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt } = live;
  const loaded = { snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt };
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: { ...tableOf(job, rowCount, appliedAt), tableName, ...loaded },
    columns,
    newerReloads: new Map(),
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
  /** Where the rows are; null where they are gone. */
  readonly tableName: string | null;
  /** Rows that left the table: none where it is kept. */
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

/** The most characters of the rows that one statement puts in; a row that alone has more is alone. */
export const MAX_ROWS_CHARACTERS = 1_000_000;

type Cell = string | number | bigint | boolean | Date | readonly string[] | null;
/** In the order of the columns of its table. */
export type CatalogRow = readonly Cell[];

/** What is known of a live table, or why it is one: it goes with the table. */
const OF_RETIRED = ['reloads', 'members', 'owed'] as const;

/** The entries are of different datasets. Their commits take the numbers after `newestNumber`, in their order. */
export function writeEntries(given: readonly CatalogEntry[], newestNumber: number): readonly string[] {
  const entries = given.map((entry, index) => ({ ...entry, commitNumber: newestNumber + index + 1 }));
  const live = entries.filter((entry) => entry.kind === 'live');
  const retired = entries.filter((entry) => entry.kind === 'retired');
  const described = live.filter(({ columns }) => columns !== null);
  return [
    ...deleteOf('datasets', entries),
    ...insertRows('datasets', live.map(datasetRow)),
    ...deleteOf('columns', [...described, ...retired]),
    ...insertRows(
      'columns',
      described.flatMap(({ datasetId, columns }) => columnRows(datasetId, columns ?? [])),
    ),
    ...OF_RETIRED.flatMap((table) => deleteOf(table, retired)),
    ...replaceReloads(live),
    ...deleteReturned(live.filter(({ wasKept }) => wasKept)),
    ...insertRows('archived', retired.map(archivedRow)),
    ...insertRows('commits', entries.map(commitRow)),
  ];
}

type Numbered<Entry> = Entry & { readonly commitNumber: number };

function datasetRow({ datasetId, table, commitNumber }: Numbered<LiveEntry>): CatalogRow {
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
  ];
}

function columnRows(datasetId: string, columns: readonly PlannedColumn[]): readonly CatalogRow[] {
  return columns.map(recordedColumn).map((column, index) => {
    const { name, columnName, type, isNullable, description, sourceName, role, crs } = column;
    return [datasetId, index + 1, name, columnName, type, isNullable, description, sourceName, role, crs];
  });
}

function replaceReloads(live: readonly LiveEntry[]): readonly string[] {
  const rows = live.flatMap(({ datasetId, newerReloads }) =>
    [...newerReloads].map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
      return [datasetId, subscriptionId, logNumber, eventNumber, createdAt] as const;
    }),
  );
  const same = rows.map(([datasetId, subscriptionId]) => tuple([text(datasetId), text(subscriptionId)]));
  return [...deleteWhere('reloads', '(dataset_id, subscription_id)', same), ...insertRows('reloads', rows)];
}

/** A table that was kept is the live one again. */
function deleteReturned(returned: readonly LiveEntry[]): readonly string[] {
  const same = returned.map(({ datasetId, table }) => tuple([text(datasetId), text(table.tableName)]));
  return deleteWhere('archived', '(dataset_id, table_name)', same);
}

function archivedRow({ datasetId, tableName, reason, commit }: RetiredEntry): CatalogRow {
  return [datasetId, tableName, commit.toVersion, reason, commit.appliedAt];
}

function commitRow({ datasetId, commit, commitNumber }: Numbered<CatalogEntry>): CatalogRow {
  const { fromVersion, toVersion, kind, net, appliedAt, retirement = null } = commit;
  const counts = [net?.added ?? null, net?.changed ?? null, net?.removed ?? null];
  const judged = [retirement?.judgedAt ?? null, retirement?.isApproved ?? null];
  return [commitNumber, datasetId, fromVersion, toVersion, kind, ...counts, appliedAt, ...judged];
}

function deleteOf(table: CatalogTable, entries: readonly CatalogEntry[]): readonly string[] {
  return deleteWhere(
    table,
    'dataset_id',
    entries.map(({ datasetId }) => text(datasetId)),
  );
}

/** `values` are SQL: of `what` in the rows that go. */
function deleteWhere(table: CatalogTable, what: string, values: readonly string[]): readonly string[] {
  return together(values).map((some) => `DELETE FROM ${catalogTable(table)} WHERE ${what} IN (${some})`);
}

/** Puts rows into a table of the catalog, in their order. */
export function insertRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  return selectRows(table, rows).map((select) => `INSERT INTO ${catalogTable(table)} ${select}`);
}

/** Deletes the rows of a table whose first columns have these values, none of which is null. */
export function deleteRows(table: CatalogTable, keys: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table).slice(0, keys[0]?.length);
  const same = columns.map(([name]) => identifier(name)).join(', ');
  return selectRows(table, keys).map(
    (select) => `DELETE FROM ${catalogTable(table)} WHERE (${same}) IN (${select})`,
  );
}

/** Queries that give the rows, which have a value for each of the first columns of the table. */
function selectRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table)
    .slice(0, rows[0]?.length)
    .map(([, type], index) => FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`));
  return together(rows.map(jsonRow)).map(
    (some) => `SELECT ${columns.join(', ')}
      FROM (SELECT unnest(from_json(${text(`[${some}]`)}, '["JSON"]')) AS "row")`,
  );
}

/** The same text for what the database keeps as the same row. @throws DataError where a text holds a NUL character. */
export function jsonRow(row: CatalogRow): string {
  return json(row.map(jsonCell));
}

/** How a cell is made of its JSON, which is given as it is and as its text. Complete by its type. */
const FROM_JSON: Readonly<Record<CatalogType, (value: string, shown: string) => string>> = {
  VARCHAR: (_value, shown) => shown,
  BIGINT: (_value, shown) => `(${shown})::BIGINT`,
  BOOLEAN: (_value, shown) => `(${shown})::BOOLEAN`,
  TIMESTAMPTZ: (_value, shown) => `make_timestamptz((${shown})::BIGINT * 1000)`,
  'VARCHAR[]': (value) => `from_json(${value}, '["VARCHAR"]')`,
};

/** Whole numbers go as text, because those of JSON have 53 bits. A moment is its milliseconds. */
function jsonCell(cell: Cell): string | boolean | readonly string[] | null {
  if (cell instanceof Date) return integer(cell.getTime());
  return typeof cell === 'number' || typeof cell === 'bigint' ? integer(cell) : cell;
}

/** Joined by commas, as many at once as `MAX_ROWS_CHARACTERS` allows. */
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
