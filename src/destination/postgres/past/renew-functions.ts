/**
 * Makes the as-of functions of all undo logs anew where another version of the program wrote another text. Without this they would
 * keep their text until their table gets other columns.
 */

import {
  asOfFunctionsWrites,
  digestOfFunctions,
  SPECIMEN_LOG,
  selectRecordedFunctions,
} from '../../catalog/as-of-functions.ts';
import { catalogTable } from '../catalog/names.ts';
import { statementsOf } from '../catalog/rows.ts';
import type { Transaction } from '../connection.ts';
import type { Postgis } from '../types.ts';
import { createFunctions, replaceFunctions } from './history.ts';
import { findColumnsOfLog, logAsOf, readPastLogs } from './past-logs.ts';

const DIGEST = digestOfFunctions(createFunctions(SPECIMEN_LOG, null));

/** Does nothing where the functions in the database have the text of this program. */
export async function renewFunctions(transaction: Transaction, postgis: Postgis | null): Promise<void> {
  const [recorded] = await transaction.rows(selectRecordedFunctions(catalogTable('meta'), DIGEST));
  if (recorded !== undefined) return;
  for (const log of await readPastLogs(transaction)) {
    const columns = await findColumnsOfLog(transaction, log);
    if (columns === null) continue;
    for (const statement of replaceFunctions(logAsOf(log, columns), postgis))
      await transaction.run(statement);
  }
  for (const statement of statementsOf(asOfFunctionsWrites(DIGEST))) await transaction.run(statement);
}
