/**
 * Makes the as-of functions of all undo logs anew where another version of the program wrote another text. Without this they would
 * keep their text until their table gets other columns.
 *
 * Invariant: a log that was dropped or altered by hand keeps no catch-up from its work. It is closed elsewhere, with new functions.
 */

import type { Engine } from '../../../staging/engine/engine.ts';
import { DuckDbError } from '../../../staging/engine/errors.ts';
import {
  asOfFunctionsWrites,
  digestOfFunctions,
  SPECIMEN_LOG,
  selectRecordedFunctions,
} from '../../catalog/as-of-functions.ts';
import { metaOf } from '../../catalog/observed-state.ts';
import { nameOfSource } from '../../catalog/past-logs.ts';
import type { LoggedColumn } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { hasLogs } from '../catalog/observed-state.ts';
import { statementsOf } from '../catalog/rows.ts';
import { catalogTable, FORMAT_VERSION, OUTSIDE_MIRROR, selectMeta } from '../catalog/schema.ts';
import { asOfMacros } from './history.ts';
import { findColumnsOfLog, readLoggedColumns, readPastLogs } from './past-logs.ts';

const DIGEST = digestOfFunctions(asOfMacros(SPECIMEN_LOG));

/**
 * Returns whether the functions in the mirror have the text of this program. True where there are none, and in a mirror of an earlier
 * format, which is left as it is until something is written to it.
 */
export async function hasOurFunctions(engine: Engine): Promise<boolean> {
  const { format } = metaOf(await engine.rows(selectMeta()));
  if (format !== FORMAT_VERSION || (await isRecorded(engine)) || !(await hasLogs(engine))) return true;
  return (await engine.rows(`SELECT 1 FROM ${catalogTable('history_logs')} LIMIT 1`)).length === 0;
}

async function isRecorded(engine: Engine): Promise<boolean> {
  return (await engine.rows(selectRecordedFunctions(catalogTable('meta'), DIGEST))).length > 0;
}

/** Does nothing where the functions have the text of this program. */
export async function renewFunctions(engine: Engine): Promise<void> {
  if (await isRecorded(engine)) return;
  const live = await readLoggedColumns(engine);
  for (const log of await readPastLogs(engine, FORMAT_VERSION)) {
    const columns = await findColumnsOfLog(engine, log, async () => live);
    if (columns !== null) await renew(engine, log, columns);
  }
  for (const statement of statementsOf(asOfFunctionsWrites(DIGEST))) await engine.run(statement);
}

/** DuckDB makes no function that names a table or a column which is not there. */
async function renew(engine: Engine, log: PastLog, columns: readonly LoggedColumn[]): Promise<void> {
  try {
    for (const statement of asOfMacros({ ...log, columns, source: nameOfSource(log) })) {
      await engine.run(statement);
    }
  } catch (error) {
    if (!(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
    await engine.run(OUTSIDE_MIRROR);
  }
}
