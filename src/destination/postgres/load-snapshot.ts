/**
 * Validates a snapshot: its files must fit the schema and the manifest. Then loads it: a table that is not there yet is made and
 * filled; the rows of one that is there are compared with the snapshot and written in place, so that what readers made on it stays.
 */

import { formatCount, plural } from '../../lib/units.ts';
import type { RowDifference } from '../../model/commits.ts';
import { DataError } from '../../model/errors.ts';
import { TABLE_MISSING } from '../../model/lost-past.ts';
import type { ColumnType } from '../../model/records.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { examineSnapshot, refuseOtherCount } from '../../staging/snapshot/examine-snapshot.ts';
import { BadKeysError, explainFailure } from '../../staging/snapshot/explain-failure.ts';
import { MAX_SHOWN_VALUE, selectRows } from '../../staging/snapshot/scan-sql.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { type CatalogEntry, entryOfSnapshot } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import type { CommittedVersion } from '../catalog/undo-logs.ts';
import type { Awaiting } from '../judge-commit.ts';
import { type Named, qualified } from './catalog/names.ts';
import type { Current } from './catalog/observed-state.ts';
import { refuseTooManyColumns, withPossibleNames } from './column-names.ts';
import type { Transaction } from './connection.ts';
import { type Content, isSameContent, readContent } from './content.ts';
import { datasetError, PostgresError, sentence } from './errors.ts';
import type { Turn, ValidatedWrite } from './job.ts';
import { completeTable, moveTable, newPlace } from './move-table.ts';
import { logOfCommit } from './past/commit-log.ts';
import { freezeKept } from './past/history.ts';
import { analyzeStage, makeStage, stageOf, stageWithColumns } from './stage.ts';
import {
  addKey,
  alterationTo,
  comments,
  createTable,
  type FoundTable,
  hasTriggers,
  lacksKeys,
  sridOfColumn,
} from './tables.ts';
import { replaceRows, rowsAltered } from './write-rows.ts';
import { judgeUncompared, writeStaged } from './write-staged.ts';

/** Validates a snapshot. @throws DataError, StorageError */
export async function validateSnapshot(
  engine: Engine,
  job: SnapshotJob,
  place: string,
): Promise<ValidatedWrite> {
  const examined = await examineSnapshot(engine, job);
  refuseTooManyColumns(job.datasetId, examined.plan.columns);
  const plan = { ...examined.plan, columns: withPossibleNames(examined.plan.columns) };
  refuseUnspeakable(job, plan);
  return {
    job,
    execute: (turn, current) => loadSnapshot(turn, { job, plan, stated: examined.rowCount, current }),
    explain: (examiner, error) =>
      explainFailure(examiner, { job, plan }, error, (other) =>
        explained(examiner, { job, plan }, other, place),
      ),
  };
}

/** Renders the statements once before the transaction, so that a name which SQL cannot hold fails early. */
function refuseUnspeakable(job: SnapshotJob, plan: TablePlan): void {
  const texts = [job.datasetId, job.digest, job.schema.schemaVersion, ...job.reloads.keys()];
  for (const value of texts) text(value);
  for (const { column } of plan.columns) text(column.sourceName);
  comments('table', job.datasetId, plan.columns);
  selectRows(plan);
}

interface Loading {
  readonly job: SnapshotJob;
  readonly plan: TablePlan;
  /** The rows of the files, as their footers state. */
  readonly stated: number;
  readonly current: Current;
}

async function loadSnapshot(turn: Turn, loading: Loading): Promise<CatalogEntry | Awaiting | null> {
  const { job, plan, current } = loading;
  if (!isPlannedFrom(current.live, job.plannedFrom)) return null;
  const { found } = current;
  const place = await newPlace(turn, job, current);
  const loaded = found === null ? await make(turn, loading) : await edit(turn, loading, found);
  if ('kind' in loaded) return loaded;
  const { appliedAt } = turn;
  const { columns } = plan;
  const isLogged = turn.keepsHistory && job.schema.keyColumns.length > 0;
  if (place !== null) await moveTable(turn, job.datasetId, current, place, columns);
  const after = { ...current, ...place };
  return entryOfSnapshot(job, { current: after, ...loaded, columns, appliedAt, isLogged });
}

interface Loaded extends Content {
  readonly net: RowDifference | null;
  /** An operator has approved that the content exceeds its gate. */
  readonly isApproved: boolean;
}

/** Nobody sees the table before the end of the transaction, so it is filled before it gets its key and its indexes. */
async function make(turn: Turn, loading: Loading): Promise<Loaded | Awaiting> {
  const { transaction, postgis } = turn;
  const { job, plan, current } = loading;
  await transaction.run(createTable(current, plan.columns, postgis));
  const content = await fill(turn, loading);
  refuseOtherCount(job, content.rowCount);
  await giveKey(turn, job, current, plan.columns, content.rowCount);
  const judgement = await judgeUncompared(job.gate, () => job.digest, current.live, content.rowCount);
  if (judgement?.kind === 'awaiting') return judgement;
  await finishTable(turn, current, plan.columns, job);
  return { ...content, net: null, isApproved: judgement !== null };
}

/** Fills a new table. Rows that triggers or rules of an operator see are staged and compared. @throws PostgresError */
async function fill(turn: Turn, { plan, stated, current }: Loading): Promise<Content> {
  const { transaction, postgis } = turn;
  const { schemaName, tableName, isDistributed } = current;
  const { columns } = plan;
  const table = qualified(current);
  const rows = copied(plan, stated, current);
  if (!isDistributed && (await hasTriggers(transaction, current))) {
    const target = { schemaName, tableName, isDistributed, columns, isNet: false };
    await makeStage(transaction, target, postgis);
    await turn.copy(stageWithColumns(target), rows);
    const staged = await readContent(transaction, stageOf(target), columns);
    await replaceRows(transaction, target);
    proveEqual(current, await readContent(transaction, table, columns), staged);
    return staged;
  }
  const list = columns.map(({ columnName }) => identifier(columnName)).join(', ');
  // Citus passes the rows of a distributed table on to its node, and freezes none.
  const frozen = isDistributed ? {} : { newTable: table };
  await turn.copy(`${table} (${list})`, { ...rows, ...frozen });
  return await readContent(transaction, table, columns);
}

/** Gives a table that was made and filled, and has its key, its indexes, its comments and its undo log. */
export async function finishTable(
  turn: Turn,
  current: Current,
  columns: readonly PlannedColumn[],
  version: CommittedVersion & { readonly datasetId: string },
): Promise<void> {
  const { live } = current;
  await completeTable(turn, current, columns, version.datasetId);
  const log = await logOfCommit(turn, {
    current,
    live,
    columns,
    isCompared: false,
    version,
    lost: TABLE_MISSING,
  });
  await turn.alter(log.after);
}

async function edit(
  turn: Turn,
  { job, plan, stated, current }: Loading,
  found: FoundTable,
): Promise<Loaded | Awaiting> {
  const { transaction, postgis, indexes } = turn;
  const { schemaName, tableName, isDistributed } = current;
  const { columns } = plan;
  const table = qualified(current);
  const target = { schemaName, tableName, isDistributed, columns, isNet: false };
  const stage = stageOf(target);
  await makeStage(transaction, target, postgis);
  await turn.copy(stageWithColumns(target), copied(plan, stated, current));
  const staged = await readContent(transaction, stage, columns);
  refuseOtherCount(job, staged.rowCount);
  await proveKeys(transaction, job, stage, columns, staged.rowCount);
  await analyzeStage(transaction, target);
  const alteration = alterationTo(current, found, columns, postgis, indexes);
  const { rowCount } = staged;
  const { gate, digest } = job;
  await turn.alter(await freezeKept(transaction, current));
  const written = await writeStaged(turn, {
    target,
    current,
    found,
    version: job,
    alteration,
    gate,
    digest: () => digest,
    rowCount,
    looksForAltered: true,
    prove: async () => proveEqual(current, await readContent(transaction, table, columns), staged),
  });
  if ('kind' in written) return written;
  await transaction.runAll(comments(table, job.datasetId, columns));
  return { ...staged, ...written };
}

/** Proves that the table has the content of the snapshot, whatever it had before. @throws PostgresError */
function proveEqual(named: Named, content: Content, staged: Content): void {
  if (!isSameContent(content, staged)) throw rowsAltered(named);
}

function copied(plan: TablePlan, mostRows: number, { isDistributed }: Current) {
  return {
    mostRows,
    isDistributed,
    columns: plan.columns.map((column) => ({
      value: `rows.${identifier(column.columnName)}`,
      type: column.type,
      srid: sridOfColumn(column),
    })),
    from: `(${selectRows(plan)}) AS rows`,
  };
}

/** Gives the table its key, which proves the keys; without it, and where they are wrong, a scan says more. @throws BadKeysError */
async function giveKey(
  { transaction, indexes }: Turn,
  job: SnapshotJob,
  named: Named,
  columns: readonly PlannedColumn[],
  rowCount: number,
): Promise<void> {
  let refusal: unknown = null;
  try {
    if (await addKey(transaction, named, columns, indexes)) return;
  } catch (error) {
    if (!lacksKeys(error)) throw error;
    refusal = error;
  }
  await proveKeys(transaction, job, qualified(named), columns, rowCount);
  if (refusal !== null) throw refusal;
}

/** `table` is SQL. @throws BadKeysError */
async function proveKeys(
  transaction: Transaction,
  { datasetId }: SnapshotJob,
  table: string,
  columns: readonly PlannedColumn[],
  rowCount: number,
): Promise<void> {
  const keys = columns.filter(({ role }) => role === 'key');
  if (keys.length === 0) return;
  const names = keys.map(({ columnName }) => identifier(columnName));
  const [counts = []] = await transaction.rows(
    `SELECT ${names.map((name) => `count(*) - count(${name})`).join(', ')} FROM ${table}`,
  );
  for (const [index, column] of keys.entries()) {
    const nulls = numberAt(counts, index);
    if (nulls === 0) continue;
    throw new BadKeysError(
      `The key column ${JSON.stringify(column.column.name)} of ${datasetId} is null in ${formatCount(nulls)} of ${plural(rowCount, 'row')}`,
      [{ column, value: null }],
    );
  }
  const shown = names.map((name) => `left(${name}::text, ${MAX_SHOWN_VALUE})`);
  const [repeated] = await transaction.rows(`SELECT count(*), ${shown.join(', ')} FROM ${table}
    GROUP BY ${names.join(', ')} HAVING count(*) > 1 LIMIT 1`);
  if (repeated === undefined) return;
  const key = keys.map(({ column }, index) => `${column.name} = ${JSON.stringify(repeated[index + 1])}`);
  throw new BadKeysError(
    `The key ${key.join(', ')} of ${datasetId} is there ${numberAt(repeated, 0)} times`,
    keys.map((column, index) => ({ column, value: textAt(repeated, index + 1) })),
  );
}

/** A value that PostgreSQL cannot store, in words, and as a condition of DuckDB. */
interface Unstorable {
  readonly what: string;
  condition(value: string): string;
}

const TEXT_WITH_NUL: Unstorable = {
  what: 'a NUL character',
  condition: (value) => `contains(${value}, chr(0))`,
};
const JSON_WITH_NUL: Unstorable = {
  what: 'a NUL character',
  // A backslash before it may be one that is escaped itself.
  condition: (value) => `regexp_matches(${value}::VARCHAR, ${text(String.raw`(^|[^\\])(\\\\)*\\u0000`)})`,
};
const DATE_OUT_OF_RANGE: Unstorable = {
  what: 'a date before 4714-11-24 BC or after 5874897-12-31',
  condition: (value) =>
    `isfinite(${value}) AND ${value} NOT BETWEEN DATE '4714-11-24 (BC)' AND DATE '5874897-12-31'`,
};
const TIME_OUT_OF_RANGE: Unstorable = {
  what: 'a time before 4714-11-24 BC',
  condition: (value) => `isfinite(${value}) AND ${value} < TIMESTAMPTZ '4714-11-24 (BC) 00:00:00+00'`,
};

/** By the code of the server's refusal: which values it refuses, in columns of which types. */
const UNSTORABLE: ReadonlyMap<string | null, Partial<Record<ColumnType, Unstorable>>> = new Map([
  ['22021', { string: TEXT_WITH_NUL }],
  ['22P05', { json: JSON_WITH_NUL }],
  ['22008', { date: DATE_OUT_OF_RANGE, timestamp: TIME_OUT_OF_RANGE }],
]);

async function explained(
  engine: Engine,
  { job, plan }: Pick<Loading, 'job' | 'plan'>,
  error: unknown,
  place: string,
): Promise<Error> {
  if (!(error instanceof PostgresError) || error.fault !== 'value') return datasetError(error, place);
  const { datasetId, version } = job;
  const found = await findUnstorable(engine, job, plan, UNSTORABLE.get(error.sqlState) ?? {});
  if (found !== null) return found;
  const where = error.where === null ? '' : ` (${error.where.split('\n', 1)[0]})`;
  return new DataError(
    `The snapshot of ${datasetId} version ${version} has a value that PostgreSQL cannot hold: ${sentence(error)}${where}`,
    { cause: error },
  );
}

/** The server names the row by its number in a COPY alone, and the value not at all. */
async function findUnstorable(
  engine: Engine,
  job: SnapshotJob,
  plan: TablePlan,
  unstorable: Partial<Record<ColumnType, Unstorable>>,
): Promise<DataError | null> {
  const keys = plan.columns.filter(({ role }) => role === 'key');
  const shown = keys.map(({ columnName }) => `left(${identifier(columnName)}::VARCHAR, ${MAX_SHOWN_VALUE})`);
  for (const { column, columnName, type } of plan.columns) {
    const sought = unstorable[type];
    if (sought === undefined) continue;
    const [row] = await engine.rows(`SELECT 1${shown.map((key) => `, ${key}`).join('')}
      FROM (${selectRows(plan)}) AS rows WHERE ${sought.condition(identifier(columnName))} LIMIT 1`);
    if (row === undefined) continue;
    const cells = keys.map((key, index) => `${key.column.name} = ${JSON.stringify(row[index + 1])}`);
    const where = cells.length === 0 ? '' : `, in the row ${cells.join(', ')}`;
    return new DataError(
      `The snapshot of ${job.datasetId} version ${job.version} has ${sought.what} in the column ` +
        `${JSON.stringify(column.name)}${where}, which PostgreSQL cannot store.`,
    );
  }
  return null;
}
