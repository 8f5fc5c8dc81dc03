/**
 * Validates changes beside the work on the database: every value is decoded and checked, and the backlog becomes its net change.
 * Then applies the net change to the rows that it touches.
 */

import { isDeepStrictEqual } from 'node:util';
import { present } from '../../lib/assert.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { ChangesJob, ObservedTable } from '../../model/write-jobs.ts';
import { netColumn, PRESENT } from '../../staging/changes/columns.ts';
import {
  coalesceChanges,
  coalesceTogether,
  type NetChange,
  netRows,
} from '../../staging/changes/net-change.ts';
import { digestOfNetChange } from '../../staging/changes/net-digest.ts';
import { inapplicableNet, proveStatedRowCount } from '../../staging/changes/proof.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { Checksum } from '../catalog/cells.ts';
import { columnsAfter, recordedColumn } from '../catalog/columns.ts';
import { type CatalogEntry, entryOfChanges } from '../catalog/entries.ts';
import { isSameTable } from '../catalog/guard.ts';
import type { Awaiting } from '../judge-commit.ts';
import { qualified } from './catalog/names.ts';
import type { Current } from './catalog/observed-state.ts';
import { MAX_COLUMNS, withPossibleNames } from './column-names.ts';
import { type Content, isSameContent, readContent } from './content.ts';
import { datasetError, PostgresError } from './errors.ts';
import type { Turn, ValidatedWrite } from './job.ts';
import { analyzeStage, makeStage, stageWithColumns, type Target } from './stage.ts';
import {
  alterationTo,
  commentOnColumn,
  comments,
  type FoundTable,
  isSameType,
  sridOfColumn,
} from './tables.ts';
import { countRows, readTouched, rowsAltered } from './write-rows.ts';
import { writeStaged } from './write-staged.ts';

/** Validates changes. @throws BadChangesError, UnknownColumnsError, InapplicableChangesError, StorageError */
export async function validateChanges(
  engine: Engine,
  job: ChangesJob,
  place: string,
): Promise<ValidatedWrite> {
  return validatedChanges(job, await coalesceChanges(engine, job), place);
}

/** Validates jobs that `coalescedAlike` found alike, in their order. Returns null when each has to be validated alone. */
export async function validateChangesTogether(
  engine: Engine,
  jobs: readonly ChangesJob[],
  place: string,
): Promise<readonly ValidatedWrite[] | null> {
  const nets = await coalesceTogether(engine, jobs);
  return nets?.map((net, index) => validatedChanges(jobs[index] as ChangesJob, net, place)) ?? null;
}

function validatedChanges(job: ChangesJob, net: NetChange, place: string): ValidatedWrite {
  const { columns: before } = job.plannedFrom;
  const columns = withPossibleNames(columnsAfter(before, net.columns), before);
  if (columns.length > Math.max(before.length, MAX_COLUMNS))
    throw inapplicableNet(job, `a table has at most ${MAX_COLUMNS} columns`);
  for (const value of [job.datasetId, job.schema.schemaVersion]) text(value);
  for (const { column } of columns) text(column.sourceName);
  comments('table', job.datasetId, columns);
  return {
    job,
    execute: (turn, current) => applyChanges(turn, { job, net, columns, current }),
    explain: async (_examiner, error) => explained(job, error, place),
  };
}

interface Applying {
  readonly job: ChangesJob;
  readonly net: NetChange;
  /** The columns of the table afterwards. */
  readonly columns: readonly PlannedColumn[];
  readonly current: Current;
}

async function applyChanges(turn: Turn, applying: Applying): Promise<CatalogEntry | Awaiting | null> {
  const { job, net, columns, current } = applying;
  const { live, recordedColumns } = current;
  if (!isSameTable(live, job.plannedFrom)) return null;
  const { transaction, postgis, appliedAt } = turn;
  proveColumns(turn, job, live, current);
  await proveFirstValues(turn, live, net);
  const { schemaName, tableName, isDistributed } = current;
  const target: Target = { schemaName, tableName, isDistributed, columns, isNet: true };
  await stage(turn, net, target);
  const found = current.found ?? NOTHING_FOUND;
  const alteration = alterationTo(live, found, columns, postgis, turn.indexes);
  const { addsOrDrops } = alteration;
  if (addsOrDrops) await proveRows(turn, job, live, current.checksum);
  const digest = () => digestOfNetChange(turn.staging, netRows(net), columns);
  let before: Content | null = null;
  let after = NO_CONTENT;
  let rowCount = 0;
  const written = await writeStaged(turn, {
    target,
    current,
    found,
    version: job,
    alteration,
    gate: job.gate,
    digest,
    rowCount: null,
    looksForAltered: false,
    async prove(difference) {
      const { added, removed, contents } = present(difference, 'the rows of a net change are compared');
      const { staged, before: touched } = present(contents, 'the rows of a net change are hashed');
      before = addsOrDrops ? null : touched;
      after = await readTouched(transaction, target);
      rowCount = await countRows(transaction, live);
      prove(applying, { after, rowCount, expected: live.rowCount + added - removed });
      if (isSameContent(after, staged)) return;
      throw rowsAltered(live);
    },
  });
  if ('kind' in written) return written;
  const counts = present(written.net, 'the table is live');
  // A column that was added is part of the hash of every row.
  const checksum =
    before === null
      ? (await readContent(transaction, qualified(live), columns)).checksum
      : await checksumAfter(turn, target, current.checksum, before, after);
  const described = columns.map(recordedColumn);
  const known = new Map(recordedColumns.map(({ columnName, description }) => [columnName, description]));
  for (const { column, columnName } of columns) {
    if ((known.get(columnName) ?? null) === column.description) continue;
    await transaction.run(commentOnColumn(qualified(live), columnName, column.description));
  }
  return entryOfChanges(job, {
    live,
    columns: described,
    areColumnsNew: !isDeepStrictEqual(recordedColumns, described),
    rowCount,
    checksum,
    net: counts,
    appliedAt,
    isLogged: turn.keepsHistory && live.keyColumns.length > 0,
    isApproved: written.isApproved,
  });
}

const NO_CONTENT: Content = { rowCount: 0, checksum: { sum: 0n, version: '' } };
const NOTHING_FOUND: FoundTable = {
  columns: new Map(),
  keyColumns: [],
  keyName: null,
  checks: [],
  heirs: null,
  isUnlogged: false,
};

async function stage(turn: Turn, net: NetChange, target: Target): Promise<void> {
  const { transaction, postgis } = turn;
  const { columns } = target;
  await makeStage(transaction, target, postgis);
  const values = columns.map((column, index) => ({
    value: `net.${netColumn(index)}`,
    type: column.type,
    srid: sridOfColumn(column),
  }));
  const flag = { value: `net.${PRESENT}`, type: 'flag', srid: 0 } as const;
  await turn.copy(stageWithColumns(target), {
    columns: [...values, flag],
    from: `${netRows(net)} AS net`,
    mostRows: net.rows + net.removals,
    isDistributed: target.isDistributed,
  });
  await analyzeStage(transaction, target);
}

/** Changes must not go into a table whose columns or key were changed by hand. */
function proveColumns({ postgis }: Turn, job: ChangesJob, live: ObservedTable, { found }: Current): void {
  if (found === null) throw inapplicableNet(job, `the table ${live.tableName} is missing`);
  const isSame =
    found.columns.size === live.columns.length &&
    live.columns.every((column) => isSameType(found.columns.get(column.columnName), column, postgis));
  const keys = live.columns.filter(({ role }) => role === 'key').map(({ columnName }) => columnName);
  // Without a key the proof of the keys stands alone.
  if (isSame && (found.keyName === null || isDeepStrictEqual(found.keyColumns, keys))) return;
  throw inapplicableNet(job, `the columns of the table ${live.tableName} are not those it was left with`);
}

/** With other columns the checksum is computed anew: it would take in rows that were changed by hand, and nothing would find them. */
async function proveRows(
  { transaction }: Turn,
  job: ChangesJob,
  live: ObservedTable,
  recorded: Checksum | null,
): Promise<void> {
  if (recorded === null) return;
  const { checksum } = await readContent(transaction, qualified(live), live.columns);
  if (checksum.version !== recorded.version || checksum.sum === recorded.sum) return;
  throw inapplicableNet(job, `the rows of the table ${live.tableName} are not those it was left with`);
}

/** The first value defines the coordinate system, so the column must hold no value before. */
async function proveFirstValues(
  { transaction }: Turn,
  live: ObservedTable,
  { firstValues }: NetChange,
): Promise<void> {
  for (const { columnName, refusal } of firstValues) {
    const filled = `SELECT 1 FROM ${qualified(live)} AS t WHERE t.${identifier(columnName)} IS NOT NULL LIMIT 1`;
    if ((await transaction.rows(filled)).length > 0) throw refusal;
  }
}

interface Proving {
  readonly after: Content;
  readonly rowCount: number;
  /** The recorded number of rows with what was added and removed. */
  readonly expected: number;
}

/** @throws InapplicableChangesError */
function prove({ job, net, current }: Applying, { after, rowCount, expected }: Proving): void {
  const { tableName } = current;
  if (after.rowCount !== net.rows || rowCount !== expected) {
    throw inapplicableNet(
      job,
      `the table ${tableName} does not prove: it has ${plural(rowCount, 'row')} instead of ${formatCount(expected)}`,
    );
  }
  proveStatedRowCount(job, rowCount);
}

/** Where none was recorded, or one of another way of hashing, it is computed anew. */
async function checksumAfter(
  { transaction }: Turn,
  target: Target,
  recorded: Checksum | null,
  before: Content,
  after: Content,
): Promise<Checksum> {
  if (recorded === null || recorded.version !== after.checksum.version) {
    return (await readContent(transaction, qualified(target), target.columns)).checksum;
  }
  return { ...recorded, sum: recorded.sum - before.checksum.sum + after.checksum.sum };
}

/** A table that was changed by hand can refuse the statements. The snapshot brings it back. */
function explained(job: ChangesJob, error: unknown, place: string): Error {
  const isServers = error instanceof PostgresError;
  const isRefused = isServers && (error.fault === 'statement' || error.fault === 'value');
  if (isRefused || (error instanceof DuckDbError && error.fault === 'statement')) {
    return inapplicableNet(job, firstLine(error).replace(/[.!]$/, ''));
  }
  return datasetError(error, place);
}
