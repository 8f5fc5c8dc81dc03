/** Retires the table of a dataset: archives, drops or keeps it. Objects that readers made on an archived table go along. */

import { MAX_TABLE_NAME_BYTES } from '../../model/naming.ts';
import type { ObservedTable, Retirement, RetirementJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, text, textAt } from '../../staging/engine/sql.ts';
import { archivedNameFor } from '../catalog/archived-name.ts';
import { type CatalogEntry, entryOfRetirement, type RetiredTable } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { frozenNames } from '../catalog/undo-logs.ts';
import type { Current } from './catalog/observed-state.ts';
import { selectTableNames } from './catalog/schema.ts';
import { datasetError } from './errors.ts';
import type { Turn, ValidatedWrite } from './job.ts';
import { dropLog, freezeLog, namesInHistory, viewFrozen } from './past/history.ts';
import { ARCHIVE_SCHEMA, archived, LIVE_SCHEMA, mirrored } from './tables.ts';
import { countRows } from './write-rows.ts';

type Place = Omit<RetiredTable, 'checksum'>;

/** The type makes the compiler refuse a missing kind. */
const RETIRE: Readonly<
  Record<Retirement, (turn: Turn, job: RetirementJob, tableName: string) => Promise<Place>>
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
      : await RETIRE[how](turn, job, current.tableName);
  const { checksum, live, log } = current;
  if (log !== null) await turn.alter(await freeze(turn, live, log, { ...retired, how, checksum }));
  return entryOfRetirement(job, { ...retired, checksum }, turn.appliedAt);
}

interface Freezing extends RetiredTable {
  readonly how: Retirement;
}

/** The undo log stays with the rows that it leads back from. */
async function freeze(
  { transaction, commitNumber, postgis }: Turn,
  live: ObservedTable,
  { logName, state }: NonNullable<Current['log']>,
  { tableName: retiredName, how, checksum }: Freezing,
): Promise<readonly string[]> {
  if (retiredName === null || how === 'drop' || state !== 'usable') return dropLog(logName);
  const frozen = frozenNames(live.tableName, commitNumber, await namesInHistory(transaction));
  if (how === 'keep') {
    return [
      ...viewFrozen(live, frozen),
      ...freezeLog(live, logName, commitNumber, frozen, checksum, postgis),
    ];
  }
  const there = { ...frozen, schema: ARCHIVE_SCHEMA, name: retiredName } as const;
  return freezeLog(live, logName, commitNumber, there, checksum, postgis);
}

/** Names of indexes are names of the schema, too: they get new ones, so that the next table of this name finds them free. */
async function archive(turn: Turn, { plannedFrom }: RetirementJob, tableName: string): Promise<Place> {
  const { transaction, appliedAt } = turn;
  const removedRows = await countRows(transaction, tableName);
  const taken = new Set(
    (await transaction.rows(selectTableNames(ARCHIVE_SCHEMA))).map((row) => textAt(row, 0)),
  );
  const name = archivedNameFor(tableName, plannedFrom.version, appliedAt, taken, MAX_TABLE_NAME_BYTES);
  const indexes =
    await transaction.rows(`SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
    WHERE x.indrelid = ${text(mirrored(tableName))}::regclass ORDER BY 1`);
  const renamed = indexes.map((row, index) => {
    const from = `${identifier(LIVE_SCHEMA)}.${identifier(textAt(row, 0))}`;
    const ending = `_i${index}`;
    return `ALTER INDEX ${from} RENAME TO ${identifier(endingIn(name, ending))}`;
  });
  await turn.alter([
    ...renamed,
    `ALTER TABLE ${mirrored(tableName)} SET SCHEMA ${identifier(ARCHIVE_SCHEMA)}`,
    `ALTER TABLE ${archived(tableName)} RENAME TO ${identifier(name)}`,
  ]);
  return { tableName: name, removedRows };
}

/** Cuts the beginning of a name, because the end distinguishes archived tables. */
function endingIn(name: string, ending: string): string {
  return `${name.slice(Math.max(0, name.length + ending.length - MAX_TABLE_NAME_BYTES))}${ending}`;
}

async function drop(turn: Turn, _job: RetirementJob, tableName: string): Promise<Place> {
  const removedRows = await countRows(turn.transaction, tableName);
  await turn.alter([`DROP TABLE ${mirrored(tableName)}`]);
  return { tableName: null, removedRows };
}

async function keep(_turn: Turn, _job: RetirementJob, tableName: string): Promise<Place> {
  return { tableName, removedRows: 0 };
}
