/**
 * Stores the checksums that the catalog lacks, or has of another version of the hash, and closes undo logs that are not as they were
 * written.
 *
 * Invariant: a recorded checksum of today's hash is never replaced here, whatever the rows are: it shows that they were altered.
 */

import type { Clock } from '../../lib/clock.ts';
import { ALTERED } from '../../model/lost-past.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { dateAt, identifier, integer, numberAt, text, textAt } from '../../staging/engine/sql.ts';
import type { Checksum } from '../catalog/cells.ts';
import { META_KEPT_DAMAGED } from '../catalog/tables.ts';
import { freeName } from '../catalog/undo-logs.ts';
import { insertRows } from '../catalog/writes.ts';
import {
  type ChecksumRenewal,
  isOfPast,
  type RenewedChecksums,
  type StoredChecksum,
  type TableChecksum,
} from '../destination.ts';
import type { PastTable } from '../past-tables.ts';
import { ensureSchema } from './catalog/format.ts';
import { readLiveTables, writeChecksum } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import { catalogTable, FORMAT_VERSION, MIRROR, mirrored, selectTableNames } from './catalog/schema.ts';
import { computeChecksum } from './checksum.ts';
import { placeOf, tablesOf } from './copy-content.ts';
import { strayColumnsOf } from './count-tables.ts';
import { closeLog, dropLog, readLogs, recordEntries } from './past/history.ts';
import { readColumnsOfLog, readPastLogs } from './past/past-logs.ts';
import { comparePastTable, DAMAGED_SUFFIX, readPastTables } from './past/past-tables.ts';
import { closeUnusable } from './past/unusable-logs.ts';
import { readFoundTables } from './tables.ts';
import type { WriteSessions } from './write-session.ts';

/** A write session begins no further dataset after this time, so that readers come in between. */
const MAX_SESSION_MS = 2_000;

/** Renews the checksums, each dataset in a transaction of its own. */
export async function renewChecksums(
  sessions: WriteSessions,
  path: string,
  { datasetIds, unreadable }: ChecksumRenewal,
  clock: Clock,
): Promise<RenewedChecksums> {
  const renewed = { stored: [] as string[], closed: [] as string[], kept: [] as string[] };
  for (let next = 0; next < datasetIds.length; ) {
    await sessions.write(async (session) => {
      const endMs = clock.monotonicMs() + MAX_SESSION_MS;
      do {
        const datasetId = datasetIds[next] ?? '';
        const one = await session.transaction(async (engine) => {
          await ensureSchema(engine, path);
          return await renewDataset(engine, datasetId, unreadable);
        }, 'checksums');
        renewed.stored.push(...one.stored);
        renewed.closed.push(...one.closed);
        renewed.kept.push(...one.kept);
        next += 1;
      } while (next < datasetIds.length && clock.monotonicMs() < endMs);
    });
  }
  if (unreadable.some(isOfPast)) {
    const keep = (engine: Engine): Promise<readonly string[]> => keepRemains(engine, unreadable);
    renewed.kept.push(...(await sessions.write((session) => session.transaction(keep, 'checksums'))));
  }
  return renewed;
}

/** Keeps those of the unreadable tables that the catalog does not know: the rest of an undo log that was closed. */
async function keepRemains(engine: Engine, unreadable: readonly string[]): Promise<readonly string[]> {
  const known = new Set((await readPastTables(engine, FORMAT_VERSION, null)).map(nameOf));
  const tables = await tablesOf(engine, MIRROR);
  const remains = tables.filter(
    (table) => isOfPast(nameOf(table)) && unreadable.includes(nameOf(table)) && !known.has(nameOf(table)),
  );
  const kept: string[] = [];
  for (const table of remains) kept.push(await renameDamaged(engine, table));
  return kept;
}

function nameOf({ schema, name }: Pick<PastTable, 'schema' | 'name'>): string {
  return `${schema}.${name}`;
}

async function renewDataset(
  engine: Engine,
  datasetId: string,
  unreadable: readonly string[],
): Promise<RenewedChecksums> {
  const stored = await storeMissing(engine, datasetId, unreadable);
  const closed: string[] = [];
  const kept: string[] = [];
  for (const table of await readPastTables(engine, FORMAT_VERSION, [datasetId])) {
    const name = nameOf(table);
    const isUnreadable = unreadable.includes(name);
    const compared = isUnreadable ? null : await comparePastTable(engine, table);
    if (compared?.state === 'equal') continue;
    if (compared?.state === 'unrecorded' && compared.checksum !== null) {
      await engine.run(recordOf(table, compared.checksum));
      stored.push(name);
    } else {
      if (isUnreadable) kept.push(...(await keepDamaged(engine, table)));
      if (table.logName === null) continue;
      await close(engine, table, table.logName, isUnreadable);
      closed.push(`history.${table.logName}`);
    }
  }
  return { stored, closed: [...new Set(closed)], kept };
}

/**
 * Records the checksum of a table whose content was found right. Where another one was recorded, a commit wrote over rows that were
 * altered outside feed-sync, and its entries hold them: the log is closed.
 */
export async function storeChecksum(engine: Engine, checksum: TableChecksum): Promise<StoredChecksum> {
  const { datasetId, commitNumber, sum, version } = checksum;
  const live = (await readLiveTables(engine, [datasetId])).get(datasetId);
  if (!(await writeChecksum(engine, checksum))) return 'stale';
  const log = (await readLogs(engine, [datasetId])).get(datasetId);
  if (live === undefined || log === undefined || commitNumber === null) return 'stored';
  if (live.checksum?.version !== version || live.checksum.sum === sum) return 'stored';
  const { appliedAt } = live.observed;
  await runTogether(engine, closeLog(log.logName, { commitNumber, appliedAt }, ALTERED));
  return 'log-closed';
}

/**
 * Renames an archived or frozen table, so that nothing reads it any more; returns its new name. Another one has the name of its dataset
 * still: it stays.
 */
async function keepDamaged(
  engine: Engine,
  { datasetId, kind, schema, name }: PastTable,
): Promise<readonly string[]> {
  if (kind === 'log' || !isOfPast(nameOf({ schema, name }))) return [];
  const kept = await renameDamaged(engine, { schema, name });
  if (kind === 'archived') {
    await engine.run(`UPDATE ${catalogTable('archived')} SET table_name = ${text(kept.slice(schema.length + 1))}
      WHERE dataset_id = ${text(datasetId)} AND table_name = ${text(name)}`);
  }
  return [kept];
}

/** Renames a damaged table of the past, so that nothing reads it as the past any more. Returns the new name with its schema. */
async function renameDamaged(
  engine: Engine,
  { schema, name }: Pick<PastTable, 'schema' | 'name'>,
): Promise<string> {
  const names = await engine.rows(selectTableNames(schema === 'archived' ? schema : 'history'));
  const taken = new Set(names.map((row) => textAt(row, 0)));
  const kept = freeName(`${name}${DAMAGED_SUFFIX}`, taken);
  await engine.run(`ALTER TABLE ${placeOf(MIRROR, { schema, name })} RENAME TO ${identifier(kept)}`);
  for (const statement of statementsOf([insertRows('meta', [[META_KEPT_DAMAGED, `${schema}.${kept}`]])]))
    await engine.run(statement);
  return `${schema}.${kept}`;
}

/** A table with other rows or columns than the catalog says gets no checksum, nor does one that cannot be read. */
async function storeMissing(
  engine: Engine,
  datasetId: string,
  unreadable: readonly string[],
): Promise<string[]> {
  const live = (await readLiveTables(engine, [datasetId])).get(datasetId);
  if (live === undefined || unreadable.includes(`main.${live.observed.tableName}`)) return [];
  const { observed, checksum: recorded } = live;
  if ((await strayColumnsOf(engine, observed)).length > 0) return [];
  const { tableName, commitNumber, columns } = observed;
  const rowCount = (await readFoundTables(engine, [tableName])).get(tableName)?.rowCount;
  if (rowCount !== observed.rowCount) return [];
  const names = columns.map(({ columnName }) => columnName);
  const found = await computeChecksum(engine, mirrored(tableName), names);
  if (recorded?.version === found.version) return [];
  await writeChecksum(engine, { datasetId, commitNumber, ...found });
  return [`main.${tableName}`];
}

function recordOf({ kind, datasetId, name, logName }: PastTable, { sum, version }: Checksum): string {
  if (kind === 'log') return recordEntries(name);
  const values = [`${integer(sum)}::HUGEINT`, text(version)];
  return kind === 'frozen'
    ? `UPDATE ${catalogTable('history_logs')} SET table_checksum = ${values[0]}, table_checksum_version = ${values[1]}
        WHERE log_name = ${text(logName)}`
    : `UPDATE ${catalogTable('archived')} SET checksum = ${values[0]}, checksum_version = ${values[1]}
        WHERE dataset_id = ${text(datasetId)} AND table_name = ${text(name)}`;
}

/** A log without its table leads nowhere. The rest of a log that cannot be read is dropped: no copy of the mirror could carry it. */
async function close(
  engine: Engine,
  { datasetId, kind }: PastTable,
  logName: string,
  isUnreadable: boolean,
): Promise<void> {
  const log = (await readPastLogs(engine, FORMAT_VERSION)).find((one) => one.logName === logName);
  if (kind !== 'log' || log === undefined) return runTogether(engine, dropLog(logName));
  const columns = await readColumnsOfLog(engine, log);
  const [last = []] =
    await engine.rows(`SELECT max(commit_number), epoch_ms(max(applied_at)) FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(datasetId)} AND commit_number < coalesce(${integer(log.frozenCommit)}, 9223372036854775807)`);
  const table = {
    datasetId,
    tableName: log.tableName,
    columns,
    lastCommit: numberAt(last, 0),
    at: dateAt(last, 1),
  };
  await closeUnusable(engine, logName, { ...table, source: log.source }, isUnreadable);
}
