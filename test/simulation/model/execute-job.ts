/** What a unit makes of the state of the mirror: guard, change, prove, write down. Pure. */

import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { JobResult } from '../../../src/destination/destination.ts';
import { firstVersion, statedRowCount, tableAfter } from '../../../src/destination/duckdb/apply-changes.ts';
import { isPlannedFrom, isSameTable } from '../../../src/destination/duckdb/catalog/tables.ts';
import { archivedNameFor } from '../../../src/destination/duckdb/retire.ts';
import { assert, present } from '../../../src/lib/assert.ts';
import type { CommitKind, CommitResult } from '../../../src/model/commits.ts';
import { isLaterMark, type ReloadMark } from '../../../src/model/desired-state.ts';
import { InapplicableChangesError } from '../../../src/model/errors.ts';
import { judge, NO_KEYS, rowCountsOf } from '../../../src/model/gate.ts';
import { columnNames } from '../../../src/model/naming.ts';
import type { Counts } from '../../../src/model/records.ts';
import type {
  ChangesJob,
  ObservedColumn,
  ObservedTable,
  RepairJob,
  RetirementJob,
  SnapshotJob,
  WriteJob,
} from '../../../src/model/write-jobs.ts';
import { knownType } from '../../../src/staging/snapshot/casts.ts';
import type { Line } from '../../support/mirror-commits.ts';
import { type MirrorState, progressWithout, type Table, withLine } from './mirror-state.ts';
import type { PreparedContent } from './prepare-content.ts';
import type { Rows, TextRow } from './texts.ts';

/** The coordinate system of files that name none, and of GeoJSON. */
const WGS84 = 'OGC:CRS84';

export interface Done {
  readonly state: MirrorState;
  readonly outcome: JobResult;
}

/** @throws InapplicableChangesError */
export function execute(state: MirrorState, job: WriteJob, content: PreparedContent, at: Date): Done {
  const done = executed(state, job, content, at);
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
  const counts = rowCountsOf(before.rows.size, after.rows.size, isByKey ? net : null);
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

/** @throws InapplicableChangesError */
function executed(state: MirrorState, job: WriteJob, content: PreparedContent, at: Date): Done {
  const { datasetId } = job;
  const live = state.tables.get(datasetId) ?? null;
  switch (job.kind) {
    case 'snapshot': {
      assert(content.kind === 'snapshot', 'a snapshot was prepared');
      if (!isPlannedFrom(live?.observed ?? null, job.plannedFrom)) return stalePlan(state, datasetId);
      const observed = loaded(job, content.rows.size, content.hasFiles, live, state, at);
      const retired = state.retired.filter((line) => !(line.datasetId === datasetId && line.isKept));
      const table = { observed, rows: content.rows };
      return committed({ ...state, retired }, job, table, live, null, at);
    }
    case 'changes': {
      assert(content.kind === 'changes', 'changes were prepared');
      if (live === null || !isSameTable(live.observed, job.plannedFrom)) return stalePlan(state, datasetId);
      const { table, net } = changed(job, content, live, at);
      return committed(state, job, table, live, net, at);
    }
    case 'repair': {
      if (live === null || !isPlannedFrom(live.observed, job.plannedFrom)) return stalePlan(state, datasetId);
      // The rows of the model are never altered by hand.
      const commitNumber = (live.observed.commitNumber ?? 0) + 1;
      const table = { ...live, observed: { ...live.observed, commitNumber, appliedAt: at } };
      return committed(state, job, table, live, { added: 0, changed: 0, removed: 0 }, at);
    }
    case 'retirement':
      if (live === null || !isPlannedFrom(live.observed, job.plannedFrom)) return stalePlan(state, datasetId);
      return retire(state, job, live, at);
    case 'rollback':
      throw new Error('the model of the mirror has no history to roll back');
  }
}

function kindOfLoad({ lines }: MirrorState, datasetId: string, live: Table | null): CommitKind {
  if (live !== null) return 'reload';
  return lines.has(datasetId) ? 'return' : 'load';
}

function stalePlan(state: MirrorState, datasetId: string): Done {
  return { state, outcome: { kind: 'stale-plan', datasetId } };
}

function committed(
  state: MirrorState,
  job: SnapshotJob | ChangesJob | RepairJob,
  table: Table,
  before: Table | null,
  net: Counts | null,
  at: Date,
): Done {
  const { observed } = table;
  const { datasetId, tableName, version: toVersion, rowCount } = observed;
  const fromVersion = before?.observed.version ?? null;
  const { kind, fetched } = job;
  const versions = job.kind === 'changes' ? job.versions.length : 1;
  const measured = { versions, bytes: fetched.bytes, durationMs: 0 };
  const moved = { kind, tableName, fromVersion, toVersion, rowCount };
  const reported: CommitResult = { ...moved, net, ...measured, observed };
  const ofCommit = kind !== 'snapshot' ? kind : kindOfLoad(state, datasetId, before);
  const after = { ...state, tables: new Map(state.tables).set(datasetId, table) };
  return {
    state: withLine(after, datasetId, lineOf(ofCommit, fromVersion, toVersion, net, at)),
    outcome: { kind: 'committed', datasetId, committed: reported },
  };
}

function lineOf(kind: string, from: number | null, to: number, net: Counts | null, at: Date): Line {
  const text = (number: number | null | undefined): string | null => number?.toString() ?? null;
  return {
    from: text(from),
    to: text(to),
    kind,
    counts: [text(net?.added), text(net?.changed), text(net?.removed)],
    appliedAt: String(at.getTime()),
  };
}

function loaded(
  job: SnapshotJob,
  rowCount: number,
  hasFiles: boolean,
  before: Table | null,
  { names }: MirrorState,
  at: Date,
): ObservedTable {
  const { datasetId, version, publishedAt, schema, digest, reloads } = job;
  const { digestKind, loadedThrough, loadedAt } = job;
  const all = [...schema.columns, ...schema.envelopeColumns];
  const given = columnNames(all.map(({ name }) => name));
  const columns = all.map((column, index): ObservedColumn => {
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
  return {
    datasetId,
    tableName: present(names.get(datasetId), 'a dataset has a name before it has a table'),
    commitNumber: (before?.observed.commitNumber ?? 0) + 1,
    version,
    schemaVersion: schema.schemaVersion,
    rowCount,
    keyColumns: schema.keyColumns,
    snapshotVersion: version,
    snapshotDigest: digest,
    digestKind,
    loadedThrough,
    loadedAt,
    publishedAt,
    appliedAt: at,
    pinnedSince: null,
    columns,
    reloads: laterReloads(before?.observed.reloads ?? new Map(), reloads),
  };
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

function changed(
  job: ChangesJob,
  { columns, net }: Extract<PreparedContent, { kind: 'changes' }>,
  { observed, rows: before }: Table,
  at: Date,
): { readonly table: Table; readonly net: Counts } {
  const after = located(
    job,
    tableAfter(observed.columns, columns.columns).columns,
    { observed, rows: before },
    net,
  );
  const positions = after.map(({ name }) => observed.columns.findIndex((column) => column.name === name));
  const rows = new Map<string, TextRow>();
  for (const [key, row] of before)
    rows.set(
      key,
      positions.map((position) => row[position] ?? null),
    );
  const counts = { added: 0, changed: 0, removed: 0 };
  for (const [key, row] of net) {
    const wasThere = rows.has(key);
    if (row === null) counts.removed += rows.delete(key) ? 1 : 0;
    else {
      counts[wasThere ? 'changed' : 'added'] += 1;
      rows.set(key, row);
    }
  }
  proveRows(job, rows);
  const { version, schema, publishedAt } = job;
  const table = {
    observed: {
      ...observed,
      commitNumber: (observed.commitNumber ?? 0) + 1,
      version,
      schemaVersion: schema.schemaVersion,
      keyColumns: schema.keyColumns,
      rowCount: rows.size,
      publishedAt,
      appliedAt: at,
      columns: after,
    },
    rows,
  };
  return { table, net: counts };
}

function proveRows(job: ChangesJob, { size }: Rows): void {
  const stated = statedRowCount(job);
  if (stated === null || stated === size) return;
  throw new InapplicableChangesError(job.datasetId, firstVersion(job), `${size} rows instead of ${stated}`);
}

type Planned = ReturnType<typeof tableAfter>['columns'];

/** GeoJSON comes only into a column that is in its system, or that holds no value and gets it. */
function located(
  job: ChangesJob,
  planned: Planned,
  { observed: { columns }, rows }: Table,
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

function retire(state: MirrorState, job: RetirementJob, { observed, rows }: Table, at: Date): Done {
  const { datasetId, how, reason } = job;
  const { version, tableName } = observed;
  const taken = new Set(state.retired.flatMap(({ tableName: name }) => (name === null ? [] : [name])));
  const copyName = archivedNameFor(tableName, version, at, taken);
  const left = { archive: copyName, drop: null, keep: tableName }[how];
  const line = {
    datasetId,
    tableName: left,
    version,
    reason,
    archivedAt: String(at.getTime()),
    isKept: how === 'keep',
    rowCount: rows.size,
  };
  const tables = new Map(state.tables);
  tables.delete(datasetId);
  const net = { added: 0, changed: 0, removed: how === 'keep' ? 0 : rows.size };
  const progress = progressWithout(state.progress, (row) => row.datasetId === datasetId);
  const after = { ...state, tables, retired: [...state.retired, line], progress };
  const table = left === null ? null : `${how === 'keep' ? 'main' : 'archived'}.${left}`;
  return {
    state: withLine(after, datasetId, lineOf('retire', version, version, net, at)),
    outcome: { kind: 'retired', datasetId, table },
  };
}
