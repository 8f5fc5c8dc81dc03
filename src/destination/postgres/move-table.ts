/**
 * Moves the table of a dataset into the schema that the settings say, with the load that an operator asked for. It stays the same table:
 * views, grants, indexes and foreign keys of readers go along, and its undo log goes on.
 *
 * Invariant: the table moves in the transaction that loads it, after its rows are proven.
 */

import { shellWord } from '../../lib/text.ts';
import { StorageError } from '../../model/errors.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import type { LoggedColumn } from '../catalog/undo-logs.ts';
import { catalogTable, type Named, qualified } from './catalog/names.ts';
import { type Current, hasCitus, isDistributedSchema, readLiveLog, taken } from './catalog/observed-state.ts';
import type { Turn } from './job.ts';
import { replaceFunctions } from './past/history.ts';
import { readFound } from './tables.ts';

/**
 * Returns where the table is after the load; null where it stays. @throws StorageError where an object has its name there, or where Citus
 * keeps one of the schemas on one node.
 */
export async function newPlace(
  { transaction, schemaOf }: Turn,
  { datasetId, moves = false }: SnapshotJob,
  current: Current,
): Promise<Named | null> {
  const { schemaName: before, tableName } = current;
  const schemaName = moves ? schemaOf(datasetId) : before;
  if (schemaName === before) return null;
  const isDistributed =
    current.isDistributed ||
    ((await hasCitus(transaction)) && (await isDistributedSchema(transaction, schemaName)));
  if (isDistributed) throw notBetweenNodes(datasetId, before, schemaName);
  const found = await readFound(transaction, { schemaName, tableName });
  if (found !== null) throw taken(datasetId, { schemaName, tableName }, found.kind);
  return { schemaName, tableName };
}

/** Moves the table. The functions of its undo log name it. @throws PostgresError */
export async function moveTable(
  { transaction, alter, postgis }: Turn,
  datasetId: string,
  before: Named,
  after: Named,
  columns: readonly LoggedColumn[],
): Promise<void> {
  const log = await readLiveLog(transaction, datasetId);
  const source = text(`${after.schemaName}.${after.tableName}`);
  const ofLog =
    log === null
      ? []
      : [
          `UPDATE ${catalogTable('history_logs')} SET table_name = ${source} WHERE log_name = ${text(log.logName)}`,
          ...replaceFunctions({ logName: log.logName, source: qualified(after), columns }, postgis),
        ];
  await alter([`ALTER TABLE ${qualified(before)} SET SCHEMA ${identifier(after.schemaName)}`, ...ofLog]);
}

function notBetweenNodes(datasetId: string, before: string, after: string): StorageError {
  return new StorageError(
    `The table of ${datasetId} cannot be moved from the schema ${before} to ${after}, because Citus keeps one of them on one node.`,
    {
      code: 'dataset_storage_failed',
      hint: `Load it where it is: feed-sync resync ${shellWord(datasetId)}`,
    },
  );
}
