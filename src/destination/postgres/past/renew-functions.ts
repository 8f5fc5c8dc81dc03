/**
 * Makes the as-of functions of all undo logs anew where another version of the program wrote another text. Without this they would
 * keep their text until their table gets other columns.
 */

import { text } from '../../../staging/engine/sql.ts';
import { asOfFunctionsWrites, digestOfFunctions, SPECIMEN_LOG } from '../../catalog/as-of-functions.ts';
import { loggedColumnsOf, selectLoggedColumns } from '../../catalog/past-logs.ts';
import { META_AS_OF_FUNCTIONS } from '../../catalog/tables.ts';
import type { LoggedColumn } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { catalogTable } from '../catalog/names.ts';
import { readTables } from '../catalog/observed-state.ts';
import { statementsOf } from '../catalog/rows.ts';
import type { Transaction } from '../connection.ts';
import type { Postgis } from '../types.ts';
import { createFunctions, replaceFunctions } from './history.ts';
import { logAsOf, readPastLogs } from './past-logs.ts';

const DIGEST = digestOfFunctions(createFunctions(SPECIMEN_LOG, null));

/** Does nothing where the functions in the database have the text of this program. */
export async function renewFunctions(transaction: Transaction, postgis: Postgis | null): Promise<void> {
  const [recorded] = await transaction.rows(`SELECT 1 FROM ${catalogTable('meta')}
    WHERE "key" = ${text(META_AS_OF_FUNCTIONS)} AND value = ${text(DIGEST)}`);
  if (recorded !== undefined) return;
  for (const log of await readPastLogs(transaction)) {
    const columns = await columnsOf(transaction, log);
    if (columns.length === 0) continue;
    for (const statement of replaceFunctions(logAsOf(log, columns), postgis))
      await transaction.run(statement);
  }
  for (const statement of statementsOf(asOfFunctionsWrites(DIGEST))) await transaction.run(statement);
}

/** Empty where the catalog has lost them. */
async function columnsOf(
  transaction: Transaction,
  { datasetId, frozenCommit }: PastLog,
): Promise<readonly LoggedColumn[]> {
  if (frozenCommit === null) {
    return (await readTables(transaction, [datasetId])).get(datasetId)?.observed.columns ?? [];
  }
  const select = selectLoggedColumns(catalogTable('commits'), datasetId, frozenCommit);
  const rows = await transaction.rows(select);
  return rows.length === 0 ? [] : loggedColumnsOf(rows);
}
