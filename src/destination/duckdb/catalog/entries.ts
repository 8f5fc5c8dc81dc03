/** The rows that jobs write into the catalog. All entries of a batch are collected as data before any becomes SQL. Pure. */

import { isDeepStrictEqual } from 'node:util';
import { shellWord } from '../../../lib/text.ts';
import type { CommitKind, RowDifference } from '../../../model/commits.ts';
import { isLaterMark, type ReloadMark } from '../../../model/desired-state.ts';
import { StorageError } from '../../../model/errors.ts';
import type { Counts } from '../../../model/records.ts';
import type {
  ChangesJob,
  ObservedColumn,
  ObservedTable,
  RetirementJob,
  RollbackJob,
  SnapshotJob,
  WriteJob,
} from '../../../model/write-jobs.ts';
import { text, tuple } from '../../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../../staging/snapshot/table-plan.ts';
import type { Checksum } from '../checksum.ts';
import { observedColumn } from './observed-state.ts';
import { type RecordedState, restoredCells } from './recorded-state.ts';
import { type CatalogRow, deleteRows, deleteWhere, insertRows } from './rows.ts';
import { type CatalogTable, catalogTable, RESTORED_COLUMNS } from './schema.ts';
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
  /** Reloads that the table no longer satisfies, by subscription id. */
  readonly owed?: ReadonlyMap<string, ReloadMark>;
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
  /** The commit whose state a rollback restores. */
  readonly restoredCommit?: number;
  readonly retirement?: { readonly judgedAt: Date; readonly isApproved: boolean };
}

/** The kinds of commit that each kind of job can produce. The type makes the compiler refuse a missing kind. */
export const KINDS_OF_JOB: Readonly<Record<WriteJob['kind'], readonly CommitKind[]>> = {
  snapshot: ['load', 'reload', 'return'],
  changes: ['changes'],
  retirement: ['retire'],
  rollback: ['rollback'],
  repair: ['repair'],
};

export const COMMIT_KINDS: readonly CommitKind[] = Object.values(KINDS_OF_JOB).flat();

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

interface RolledBack {
  readonly live: ObservedTable;
  readonly recordedColumns: readonly RecordedColumn[];
  readonly net: RowDifference | null;
  readonly appliedAt: Date;
  readonly isLogged: boolean;
}

/** The table has the state that the commit left, and stays there. */
export function entryOfRollback(
  { datasetId, toCommit }: RollbackJob,
  { table, checksum, columns, reloads }: RecordedState,
  { live, recordedColumns, net, appliedAt, isLogged }: RolledBack,
): LiveEntry {
  const { tableName } = live;
  return {
    kind: 'live',
    datasetId,
    table: { ...table, tableName, appliedAt, pinnedSince: appliedAt },
    checksum,
    columns,
    areColumnsNew: !isDeepStrictEqual(columns, recordedColumns),
    reloads: { before: live.reloads, after: reloads },
    owed: noLongerSatisfied(live.reloads, reloads),
    isLogged,
    wasKept: false,
    commit: {
      fromVersion: live.version,
      toVersion: table.version,
      kind: 'rollback',
      net,
      appliedAt,
      restoredCommit: toCommit,
    },
  };
}

/** The resyncs of operators, which no subscription asked for, are not owed to any. */
function noLongerSatisfied(
  before: ReadonlyMap<string, ReloadMark>,
  after: ReadonlyMap<string, ReloadMark>,
): ReadonlyMap<string, ReloadMark> {
  const lost = [...before].filter(([subscriptionId, mark]) => {
    const kept = after.get(subscriptionId);
    return subscriptionId !== '' && (kept === undefined || isLaterMark(mark, kept));
  });
  return new Map(lost);
}

/**
 * A pinned table stays as it is: whatever else writes it may only bring back its own content, after damage.
 * @throws StorageError
 */
export function refuseIfPinned(entry: CatalogEntry, { live, checksum }: Current): void {
  if (live === null || live.pinnedSince === null) return;
  if (entry.kind === 'retired' || entry.commit.kind === 'rollback') return;
  const isItsOwn = checksum?.version === entry.checksum.version && checksum.sum === entry.checksum.sum;
  if (isItsOwn) return;
  throw new StorageError(
    `The table of ${live.datasetId} is pinned at version ${live.version}, and this content is not what it had there. Nothing was changed.`,
    {
      code: 'dataset_storage_failed',
      hint: `Lift the pin, and the next catch-up replaces the table: feed-sync resume --dataset ${shellWord(live.datasetId)}`,
    },
  );
}

type RepairedTable = Pick<LiveEntry, 'columns' | 'checksum' | 'isLogged'> &
  Pick<CommitEntry, 'net' | 'appliedAt'> & { readonly rowCount: number };

/** Only the rows are others than before. */
export function entryOfRepair(live: ObservedTable, repaired: RepairedTable): LiveEntry {
  const { columns, checksum, isLogged, net, appliedAt, rowCount } = repaired;
  const { datasetId, commitNumber: _, columns: _columns, reloads, ...table } = live;
  return {
    kind: 'live',
    datasetId,
    table: { ...table, rowCount, appliedAt },
    checksum,
    columns,
    areColumnsNew: false,
    reloads: { before: reloads, after: reloads },
    isLogged,
    wasKept: false,
    commit: { fromVersion: live.version, toVersion: live.version, kind: 'repair', net, appliedAt },
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
    ...oweReloads(live),
    ...deleteReturned(live.filter(({ wasKept }) => wasKept)),
    ...insertRows('archived', retired.map(archivedRow)),
    ...insertRows('commits', entries.map(commitRow)),
  ];
}

export function unpinned(datasetId: string): string {
  return `UPDATE ${catalogTable('datasets')} SET pinned_since = NULL WHERE dataset_id = ${text(datasetId)}`;
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

/** A reload that is owed already has one row. */
function oweReloads(live: readonly LiveEntry[]): readonly string[] {
  const rows = live.flatMap(({ datasetId, owed = new Map<string, ReloadMark>() }) =>
    [...owed].map(([subscriptionId, { logNumber, eventNumber, createdAt }]): CatalogRow => {
      return [datasetId, subscriptionId, logNumber, eventNumber, createdAt];
    }),
  );
  if (rows.length === 0) return [];
  const keys = rows.map((row) => row.slice(0, -1));
  return [...deleteRows('owed', keys), ...insertRows('owed', rows)];
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
  const { fromVersion, toVersion, kind, net, appliedAt, restoredCommit = null, retirement = null } = commit;
  const counts = [net?.added ?? null, net?.changed ?? null, net?.removed ?? null];
  const judged = [retirement?.judgedAt ?? null, retirement?.isApproved ?? null];
  const restored =
    entry.kind === 'live' && entry.isLogged
      ? restoredCells({ ...entry, reloads: entry.reloads.after })
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
    restoredCommit,
    ...restored,
  ];
}

function deleteOf(table: CatalogTable, entries: readonly CatalogEntry[]): readonly string[] {
  return deleteWhere(
    table,
    'dataset_id',
    entries.map(({ datasetId }) => text(datasetId)),
  );
}
