/** The rows that jobs write into the catalog, as data, so that each destination writes them in its own SQL. Pure. */

import { isDeepStrictEqual } from 'node:util';
import { shellWord } from '../../lib/text.ts';
import type { CommitKind, RowDifference } from '../../model/commits.ts';
import { isLaterMark, type ReloadMark } from '../../model/desired-state.ts';
import { StorageError } from '../../model/errors.ts';
import type { Counts } from '../../model/records.ts';
import type {
  ChangesJob,
  ObservedColumn,
  ObservedTable,
  RetirementJob,
  RollbackJob,
  SnapshotJob,
  WriteJob,
} from '../../model/write-jobs.ts';
import { damagedBookkeeping } from '../../staging/engine/errors.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, isSameChecksum } from './cells.ts';
import { observedColumn, type RecordedColumn, recordedColumn } from './columns.ts';
import type { RecordedState } from './recorded-state.ts';

export type CatalogEntry = LiveEntry | RetiredEntry;

export interface LiveEntry {
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
export interface RetiredEntry {
  readonly kind: 'retired';
  readonly datasetId: string;
  readonly reason: string;
  /** The table that has the rows now: one in schema `archived`, or the dataset's own; null when the rows are gone. */
  readonly tableName: string | null;
  readonly checksum: Checksum | null;
  readonly commit: CommitEntry;
}

/** The row of `feed_sync.commits`, without its number. */
interface CommitEntry {
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly kind: CommitKind;
  readonly net: RowDifference | null;
  readonly appliedAt: Date;
  /** True of a commit that exceeded its gate, and that an operator approved. */
  readonly isApproved?: boolean;
  /** The commit whose state a rollback restores. */
  readonly restoredCommit?: number;
  readonly retirement?: { readonly judgedAt: Date; readonly isApproved: boolean };
}

/** The kinds of commit that each kind of job can produce. The type makes the compiler refuse a missing kind. */
const KINDS_OF_JOB: Readonly<Record<WriteJob['kind'], readonly CommitKind[]>> = {
  snapshot: ['load', 'reload', 'return'],
  changes: ['changes'],
  retirement: ['retire'],
  rollback: ['rollback'],
  repair: ['repair'],
};

const COMMIT_KINDS: readonly CommitKind[] = Object.values(KINDS_OF_JOB).flat();

export function commitKindOf(stated: string): CommitKind {
  const kind = COMMIT_KINDS.find((known) => known === stated);
  if (kind === undefined) throw damagedBookkeeping('a commit has an unknown kind');
  return kind;
}

/** The state of a dataset at the beginning of a transaction. */
export interface DatasetBefore {
  /** The schema that has its table, or is to have it. */
  readonly schemaName: string;
  readonly tableName: string;
  /** Null when the dataset has no live table. */
  readonly live: ObservedTable | null;
  /** The recorded checksum of the live table; null when none was recorded. */
  readonly checksum: Checksum | null;
  /** True when retirement has kept a table of this name; always false for changes, which do not need it. */
  readonly isKept: boolean;
  /** True when the dataset ever had a table; always false for changes, which do not need it. */
  readonly hasCommits: boolean;
}

interface LoadedTable {
  readonly current: DatasetBefore;
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  readonly checksum: Checksum;
  /** Null where there was no table before, or where its rows cannot be compared. */
  readonly net: RowDifference | null;
  readonly appliedAt: Date;
  readonly isLogged: boolean;
  readonly isApproved: boolean;
}

export function entryOfSnapshot(job: SnapshotJob, loaded: LoadedTable): LiveEntry {
  const { current, columns, rowCount, checksum, net, appliedAt, isLogged, isApproved } = loaded;
  const { schemaName, tableName, live, isKept, hasCommits } = current;
  const before = live?.reloads ?? new Map();
  const firstOrReturn = hasCommits ? 'return' : 'load';
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: {
      ...tableOf(job, rowCount, appliedAt),
      schemaName,
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
      isApproved,
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
  readonly isApproved: boolean;
}

/** Changes do not alter the record of the snapshot that the table was last loaded from. */
export function entryOfChanges(job: ChangesJob, changed: ChangedTable): LiveEntry {
  const { live, columns, areColumnsNew, rowCount, checksum, net, appliedAt, isLogged, isApproved } = changed;
  const { schemaName, tableName, pinnedSince } = live;
  const { snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt } = live;
  const loaded = { snapshotVersion, snapshotDigest, digestKind, loadedThrough, loadedAt };
  return {
    kind: 'live',
    datasetId: job.datasetId,
    table: { ...tableOf(job, rowCount, appliedAt), schemaName, tableName, pinnedSince, ...loaded },
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
      isApproved,
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

/** Returns the entry of a table that has the state which the commit left, and stays there. */
export function entryOfRollback(
  { datasetId, toCommit }: RollbackJob,
  { table, checksum, columns, reloads }: RecordedState,
  { live, recordedColumns, net, appliedAt, isLogged }: RolledBack,
): LiveEntry {
  const { schemaName, tableName } = live;
  return {
    kind: 'live',
    datasetId,
    table: { ...table, schemaName, tableName, appliedAt, pinnedSince: appliedAt },
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

/** Refuses every write to a pinned table but one that brings its own content back after damage. @throws StorageError */
export function refuseIfPinned(
  entry: CatalogEntry,
  { live, checksum }: Pick<DatasetBefore, 'live' | 'checksum'>,
): void {
  if (live === null || live.pinnedSince === null) return;
  if (entry.kind === 'retired' || entry.commit.kind === 'rollback') return;
  const isItsOwn = isSameChecksum(checksum, entry.checksum);
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

/** Returns the entry of a repair, which changes nothing but rows. */
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
  /** The checksum of the rows, as the catalog knows it. */
  readonly checksum: Checksum | null;
}

export function entryOfRetirement(
  { datasetId, reason, retiredAt: judgedAt, isApproved, plannedFrom: { version } }: RetirementJob,
  { tableName, removedRows, checksum }: RetiredTable,
  appliedAt: Date,
): RetiredEntry {
  return {
    kind: 'retired',
    datasetId,
    reason,
    tableName,
    checksum: tableName === null ? null : checksum,
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
