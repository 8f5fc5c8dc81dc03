/** Applies a write job to the state of the mirror: guard, change, prove, record. Pure. */

import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { archivedNameFor } from '../../../src/destination/catalog/archived-name.ts';
import { isPlannedFrom, isSameTable } from '../../../src/destination/catalog/guard.ts';
import type { JobResult, OwedReload, StoredProgress } from '../../../src/destination/destination.ts';
import { tableAfter } from '../../../src/destination/duckdb/table-after.ts';
import { assert, present } from '../../../src/lib/assert.ts';
import type { CommitKind, CommitResult } from '../../../src/model/commits.ts';
import { isLaterMark, type ReloadMark } from '../../../src/model/desired-state.ts';
import { DataError, InapplicableChangesError, StorageError, UsageError } from '../../../src/model/errors.ts';
import { judge, NO_KEYS, rowCountsOf } from '../../../src/model/gate.ts';
import { columnNames } from '../../../src/model/naming.ts';
import { refuseUnchanged } from '../../../src/model/past-states.ts';
import type { Counts } from '../../../src/model/records.ts';
import type {
  ChangesJob,
  ObservedColumn,
  ObservedTable,
  RepairJob,
  RetirementJob,
  RollbackJob,
  SnapshotJob,
  WriteJob,
} from '../../../src/model/write-jobs.ts';
import { inapplicableNet, statedRowCount } from '../../../src/staging/changes/proof.ts';
import { knownType } from '../../../src/staging/snapshot/casts.ts';
import { takenFromJob } from '../../support/loaded-table.ts';
import { type Line, pastCommitsOf } from '../../support/mirror-commits.ts';
import { frozenBy, pastAfter } from './commit-past.ts';
import { type MirrorState, namedRows, progressWithout, type Table, withLine } from './mirror-state.ts';
import type { PreparedContent } from './prepare-content.ts';
import { digestOfTable, type Rows, type TextRow } from './texts.ts';
import { checksumOf, inColumns, NO_PAST, stateAfter } from './undo-log.ts';

/** The coordinate system of files that name none, and of GeoJSON. */
const WGS84 = 'OGC:CRS84';

export interface Done {
  readonly state: MirrorState;
  readonly outcome: JobResult;
}

/** When a job is committed, and whether the history of its table is kept. */
export interface Turn {
  readonly at: Date;
  readonly keepsHistory: boolean;
}

/** @throws InapplicableChangesError, StorageError, DataError, UsageError */
export function execute(state: MirrorState, job: WriteJob, content: PreparedContent, turn: Turn): Done {
  const done = executed(state, job, content, turn);
  const waiting = waitingAt(state, job, content, done);
  return waiting === null ? done : { state, outcome: waiting };
}

/** What the gate of the job makes of it. Null: it may be committed. */
function waitingAt(
  { tables }: MirrorState,
  job: WriteJob,
  content: PreparedContent,
  { state, outcome }: Done,
): JobResult | null {
  if ((job.kind !== 'snapshot' && job.kind !== 'changes') || job.gate === undefined) return null;
  const { datasetId, gate } = job;
  const [before, after] = [tables.get(datasetId), state.tables.get(datasetId)];
  if (outcome.kind !== 'committed' || before === undefined || after === undefined) return null;
  const isByKey = isDeepStrictEqual(before.observed.keyColumns, after.observed.keyColumns);
  const removed = [...before.rows.keys()].filter((key) => !after.rows.has(key));
  const added = [...after.rows.keys()].filter((key) => !before.rows.has(key));
  const net = { added: added.length, changed: null, removed: removed.length };
  const counts = before.isDamaged
    ? rowCountsOf(before.observed.rowCount, after.rows.size, null)
    : rowCountsOf(before.rows.size, after.rows.size, isByKey ? net : null);
  if (judge(counts, gate.limits).kind !== 'awaiting') return null;
  const digest = digestOf(job, content);
  if (digest === gate.approvedDigest) return null;
  return { kind: 'awaiting', datasetId, judged: { digest, counts, keys: NO_KEYS } };
}

function digestOf(job: SnapshotJob | ChangesJob, content: PreparedContent): string {
  if (job.kind === 'snapshot' || content.kind !== 'changes') return job.kind === 'snapshot' ? job.digest : '';
  const entries = [...content.net].toSorted(([left], [right]) => (left < right ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(entries)).digest('hex');
}

/** @throws InapplicableChangesError, StorageError, DataError, UsageError */
function executed(state: MirrorState, job: WriteJob, content: PreparedContent, turn: Turn): Done {
  const { datasetId } = job;
  const live = state.tables.get(datasetId) ?? null;
  if (isStale(live, job)) return { state, outcome: { kind: 'stale-plan', datasetId } };
  if (job.kind === 'snapshot') return load(state, job, content, live, turn);
  const table = present(live, 'all else is planned from a table');
  if (job.kind === 'retirement') return retire(state, job, table, turn.at);
  if (table.isDropped && job.kind === 'changes') throw inapplicableNet(job, 'the table is missing');
  refuseDamaged(table);
  const commitNumber = state.newestCommit + 1;
  switch (job.kind) {
    case 'changes': {
      assert(content.kind === 'changes', 'changes were prepared');
      const after = changed(job, content, table, commitNumber, turn.at);
      return committed(state, job, after.table, table, after.net, turn);
    }
    case 'repair':
      assert(content.kind === 'repair', 'a repair was prepared');
      return committed(state, job, repaired(content, table, commitNumber, turn.at), table, NOT_COUNTED, turn);
    case 'rollback':
      return committed(state, job, restored(state, job, table, turn.at), table, NOT_COUNTED, turn);
  }
}

function isStale(live: Table | null, job: WriteJob): boolean {
  const observed = live?.observed ?? null;
  if (job.kind === 'changes' || job.kind === 'rollback') return !isSameTable(observed, job.plannedFrom);
  return !isPlannedFrom(observed, job.plannedFrom) || (observed === null && job.kind !== 'snapshot');
}

function load(
  state: MirrorState,
  job: SnapshotJob,
  content: PreparedContent,
  live: Table | null,
  turn: Turn,
): Done {
  assert(content.kind === 'snapshot', 'a snapshot was prepared');
  const { rows, hasFiles } = content;
  const observed = loaded(job, rows.size, hasFiles, live, state, turn.at);
  const retired = state.retired.filter((line) => !(line.datasetId === job.datasetId && line.isKept));
  const checksum = checksumOf(rows.values());
  const table = { observed, rows, committed: rows, checksum, isDamaged: false };
  return committed({ ...state, retired }, job, table, live, null, turn);
}

/** The model does not compare rows for the record of a commit. */
const NOT_COUNTED = { added: 0, changed: 0, removed: 0 };

/** @throws StorageError */
function refuseDamaged({ isDamaged, isDropped, observed: { tableName } }: Table): void {
  if (!isDamaged) return;
  if (isDropped)
    throw new StorageError(`The table ${tableName} is missing.`, { code: 'dataset_storage_failed' });
  throw new StorageError(`A block of the table ${tableName} is damaged.`, { code: 'mirror_damaged' });
}

function kindOfLoad({ lines }: MirrorState, datasetId: string, live: Table | null): CommitKind {
  if (live !== null) return 'reload';
  return lines.has(datasetId) ? 'return' : 'load';
}

function committed(
  state: MirrorState,
  job: SnapshotJob | ChangesJob | RepairJob | RollbackJob,
  table: Table,
  before: Table | null,
  net: Counts | null,
  { at, keepsHistory }: Turn,
): Done {
  if (job.kind !== 'rollback') refuseIfPinned(table, before);
  const { observed } = table;
  const { datasetId, tableName, version: toVersion, rowCount } = observed;
  const fromVersion = before?.observed.version ?? null;
  const { kind, fetched } = job;
  const versions = job.kind === 'changes' ? job.versions.length : 1;
  const measured = { versions, bytes: fetched.bytes, durationMs: 0 };
  const moved = { kind, tableName, fromVersion, toVersion, rowCount };
  const reported: CommitResult = { ...moved, net, ...measured, observed };
  const ofCommit = kind !== 'snapshot' ? kind : kindOfLoad(state, datasetId, before);
  const commitNumber = state.newestCommit + 1;
  const past = pastAfter(state.pasts.get(datasetId), {
    kind,
    commitNumber,
    before,
    after: table,
    keepsHistory,
  });
  const owed = job.kind === 'rollback' && before !== null ? noLongerSatisfied(before, table) : [];
  const after = {
    ...state,
    tables: new Map(state.tables).set(datasetId, table),
    progress: withOwed(state.progress, owed),
    pasts: new Map(state.pasts).set(datasetId, past),
  };
  const restoredCommit = job.kind === 'rollback' ? job.toCommit : null;
  const line = { ofCommit, fromVersion, toVersion, net, at, commitNumber, restoredCommit };
  return {
    state: withLine(after, datasetId, lineOf(line)),
    outcome: { kind: 'committed', datasetId, committed: reported },
  };
}

/** A pinned table takes no other rows, but by another rollback. @throws StorageError */
function refuseIfPinned({ checksum }: Table, before: Table | null): void {
  if (before === null || before.observed.pinnedSince === null || checksum === before.checksum) return;
  const { tableName } = before.observed;
  throw new StorageError(`The table ${tableName} is pinned.`, { code: 'dataset_storage_failed' });
}

/** What the table satisfied before a rollback, and owes again after it. */
function noLongerSatisfied({ observed: before }: Table, { observed: after }: Table): readonly OwedReload[] {
  return [...before.reloads].flatMap(([subscriptionId, mark]) => {
    const kept = after.reloads.get(subscriptionId);
    const isLost = subscriptionId !== '' && (kept === undefined || isLaterMark(mark, kept));
    return isLost ? [{ datasetId: before.datasetId, subscriptionId, ...mark }] : [];
  });
}

function withOwed(progress: StoredProgress | null, owed: readonly OwedReload[]): StoredProgress | null {
  if (progress === null || owed.length === 0) return progress;
  const known = progress.owed.filter((one) => !owed.some((again) => isDeepStrictEqual(one, again)));
  return { ...progress, owed: [...known, ...owed] };
}

interface Recorded {
  readonly ofCommit: CommitKind;
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly net: Counts | null;
  readonly at: Date;
  readonly commitNumber: number;
  readonly restoredCommit: number | null;
}

function lineOf({
  ofCommit: kind,
  fromVersion: from,
  toVersion: to,
  net,
  at,
  commitNumber,
  restoredCommit,
}: Recorded): Line {
  const text = (number: number | null | undefined): string | null => number?.toString() ?? null;
  return {
    commit: text(commitNumber),
    restored: text(restoredCommit),
    from: text(from),
    to: text(to),
    kind,
    counts: [text(net?.added), text(net?.changed), text(net?.removed)],
    appliedAt: microseconds(at),
  };
}

/** As the real mirror stores times. */
function microseconds(at: Date): string {
  return `${at.getTime()}000`;
}

function loaded(
  job: SnapshotJob,
  rowCount: number,
  hasFiles: boolean,
  before: Table | null,
  { names, newestCommit }: MirrorState,
  at: Date,
): ObservedTable {
  return {
    ...takenFromJob(job),
    schemaName: 'main',
    tableName: present(names.get(job.datasetId), 'a dataset has a name before it has a table'),
    commitNumber: newestCommit + 1,
    rowCount,
    appliedAt: at,
    pinnedSince: before?.observed.pinnedSince ?? null,
    columns: loadedColumns(job, hasFiles),
    reloads: laterReloads(before?.observed.reloads ?? new Map(), job.reloads),
  };
}

/** The columns of a table that is loaded from the snapshot. */
export function loadedColumns(
  { datasetId, schema }: SnapshotJob,
  hasFiles: boolean,
): readonly ObservedColumn[] {
  const all = [...schema.columns, ...schema.envelopeColumns];
  const given = columnNames(all.map(({ name }) => name));
  return all.map((column, index): ObservedColumn => {
    const type = knownType(datasetId, column);
    const isKey = schema.keyColumns.includes(column.name);
    return {
      name: column.name,
      columnName: given[index] ?? column.name,
      type,
      role: isKey ? 'key' : index < schema.columns.length ? 'data' : 'envelope',
      crs: type === 'geometry' && hasFiles ? WGS84 : null,
    };
  });
}

/** An event number only grows within a log, and so does the number of the log. */
function laterReloads(
  before: ReadonlyMap<string, ReloadMark>,
  reloads: ReadonlyMap<string, ReloadMark>,
): ReadonlyMap<string, ReloadMark> {
  const later = new Map(before);
  for (const [id, mark] of reloads) {
    const known = later.get(id);
    if (known === undefined || isLaterMark(mark, known)) later.set(id, mark);
  }
  return later;
}

export function changed(
  job: ChangesJob,
  { columns, net }: Extract<PreparedContent, { kind: 'changes' }>,
  { observed, rows: before, committed: intended, checksum }: Table,
  commitNumber: number,
  at: Date,
): { readonly table: Table; readonly net: Counts } {
  const after = located(
    job,
    tableAfter(observed.columns, columns.columns).columns,
    { observed, rows: before },
    net,
  );
  if (after.length !== observed.columns.length && checksumOf(before.values()) !== checksum)
    throw new InapplicableChangesError(job.datasetId, job.version, 'rows were altered by hand');
  const positions = after.map(({ name }) => observed.columns.findIndex((column) => column.name === name));
  const widened = (narrow: Rows): Rows =>
    new Map([...narrow].map(([key, row]) => [key, positions.map((position) => row[position] ?? null)]));
  const { rows, counts, keptUp } = rewritten(widened(before), net, checksum);
  proveRows(job, rows);
  const { version, schema, publishedAt } = job;
  const table: Table = {
    observed: {
      ...observed,
      commitNumber,
      version,
      schemaVersion: schema.schemaVersion,
      keyColumns: schema.keyColumns,
      rowCount: rows.size,
      publishedAt,
      appliedAt: at,
      columns: after,
    },
    rows,
    committed: rewritten(widened(intended), net, 0n).rows,
    // A row that was altered by hand stays noticed.
    checksum: after.length === observed.columns.length ? keptUp : checksumOf(rows.values()),
    isDamaged: false,
  };
  return { table, net: counts };
}

/** The rows after a net change, how many it touched, and their checksum. */
function rewritten(before: Rows, net: ReadonlyMap<string, TextRow | null>, checksum: bigint) {
  const rows = new Map(before);
  const counts = { added: 0, changed: 0, removed: 0 };
  let keptUp = checksum;
  for (const [key, row] of net) {
    const old = rows.get(key) ?? null;
    keptUp += checksumOf(row === null ? [] : [row]) - checksumOf(old === null ? [] : [old]);
    if (row === null) counts.removed += rows.delete(key) ? 1 : 0;
    else {
      counts[old === null ? 'added' : 'changed'] += 1;
      rows.set(key, row);
    }
  }
  return { rows, counts, keptUp };
}

/** @throws DataError, StorageError where there is nothing to repair */
function repaired(
  { content: { names, rows } }: Extract<PreparedContent, { kind: 'repair' }>,
  live: Table,
  commitNumber: number,
  at: Date,
): Table {
  const { observed } = live;
  if (!isDeepStrictEqual(names, namedRows(live).names)) throw new DataError('The service has other columns.');
  if (digestOfTable(names, rows) === digestOfTable(names, live.rows))
    throw new StorageError('Nothing is to be repaired.', { code: 'dataset_storage_failed' });
  const after = { ...observed, commitNumber, rowCount: rows.size, appliedAt: at };
  return { observed: after, rows, committed: rows, checksum: checksumOf(rows.values()), isDamaged: false };
}

/** The table as the commit left it. @throws UsageError, DataError */
function restored(
  { lines, pasts, newestCommit }: MirrorState,
  job: RollbackJob,
  live: Table,
  at: Date,
): Table {
  const { datasetId, toCommit } = job;
  const commits = pastCommitsOf(lines.get(datasetId) ?? []);
  const commit = commits.find(({ commitNumber }) => commitNumber === toCommit);
  if (commit === undefined || commit.kind === 'retire')
    throw new UsageError(`Commit ${toCommit} left no table.`);
  refuseUnchanged(datasetId, commit, present(commits.at(-1), 'there is this commit'));
  const past = pasts.get(datasetId) ?? NO_PAST;
  const state = stateAfter(past, namedRows(live), toCommit);
  const left = past.left.get(toCommit);
  if (state === null || left?.isRecorded !== true)
    throw new UsageError(`Commit ${toCommit} is not known any more.`);
  const rows = inColumns(state, left.names);
  if (checksumOf(rows.values()) !== left.checksum)
    throw new DataError('The rows that the undo log leads back to are not those that the commit left.');
  const { tableName } = live.observed;
  const observed = {
    ...left.observed,
    tableName,
    commitNumber: newestCommit + 1,
    appliedAt: at,
    pinnedSince: at,
  };
  return { observed, rows, committed: rows, checksum: left.checksum, isDamaged: false };
}

function proveRows(job: ChangesJob, { size }: Rows): void {
  const stated = statedRowCount(job);
  if (stated === null || stated === size) return;
  throw inapplicableNet(job, `${size} rows instead of ${stated}`);
}

type Planned = ReturnType<typeof tableAfter>['columns'];

/** GeoJSON comes only into a column that is in its system, or that has no value and gets it. */
function located(
  job: ChangesJob,
  planned: Planned,
  { observed: { columns }, rows }: Pick<Table, 'observed' | 'rows'>,
  net: ReadonlyMap<string, TextRow | null>,
): readonly ObservedColumn[] {
  return planned.map(({ column: { name }, columnName, type, role, crs }, index) => {
    const there = { name, columnName, type, role, crs };
    const isFilled = type === 'geometry' && [...net.values()].some((row) => (row?.[index] ?? null) !== null);
    if (!isFilled || crs === WGS84) return there;
    const position = columns.findIndex((column) => column.name === name);
    const isSuspended = [...rows.values()].some((row) => (row[position] ?? null) !== null);
    if (crs === null && !isSuspended) return { ...there, crs: WGS84 };
    throw new InapplicableChangesError(job.datasetId, job.version, `${name} is in another system`);
  });
}

function retire(state: MirrorState, job: RetirementJob, live: Table, at: Date): Done {
  const { observed, rows, isDamaged, isDropped } = live;
  const { datasetId, reason } = job;
  // What cannot be read cannot be copied, and nothing is left of a dropped table.
  const unlessDropped = isDamaged && job.how === 'archive' ? 'keep' : job.how;
  const how = isDropped ? 'drop' : unlessDropped;
  const { version, tableName } = observed;
  const taken = new Set(state.retired.flatMap(({ tableName: name }) => (name === null ? [] : [name])));
  const copyName = archivedNameFor(tableName, version, at, taken);
  const left = { archive: copyName, drop: null, keep: tableName }[how];
  const line = {
    datasetId,
    tableName: left,
    version,
    reason,
    archivedAt: microseconds(at),
    isKept: how === 'keep',
    rowCount: rows.size,
  };
  const tables = new Map(state.tables);
  tables.delete(datasetId);
  const net = { added: 0, changed: 0, removed: how === 'keep' ? 0 : rows.size };
  const progress = progressWithout(state.progress, (row) => row.datasetId === datasetId);
  const commitNumber = state.newestCommit + 1;
  const past = state.pasts.get(datasetId) ?? NO_PAST;
  const ended =
    how === 'drop' ? { ...past, log: null } : frozenBy(past, { ...live, observed, rows }, commitNumber);
  const pasts = new Map(state.pasts).set(datasetId, ended);
  const after = { ...state, tables, pasts, retired: [...state.retired, line], progress };
  const table = left === null ? null : `${how === 'keep' ? 'main' : 'archived'}.${left}`;
  return {
    state: withLine(
      after,
      datasetId,
      lineOf({
        ofCommit: 'retire',
        fromVersion: version,
        toVersion: version,
        net,
        at,
        commitNumber,
        restoredCommit: null,
      }),
    ),
    outcome: { kind: 'retired', datasetId, table },
  };
}
