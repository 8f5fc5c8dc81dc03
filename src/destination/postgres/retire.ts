/** Retires the table of a dataset: archives, drops or keeps it. Objects that readers made on an archived table go along. */

import { MAX_TABLE_NAME_BYTES } from '../../model/naming.ts';
import type { Retirement, RetirementJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, text, textAt } from '../../staging/engine/sql.ts';
import { archivedNameFor } from '../catalog/archived-name.ts';
import { type CatalogEntry, entryOfRetirement, type RetiredTable } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import {
  ARCHIVE_SCHEMA,
  archiveSchema,
  LIVE_SCHEMA,
  namedAs,
  qualified,
  recordedName,
} from './catalog/names.ts';
import type { Current } from './catalog/observed-state.ts';
import { selectTableNames } from './catalog/schema.ts';
import { datasetError } from './errors.ts';
import type { Turn, ValidatedWrite } from './job.ts';
import { dropLog, freezeLog, namesInHistory, placedFrozenNames, viewFrozen } from './past/history.ts';
import { dropStage } from './stage.ts';
import { countRows } from './write-rows.ts';

type Retired = Omit<RetiredTable, 'checksum'>;

/** The type makes the compiler refuse a missing kind. */
const RETIRE: Readonly<
  Record<Retirement, (turn: Turn, job: RetirementJob, current: Current) => Promise<Retired>>
> = { archive, drop, keep };

/** Validates a retirement. @throws DataError when the id or the reason cannot stand in SQL. */
export async function validateRetirement(
  _engine: Engine,
  job: RetirementJob,
  place: string,
): Promise<ValidatedWrite> {
  for (const value of [job.datasetId, job.reason]) text(value);
  return {
    job,
    execute: (turn, current) => retireTable(turn, job, current),
    explain: async (_examiner, error) => datasetError(error, place),
  };
}

async function retireTable(turn: Turn, job: RetirementJob, current: Current): Promise<CatalogEntry | null> {
  const { how, plannedFrom } = job;
  if (current.live === null || !isPlannedFrom(current.live, plannedFrom)) return null;
  // A table that was dropped by hand is gone, whatever retirement was planned.
  const retired =
    current.found === null
      ? { tableName: null, removedRows: plannedFrom.rowCount }
      : await RETIRE[how](turn, job, current);
  const { checksum, log } = current;
  if (log !== null) await turn.alter(await freeze(turn, current, log, { ...retired, how, checksum }));
  await turn.alter(dropStage(current));
  return entryOfRetirement(job, { ...retired, checksum }, turn.appliedAt);
}

interface Freezing extends RetiredTable {
  readonly how: Retirement;
}

/** The undo log stays with the rows that it leads back from. */
async function freeze(
  { transaction, commitNumber, postgis }: Turn,
  current: Current,
  { logName, state }: NonNullable<Current['log']>,
  { tableName: retiredName, how, checksum }: Freezing,
): Promise<readonly string[]> {
  const { live } = current;
  if (live === null || retiredName === null || how === 'drop' || state !== 'usable') return dropLog(logName);
  const frozen = placedFrozenNames(current, commitNumber, await namesInHistory(transaction, current));
  if (how === 'keep') {
    return [
      ...viewFrozen(live, frozen),
      ...freezeLog(live, logName, commitNumber, frozen, checksum, postgis),
    ];
  }
  const { schemaName: schema, tableName: name } = namedAs(retiredName, ARCHIVE_SCHEMA);
  const there = { ...frozen, schema, name };
  return freezeLog(live, logName, commitNumber, there, checksum, postgis);
}

/** Names of indexes are names of the schema, too: they get new ones, so that the next table of this name finds them free. */
async function archive(turn: Turn, { plannedFrom }: RetirementJob, current: Current): Promise<Retired> {
  const { transaction, appliedAt } = turn;
  const { tableName } = current;
  const schemaName = archiveSchema(current);
  const removedRows = await countRows(transaction, current);
  const taken = new Set((await transaction.rows(selectTableNames(schemaName))).map((row) => textAt(row, 0)));
  const name = archivedNameFor(tableName, plannedFrom.version, appliedAt, taken, MAX_TABLE_NAME_BYTES);
  const indexes =
    await transaction.rows(`SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
    WHERE x.indrelid = ${text(qualified(current))}::regclass ORDER BY 1`);
  const renamed = indexes.map((row, index) => {
    const from = qualified({ ...current, tableName: textAt(row, 0) });
    const ending = `_i${index}`;
    return `ALTER INDEX ${from} RENAME TO ${identifier(endingIn(name, ending))}`;
  });
  await turn.alter([
    ...renamed,
    ...(schemaName === current.schemaName
      ? []
      : [`ALTER TABLE ${qualified(current)} SET SCHEMA ${identifier(schemaName)}`]),
    `ALTER TABLE ${qualified({ schemaName, tableName })} RENAME TO ${identifier(name)}`,
  ]);
  return { tableName: recordedName({ schemaName, tableName: name }, ARCHIVE_SCHEMA), removedRows };
}

/** Cuts the beginning of a name, because the end distinguishes archived tables. */
function endingIn(name: string, ending: string): string {
  return `${name.slice(Math.max(0, name.length + ending.length - MAX_TABLE_NAME_BYTES))}${ending}`;
}

async function drop(turn: Turn, _job: RetirementJob, current: Current): Promise<Retired> {
  const removedRows = await countRows(turn.transaction, current);
  await turn.alter([`DROP TABLE ${qualified(current)}`]);
  return { tableName: null, removedRows };
}

async function keep(_turn: Turn, _job: RetirementJob, current: Current): Promise<Retired> {
  return { tableName: recordedName(current, LIVE_SCHEMA), removedRows: 0 };
}
