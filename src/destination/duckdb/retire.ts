/**
 * Retires the table of a dataset inside the given transaction: archives, drops or keeps it. An archived copy contains the table
 * as it is, including changes made by hand. A table that cannot be read cannot be copied: it is kept, because no later attempt and
 * no service would bring it back.
 */

import type { ObservedTable, Retirement, RetirementJob } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { DuckDbError, mirrorError } from '../../staging/engine/errors.ts';
import { numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { archivedNameFor } from '../catalog/archived-name.ts';
import { type CatalogEntry, entryOfRetirement, type RetiredTable } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { frozenNames } from '../catalog/undo-logs.ts';
import { archived, createArchive, MIRROR, mirrored, selectTableNames } from './catalog/schema.ts';
import { IS_DAMAGE } from './count-tables.ts';
import { IncomparableError } from './difference.ts';
import { dropLog, freezeLog, namesInHistory, viewFrozen } from './past/history.ts';
import { type Current, commentOnColumn, commentOnTable } from './tables.ts';
import type { Turn, ValidatedWrite } from './validate.ts';

type Retire = (
  engine: Engine,
  job: RetirementJob,
  tableName: string,
  retiring: Retiring,
) => Promise<Omit<RetiredTable, 'checksum'>>;

interface Retiring {
  readonly appliedAt: Date;
  /** With its undo log the copy is the past of the dataset: the reserve of the disk is not there for it. */
  readonly keepsPast: boolean;
}

/** The type makes the compiler refuse a missing kind. */
const RETIRE: Readonly<Record<Retirement, Retire>> = { archive, drop, keep };

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. */
async function retireTable(
  engine: Engine,
  job: RetirementJob,
  { tableName, live, logName, checksum, existingObject }: Current,
  { commitNumber, appliedAt, incomparable }: Turn,
): Promise<CatalogEntry | null> {
  const { plannedFrom } = job;
  const isUnreadable = incomparable !== null;
  const how = isUnreadable && job.how === 'archive' ? 'keep' : job.how;
  if (live === null || !isPlannedFrom(live, plannedFrom)) return null;
  // A table that was dropped by hand is gone, whatever retirement was planned.
  const retired =
    existingObject === null
      ? { tableName: null, removedRows: plannedFrom.rowCount }
      : await RETIRE[how](engine, job, tableName, { appliedAt, keepsPast: logName !== null });
  if (logName !== null && isUnreadable) await runTogether(engine, dropLog(logName));
  else if (logName !== null) {
    await freeze(engine, live, logName, { ...retired, how, commitNumber, checksum });
  }
  return entryOfRetirement(job, { ...retired, checksum }, appliedAt);
}

interface Freezing extends RetiredTable {
  readonly how: Retirement;
  readonly commitNumber: number;
}

/** The undo log stays with the rows that it leads back from. */
async function freeze(
  engine: Engine,
  live: ObservedTable,
  logName: string,
  { tableName: retiredName, how, commitNumber, checksum }: Freezing,
): Promise<void> {
  const frozen = frozenNames(live.tableName, commitNumber, await namesInHistory(engine));
  const statements = {
    archive: (name: string) =>
      freezeLog(live, logName, commitNumber, { ...frozen, schema: 'archived', name }, checksum),
    keep: () => [
      ...viewFrozen(live.tableName, frozen),
      ...freezeLog(live, logName, commitNumber, frozen, checksum),
    ],
    drop: () => dropLog(logName),
  };
  await runTogether(engine, retiredName === null ? statements.drop() : statements[how](retiredName));
}

/** Returns a retired table with its schema, for people. */
export function placeOf(tableName: string | null, isKept: boolean): string | null {
  return tableName === null ? null : `${isKept ? 'main' : 'archived'}.${tableName}`;
}

/** DuckDB cannot move a table to another schema. The table is copied with its comments, then dropped. */
async function archive(
  engine: Engine,
  { datasetId, plannedFrom }: RetirementJob,
  tableName: string,
  { appliedAt, keepsPast }: Retiring,
): Promise<Omit<RetiredTable, 'checksum'>> {
  await engine.run(createArchive());
  const taken = new Set((await engine.rows(selectTableNames('archived'))).map((row) => textAt(row, 0)));
  const copyName = archivedNameFor(tableName, plannedFrom.version, appliedAt, taken);
  const copy = archived(copyName);
  const columnComments = await engine.rows(selectComments(tableName));
  try {
    const copying = copyOf(tableName, copy);
    await (keepsPast ? engine.runWithinReserve([copying]) : engine.runWhileSpaceIsFree(copying));
  } catch (error) {
    const isUnreadable = error instanceof DuckDbError && IS_DAMAGE.has(error.fault);
    throw isUnreadable ? new IncomparableError(datasetId, 'rows', error) : error;
  }
  await runTogether(engine, [
    commentOnTable(copy, datasetId),
    ...columnComments.map((row) => commentOnColumn(copy, textAt(row, 0), textAt(row, 1))),
  ]);
  await engine.run(dropTable(tableName));
  return { tableName: copyName, removedRows: await countRows(engine, copy) };
}

async function drop(
  engine: Engine,
  _job: RetirementJob,
  tableName: string,
): Promise<Omit<RetiredTable, 'checksum'>> {
  const removedRows = await countRows(engine, mirrored(tableName));
  await engine.run(dropTable(tableName));
  return { tableName: null, removedRows };
}

async function keep(
  _engine: Engine,
  _job: RetirementJob,
  tableName: string,
): Promise<Omit<RetiredTable, 'checksum'>> {
  return { tableName, removedRows: 0 };
}

async function countRows(engine: Engine, table: string): Promise<number> {
  return numberAt((await engine.rows(countRowsOf(table)))[0] ?? [], 0);
}

/** Validates a retirement. @throws DataError when the id or the reason cannot stand in SQL. */
export async function validateRetirement(_engine: Engine, job: RetirementJob): Promise<ValidatedWrite> {
  for (const value of [job.datasetId, job.reason]) text(value);
  return {
    job,
    rowCount: job.how === 'archive' ? job.plannedFrom.rowCount : 0,
    tableRows: job.plannedFrom.rowCount,
    bytes: 0,
    execute: (engine, current, turn) => retireTable(engine, job, current, turn),
    explain: (_examiner, error, place) => mirrorError(error, place),
  };
}

/** `copy` is the SQL of the new table. */
function copyOf(tableName: string, copy: string): string {
  return `CREATE TABLE ${copy} AS SELECT * FROM ${mirrored(tableName)}`;
}

function dropTable(tableName: string): string {
  return `DROP TABLE ${mirrored(tableName)}`;
}

/** `table` is SQL. */
function countRowsOf(table: string): string {
  return `SELECT count(*) FROM ${table}`;
}

/** Selects the columns that have a comment, each with its comment. */
function selectComments(tableName: string): string {
  return `SELECT column_name, comment FROM duckdb_columns()
    WHERE database_name = ${text(MIRROR)} AND schema_name = 'main' AND table_name = ${text(tableName)}
      AND comment IS NOT NULL`;
}
