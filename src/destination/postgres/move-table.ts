/**
 * Moves the table of a dataset into the schema that the settings say, with the load that an operator asked for. It stays the same table:
 * views, grants, indexes and foreign keys of readers go along, and its undo log goes on. Into and out of a schema that Citus keeps on one
 * node it is copied with its log, and goes only if nothing of a reader hangs on it.
 *
 * Invariant: the table moves in the transaction that loads it, after its rows are proven.
 */

import type { SnapshotJob } from '../../model/write-jobs.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type LoggedColumn, logColumns } from '../catalog/undo-logs.ts';
import { dropState, writeState } from './catalog/distributed.ts';
import { catalogTable, type Named, type Place, qualified } from './catalog/names.ts';
import { type Current, isDistributed, readLiveLog, taken } from './catalog/observed-state.ts';
import { isSameContent, readContent } from './content.ts';
import type { Turn } from './job.ts';
import {
  createLog,
  historic,
  namesInHistory,
  newLogName,
  recordEntries,
  replaceFunctions,
  replaceRemains,
} from './past/history.ts';
import { dropStage, makeStage } from './stage.ts';
import { addKey, comments, createTable, geometryOf, readFound } from './tables.ts';
import { rowsAltered } from './write-rows.ts';

type NewPlace = Place & Named;

/** Returns where the table is after the load; null where it stays. @throws StorageError where an object has its name there. */
export async function newPlace(
  { transaction, schemaOf }: Turn,
  { datasetId, moves = false }: SnapshotJob,
  current: Current,
): Promise<NewPlace | null> {
  const { schemaName: before, tableName } = current;
  const schemaName = moves ? schemaOf(datasetId) : before;
  if (schemaName === before) return null;
  const found = await readFound(transaction, { schemaName, tableName });
  if (found !== null) throw taken(datasetId, { schemaName, tableName }, found.kind);
  return { schemaName, tableName, isDistributed: await isDistributed(transaction, schemaName) };
}

/** Moves the table. @throws PostgresError */
export async function moveTable(
  turn: Turn,
  datasetId: string,
  before: NewPlace,
  after: NewPlace,
  columns: readonly PlannedColumn[],
): Promise<void> {
  if (before.isDistributed || after.isDistributed) await copyTable(turn, datasetId, before, after, columns);
  else await renameTable(turn, datasetId, before, after, columns);
}

/** The functions of the undo log name the table. */
async function renameTable(
  { transaction, alter, postgis }: Turn,
  datasetId: string,
  before: Named,
  after: Named,
  columns: readonly LoggedColumn[],
): Promise<void> {
  const log = await readLiveLog(transaction, datasetId);
  const ofLog =
    log === null
      ? []
      : [
          relocateLog(log.logName, log.logName, after),
          ...replaceFunctions({ logName: log.logName, source: qualified(after), columns }, postgis),
        ];
  await alter([`ALTER TABLE ${qualified(before)} SET SCHEMA ${identifier(after.schemaName)}`, ...ofLog]);
}

/** Returns the statement that records where a log and its table are. */
function relocateLog(before: string, after: string, { schemaName, tableName }: Named): string {
  const source = text(`${schemaName}.${tableName}`);
  return `UPDATE ${catalogTable('history_logs')} SET log_name = ${text(after)}, table_name = ${source}
    WHERE log_name = ${text(before)}`;
}

/** Citus would drop the views of readers and make them anew, where the server refuses to drop what they hang on. */
async function copyTable(
  turn: Turn,
  datasetId: string,
  before: NewPlace,
  after: NewPlace,
  columns: readonly PlannedColumn[],
): Promise<void> {
  const { transaction, alter, postgis, commitNumber } = turn;
  const [from, to] = [qualified(before), qualified(after)];
  await writeState(transaction, after, datasetId, commitNumber);
  await transaction.run(createTable(after, columns, postgis));
  await transaction.run(
    copyRowsInto(
      to,
      from,
      columns.map(({ columnName }) => columnName),
    ),
  );
  const [moved, original] = [
    await readContent(transaction, to, columns),
    await readContent(transaction, from, columns),
  ];
  if (!isSameContent(moved, original)) throw rowsAltered(after);
  await addKey(transaction, after, columns, turn.indexes);
  await completeTable(turn, after, columns, datasetId);
  const log = await readLiveLog(transaction, datasetId);
  if (log !== null) await copyLog(turn, log.logName, after, columns);
  await alter([...dropStage(before), `DROP TABLE ${from}`]);
  await dropState(transaction, before, datasetId);
}

async function copyLog(
  { transaction, alter, postgis }: Turn,
  before: string,
  after: NewPlace,
  columns: readonly LoggedColumn[],
): Promise<void> {
  const logName = newLogName(after, await namesInHistory(transaction, after));
  const names = logColumns(columns).map(([name]) => name);
  await transaction.runAll(createLog({ logName, source: qualified(after), columns }, postgis));
  await transaction.run(copyRowsInto(historic(logName), historic(before), names));
  await alter([
    relocateLog(before, logName, after),
    recordEntries(logName, columns),
    ...replaceRemains(before, null),
    `DROP TABLE ${historic(before)}`,
  ]);
}

function copyRowsInto(to: string, from: string, names: readonly string[]): string {
  const list = names.map(identifier).join(', ');
  return `INSERT INTO ${to} (${list}) SELECT ${list} FROM ${from}`;
}

/** Gives a table that was made and filled, and has its key, its indexes, its comments and its stage. */
export async function completeTable(
  { transaction, postgis, indexes }: Turn,
  place: NewPlace,
  columns: readonly PlannedColumn[],
  datasetId: string,
): Promise<void> {
  const table = qualified(place);
  for (const statement of columns.flatMap((column) => geometryOf(table, column, postgis, indexes))) {
    await transaction.run(statement);
  }
  await transaction.runAll(comments(table, datasetId, columns));
  await transaction.run(`ANALYZE ${table}`);
  // A commit that makes nothing needs one node alone.
  if (place.isDistributed) await makeStage(transaction, { ...place, columns, isNet: true }, postgis);
}
