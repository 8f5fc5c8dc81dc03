/** Stores the checksums that the catalog lacks, or has of another version of the hash, and closes undo logs that were altered by hand. */

import { ALTERED } from '../../model/lost-past.ts';
import type { RenewedChecksums, StoredChecksum, TableChecksum } from '../destination.ts';
import { readLiveLog, readTables, writeChecksum } from './catalog/observed-state.ts';
import type { Transaction } from './connection.ts';
import { renewChecksum } from './count-tables.ts';
import { closeLog } from './past/history.ts';
import { renewPast } from './past/past-tables.ts';
import type { Postgis } from './types.ts';

/** Renews the checksums, each dataset in a transaction of its own. */
export async function renewChecksums(
  write: <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>,
  postgis: Postgis | null,
  datasetIds: readonly string[],
): Promise<RenewedChecksums> {
  const stored: string[] = [];
  const closed: string[] = [];
  for (const datasetId of datasetIds) {
    const { table, past } = await write(async (transaction) => ({
      table: await renewChecksum(transaction, datasetId),
      past: await renewPast(transaction, postgis, datasetId),
    }));
    stored.push(...(table === null ? [] : [table]), ...past.stored);
    closed.push(...past.closed);
  }
  return { stored, closed, kept: [] };
}

/**
 * Records the checksum of a table whose content was found right. Where another one was recorded, a commit wrote over rows that were
 * altered outside feed-sync, and its entries hold them: the log is closed.
 */
export async function storeChecksum(
  transaction: Transaction,
  checksum: TableChecksum,
): Promise<StoredChecksum> {
  const { datasetId, commitNumber, sum, version } = checksum;
  const live = (await readTables(transaction, [datasetId])).get(datasetId);
  if (!(await writeChecksum(transaction, checksum))) return 'stale';
  const log = await readLiveLog(transaction, datasetId);
  if (live === undefined || log === null || commitNumber === null) return 'stored';
  if (live.checksum?.version !== version || live.checksum.sum === sum) return 'stored';
  const { appliedAt, columns } = live.observed;
  const close = closeLog(log.logName, columns, { commitNumber, appliedAt }, ALTERED);
  for (const statement of close) await transaction.run(statement);
  return 'log-closed';
}
