/**
 * Validates changes before the mirror is opened: decodes and checks every value, and coalesces the backlog into its net change. Then
 * applies the net change in a transaction.
 */

import { stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { present } from '../../lib/assert.ts';
import type { ChangesJob, ObservedTable } from '../../model/write-jobs.ts';
import {
  coalesceChanges,
  coalesceTogether,
  type NetChange,
  netRows,
} from '../../staging/changes/net-change.ts';
import { digestOfNetChange } from '../../staging/changes/net-digest.ts';
import { inapplicableNet, proveStatedRowCount } from '../../staging/changes/proof.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import {
  DuckDbError,
  type Fault,
  firstLine,
  type MirrorPlace,
  mirrorError,
} from '../../staging/engine/errors.ts';
import { text } from '../../staging/engine/sql.ts';
import { TYPE_NAMES } from '../../staging/snapshot/casts.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { Checksum } from '../catalog/cells.ts';
import { type RecordedColumn, recordedColumn } from '../catalog/columns.ts';
import { type CatalogEntry, entryOfChanges } from '../catalog/entries.ts';
import { isSameTable } from '../catalog/guard.ts';
import { type Awaiting, type Judgement, mayWait } from '../judge-commit.ts';
import { mirrored } from './catalog/schema.ts';
import { computeChecksum } from './checksum.ts';
import { judgeNet } from './judge-net.ts';
import { type CommitLog, logOfCommit } from './past/commit-log.ts';
import { namesInHistory } from './past/history.ts';
import { keepsColumns, rewrittenIfMuch, type TableAfter, tableAfter } from './table-after.ts';
import { type Current, commentOnColumn, comments, type FoundTable } from './tables.ts';
import type { Turn, ValidatedWrite } from './validate.ts';
import { findFilled, UnprovenError, type Written, writeNet } from './write-net-change.ts';

/** Validates changes. @throws BadChangesError, UnknownColumnsError, InapplicableChangesError, StorageError */
export async function validateChanges(engine: Engine, job: ChangesJob): Promise<ValidatedWrite> {
  return await validatedChanges(job, await coalesceChanges(engine, job));
}

/** Validates jobs that `coalescedAlike` found alike, in their order. Returns null when each has to be validated alone. */
export async function validateChangesTogether(
  engine: Engine,
  jobs: readonly ChangesJob[],
): Promise<readonly ValidatedWrite[] | null> {
  const nets = await coalesceTogether(engine, jobs);
  if (nets === null) return null;
  return await Promise.all(
    jobs.map((job, index) => validatedChanges(job, present(nets[index], 'each was coalesced'))),
  );
}

async function validatedChanges(job: ChangesJob, net: NetChange): Promise<ValidatedWrite> {
  const { columns, alteration } = tableAfter(job.plannedFrom.columns, net.columns);
  refuseUnspeakable(job, columns);
  const sizes = await Promise.all(net.paths.map(async (path) => (await stat(path)).size));
  const rewritten = alteration.kind === 'rewrite' ? job.plannedFrom.rowCount : 0;
  return {
    job,
    rowCount: net.rows + net.removals + rewritten,
    tableRows: job.plannedFrom.rowCount + net.rows,
    bytes: sizes.reduce((sum, size) => sum + size, 0),
    execute: (session, current, turn) => applyChanges(session, { job, net, current, turn }),
    explain: (_examiner, error, place) => explainChanges(job, error, place),
  };
}

/** Renders the SQL texts before the lock is taken, so that a name which SQL cannot hold fails early. */
function refuseUnspeakable(job: ChangesJob, columns: readonly PlannedColumn[]): void {
  for (const value of [job.datasetId, job.schema.schemaVersion]) text(value);
  for (const { column } of columns) text(column.sourceName);
  comments('table', job.datasetId, columns);
}

/** A table that was changed by hand can refuse these statements. Loading the snapshot replaces such a table. */
const FALLS_BACK: ReadonlySet<Fault> = new Set<Fault>(['statement', 'gave-up']);

async function explainChanges(job: ChangesJob, error: unknown, place: MirrorPlace): Promise<Error> {
  if (!(error instanceof DuckDbError) || !FALLS_BACK.has(error.fault)) return await mirrorError(error, place);
  return inapplicableNet(job, firstLine(error).replace(/[.!]$/, ''));
}

interface Applying {
  readonly job: ChangesJob;
  readonly net: NetChange;
  readonly current: Current;
  readonly turn: Turn;
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws InapplicableChangesError */
async function applyChanges(
  engine: Engine,
  { job, net, current, turn }: Applying,
): Promise<CatalogEntry | Awaiting | null> {
  const { live, recordedColumns } = current;
  if (!isSameTable(live, job.plannedFrom)) return null;

  const found = present(current.found, 'a live table was examined');
  proveColumns(job, live, found);
  await proveFirstValues(engine, live.tableName, net);
  const begins = turn.keepsHistory && current.logName === null;
  const log = logOfCommit(current, live, turn, job, begins ? await namesInHistory(engine) : new Set());
  const after = rewrittenIfMuch(tableAfter(live.columns, net.columns), net, found);
  if (!keepsColumns(after.alteration)) await proveRows(engine, job, live, current.checksum);
  await runTogether(engine, log?.before(after) ?? []);
  const { judgement, ...written } = await write(engine, job, { current, live, net, found, log }, after);
  proveStatedRowCount(job, written.rowCount);
  if (judgement?.kind === 'awaiting') return judgement;
  const { statements, columns, areColumnsNew } = describeColumns(live, recordedColumns, after);
  await runTogether(engine, [...statements, ...(log?.after(after, false) ?? [])]);
  const { appliedAt } = turn;
  const isLogged = turn.keepsHistory && live.keyColumns.length > 0;
  const isApproved = judgement !== null;
  return entryOfChanges(job, { live, columns, areColumnsNew, ...written, appliedAt, isLogged, isApproved });
}

/** Changes must not go into a table whose columns were changed by hand. */
function proveColumns(job: ChangesJob, observed: ObservedTable, { columns }: FoundTable): void {
  const expected = observed.columns.map(({ columnName, type }) => [columnName, TYPE_NAMES[type]]);
  if (isDeepStrictEqual(columns, expected)) return;
  throw inapplicableNet(job, `the columns of the table ${observed.tableName} are not those it was left with`);
}

/** With other columns the checksum is computed anew: it would take in rows that were changed by hand, and nothing would find them. */
async function proveRows(
  engine: Engine,
  job: ChangesJob,
  { tableName, columns }: ObservedTable,
  recorded: Checksum | null,
): Promise<void> {
  if (recorded === null) return;
  const names = columns.map(({ columnName }) => columnName);
  const { sum, version } = await computeChecksum(engine, mirrored(tableName), names);
  if (version !== recorded.version || sum === recorded.sum) return;
  throw inapplicableNet(job, `the rows of the table ${tableName} are not those it was left with`);
}

/** The first value defines the coordinate system, so the column must hold no value before. */
async function proveFirstValues(
  engine: Engine,
  tableName: string,
  { firstValues }: NetChange,
): Promise<void> {
  for (const { columnName, refusal } of firstValues) {
    if ((await engine.rows(findFilled(tableName, columnName))).length > 0) throw refusal;
  }
}

interface Writing {
  readonly current: Current;
  readonly live: ObservedTable;
  readonly net: NetChange;
  readonly found: FoundTable;
  readonly log: CommitLog | null;
}

async function write(
  engine: Engine,
  job: ChangesJob,
  { current, live, net, found, log }: Writing,
  { columns, alteration }: TableAfter,
): Promise<Written & { readonly judgement: Judgement }> {
  const { tableName, rowCount } = live;
  const before = {
    found,
    recorded: { rowCount, checksum: current.checksum },
    comparedColumns: null,
    checksumAfter: 'kept-up' as const,
  };
  const target = { tableName, net: { ...net, from: netRows(net) }, columns };
  let judgement = null as Judgement;
  const judging = {
    gate: job.gate,
    live,
    rowsBefore: found.rowCount,
    columns,
    digest: () => digestOfNetChange(engine, target.net.from, columns),
  };
  try {
    const written = await writeNet(engine, target, alteration, before, {
      readsRows: log !== null || mayWait(job.gate),
      logEntries: (rows) => log?.entries(rows) ?? [],
      async onCounted(counts, rows) {
        judgement = await judgeNet(engine, judging, counts, rows);
      },
    });
    return { ...written, judgement };
  } catch (error) {
    if (!(error instanceof UnprovenError)) throw error;
    throw inapplicableNet(job, `the table ${tableName} does not prove: ${error.message}`);
  }
}

interface Description {
  /** Statements for comments that are missing or have changed. */
  readonly statements: readonly string[];
  readonly columns: readonly RecordedColumn[];
  /** False when the recorded columns stay as they are. */
  readonly areColumnsNew: boolean;
}

/** `recorded` are the columns in the catalog so far. A rewritten table has lost its comments. */
function describeColumns(
  { datasetId, tableName }: Pick<ObservedTable, 'datasetId' | 'tableName'>,
  recorded: readonly RecordedColumn[],
  { columns, alteration }: TableAfter,
): Description {
  const described = columns.map(recordedColumn);
  const statements =
    alteration.kind === 'rewrite'
      ? comments(tableName, datasetId, columns)
      : renewedComments(tableName, recorded, columns);
  return { statements, columns: described, areColumnsNew: !isDeepStrictEqual(recorded, described) };
}

function renewedComments(
  tableName: string,
  recorded: readonly RecordedColumn[],
  columns: readonly PlannedColumn[],
): readonly string[] {
  const before = new Map(recorded.map(({ columnName, description }) => [columnName, description]));
  return columns
    .filter(({ column, columnName }) => (before.get(columnName) ?? null) !== column.description)
    .map(({ column, columnName }) => commentOnColumn(mirrored(tableName), columnName, column.description));
}
