/** Reads the observed state of the mirror from its catalog, and assigns table names. */

import type { ReloadMark } from '../../../model/desired-state.ts';
import type { ObservedColumn, ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { damagedBookkeeping } from '../../../staging/engine/errors.ts';
import { integer, storedJson, text, textAt } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import type { RecordedColumn } from '../../catalog/columns.ts';
import { columnsFrom, observedColumn } from '../../catalog/columns.ts';
import { hasEnrolment, lackNames, newNames, serviceWrites } from '../../catalog/enrolment.ts';
import {
  type CatalogedTable,
  catalogedTableAt,
  EMPTY,
  RETIRED_DAYS,
  reloadsOf,
  retiredTableAt,
  withMissing,
} from '../../catalog/observed-state.ts';
import type { CatalogTable } from '../../catalog/tables.ts';
import { recordedUnions } from '../../catalog/unions.ts';
import { insertRows } from '../../catalog/writes.ts';
import type { Enrolment, ObservedState, RetiredTable, TableChecksum } from '../../destination.ts';
import { hasSchema, readMeta } from './format.ts';
import { readProgress } from './progress.ts';
import { statementsOf } from './rows.ts';
import {
  catalogOf,
  catalogTable,
  createCatalogTable,
  FORMAT_VERSION,
  MIRROR,
  selectCatalogTable,
  selectMeta,
  selectTableNames,
  selectTables,
  storesProgress,
} from './schema.ts';

/** Reads the state of the attached mirror. @throws ConfigurationError when a newer program wrote the mirror. */
export async function readObservedState(engine: Engine, path: string): Promise<ObservedState> {
  if (!(await hasSchema(engine))) return EMPTY;
  const { service, format, keptDamaged } = await readMeta(engine, path);
  const kept = await presentOf(engine, keptDamaged);
  const progress = storesProgress(format) ? await readProgress(engine) : null;
  await refuseWrongNames(engine, format);
  refuseOtherSubscriptions(service, progress);
  return {
    service,
    datasets: await readObservedTables(engine, null, format),
    progress,
    retired: await readRetired(engine, format),
    ...(kept.length === 0 ? {} : { keptDamaged: kept }),
  };
}

/** The same, with the tables that somebody has dropped: DuckDB lists its tables in some 20 µs for each. */
export async function readWithMissing(engine: Engine, path: string): Promise<ObservedState> {
  const state = await readObservedState(engine, path);
  if (state.datasets.size === 0) return state;
  const names = new Set((await engine.rows(selectTables('main'))).map((row) => textAt(row, 0)));
  return withMissing(state, ({ tableName }) => names.has(tableName.toLowerCase()));
}

/**
 * A name is given once, to no two datasets, and is that of the live table. Blocks of the catalog have no checksum of where they belong, and
 * a table that goes by the name of another would be replaced by it.
 */
async function refuseWrongNames(engine: Engine, format: number): Promise<void> {
  const names = catalogOf(format, 'names');
  const [wrong] =
    await engine.rows(`SELECT 'two datasets have one name' FROM ${names} GROUP BY table_name HAVING count(*) > 1
    UNION ALL SELECT 'a dataset has two names' FROM ${names} GROUP BY dataset_id HAVING count(*) > 1
    UNION ALL SELECT 'a table has another name than its dataset'
      FROM ${catalogOf(format, 'datasets')} ANTI JOIN ${names} USING (dataset_id, table_name)
    UNION ALL SELECT 'an archived table is of no dataset, or has no name'
      FROM ${catalogOf(format, 'archived')} WHERE table_name = '' OR dataset_id NOT IN (SELECT dataset_id FROM ${names})
    LIMIT 1`);
  if (wrong !== undefined) throw damagedBookkeeping(textAt(wrong, 0));
}

/**
 * Only a subscription that was enrolled has a position. Of one that is named without a position in the place of one with a position, the
 * name has been overwritten.
 */
function refuseOtherSubscriptions(
  service: ObservedState['service'],
  progress: ObservedState['progress'],
): void {
  if (service === null || progress === null) return;
  const { subscriptionIds: enrolled } = service;
  const positioned = progress.subscriptions.map(({ subscriptionId }) => subscriptionId);
  if (positioned.every((id) => enrolled.includes(id))) return;
  if (enrolled.every((id) => positioned.includes(id))) return;
  throw damagedBookkeeping('a subscription with a position is not named, and one without is');
}

/** Only where some are recorded: DuckDB takes long to list the tables of a large mirror. */
async function presentOf(engine: Engine, tables: readonly string[]): Promise<readonly string[]> {
  if (tables.length === 0) return [];
  const name = "schema_name || '.' || table_name";
  const rows = await engine.rows(`SELECT ${name} FROM duckdb_tables()
    WHERE database_name = ${text(MIRROR)} AND ${name} IN (${tables.map(text).join(', ')}) ORDER BY ALL`);
  return rows.map((row) => textAt(row, 0));
}

/** Returns whether the mirror already contains the whole enrolment. */
export async function isEnrolled(engine: Engine, path: string, enrolment: Enrolment): Promise<boolean> {
  if (!(await hasSchema(engine))) return false;
  const { service, format } = await readMeta(engine, path);
  if (format === FORMAT_VERSION && !(await hasLogs(engine))) return false;
  return hasEnrolment({ service, names: await readNames(engine) }, enrolment);
}

/** Records the service, removes forgotten subscriptions, and names the datasets that have no name. */
export async function writeEnrolment(engine: Engine, path: string, enrolment: Enrolment): Promise<void> {
  const { service } = await readMeta(engine, path);
  if (!(await hasLogs(engine))) await engine.run(createCatalogTable('history_logs'));
  for (const statement of statementsOf(serviceWrites(service, enrolment))) await engine.run(statement);
  await giveNames(engine, enrolment.datasetIds);
}

/** Returns the table names of the datasets. Datasets without a name get one, in the order of the list. */
export async function giveNames(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = await readNames(engine);
  if (lackNames(names, datasetIds).length === 0) return names;
  const taken = (await engine.rows(selectTableNames('main'))).map((row) => textAt(row, 0));
  // The name of a union without members is taken, too.
  const unions = recordedUnions(await engine.rows(selectMeta()));
  const given = newNames(names, datasetIds, [...taken, ...unions.keys()]);
  for (const statement of statementsOf([insertRows('names', [...given])])) await engine.run(statement);
  return new Map([...names, ...given]);
}

async function readNames(engine: Engine): Promise<ReadonlyMap<string, string>> {
  const rows = await engine.rows(`SELECT dataset_id, table_name FROM ${catalogTable('names')}`);
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/** Returns whether there are undo logs; false also where somebody dropped the list of undo logs, which costs the past and nothing else. */
export async function hasLogs(engine: Engine): Promise<boolean> {
  return (await engine.rows(selectCatalogTable('history_logs'))).length > 0;
}

/** A query of a mirror of a known format. */
interface Asked {
  /** Null means all datasets. */
  readonly datasetIds: readonly string[] | null;
  readonly format: number;
}

/** Returns the live tables by dataset id, sorted by id. */
export async function readObservedTables(
  engine: Engine,
  datasetIds: readonly string[] | null,
  format = FORMAT_VERSION,
): Promise<ReadonlyMap<string, ObservedTable>> {
  if (datasetIds?.length === 0) return new Map();
  const asked = { datasetIds, format };
  const tables = await readTables(engine, asked, await readColumns(engine, asked));
  return new Map([...tables].map(([datasetId, { observed }]) => [datasetId, observed]));
}

interface LiveTable extends CatalogedTable {
  /** In the order of the table. */
  readonly recordedColumns: readonly RecordedColumn[];
}

/** Returns the live tables of some datasets with their recorded columns, from a mirror that is attached for writing. */
export async function readLiveTables(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, LiveTable>> {
  if (datasetIds.length === 0) return new Map();
  const asked = { datasetIds, format: FORMAT_VERSION };
  const recorded = await readRecordedColumns(engine, asked);
  const columns = new Map([...recorded].map(([datasetId, of]) => [datasetId, of.map(observedColumn)]));
  const tables = await readTables(engine, asked, columns);
  return new Map(
    [...tables].map(([datasetId, table]) => {
      return [datasetId, { ...table, recordedColumns: recorded.get(datasetId) ?? [] }];
    }),
  );
}

/** Returns the recorded checksums of some datasets, by dataset id. */
export async function readChecksums(
  engine: Engine,
  datasetIds: readonly string[],
  format: number,
): Promise<ReadonlyMap<string, Checksum>> {
  const tables = await readTables(engine, { datasetIds, format }, new Map());
  return new Map(
    [...tables].flatMap(([datasetId, { checksum }]) => (checksum === null ? [] : [[datasetId, checksum]])),
  );
}

/** Resolves to false when the newest commit of the table is another one. */
export async function writeChecksum(
  engine: Engine,
  { datasetId, commitNumber, sum, version }: TableChecksum,
): Promise<boolean> {
  const table = (await readObservedTables(engine, [datasetId])).get(datasetId);
  if (table === undefined || table.commitNumber !== commitNumber) return false;
  await engine.run(`UPDATE ${catalogTable('datasets')}
    SET checksum = ${integer(sum)}::HUGEINT, checksum_version = ${text(version)} WHERE dataset_id = ${text(datasetId)}`);
  // A rollback to this commit proves the rows by it.
  await engine.run(`UPDATE ${catalogTable('commits')}
    SET checksum = ${integer(sum)}::HUGEINT, checksum_version = ${text(version)}
    WHERE commit_number = ${integer(commitNumber)} AND checksum IS NOT NULL`);
  return true;
}

async function readTables(
  engine: Engine,
  asked: Asked,
  columns: ReadonlyMap<string, readonly ObservedColumn[]>,
): Promise<ReadonlyMap<string, CatalogedTable>> {
  const reloads = await readReloads(engine, asked);
  const rows =
    await engine.rows(`SELECT dataset_id, table_name, version, schema_version, row_count, key_columns,
      snapshot_version, snapshot_digest, digest_kind, loaded_through, epoch_ms(loaded_at),
      epoch_ms(published_at), epoch_ms(applied_at), checksum, checksum_version, commit_number,
      epoch_ms(pinned_since), schema_name
    FROM ${ofDatasets('datasets', asked)} ORDER BY dataset_id`);
  const tables = rows.map((row) => catalogedTableAt(row, columns, reloads));
  return new Map(tables.map((table) => [table.observed.datasetId, table]));
}

function ofDatasets(table: CatalogTable, { datasetIds, format }: Asked): string {
  const all = catalogOf(format, table);
  return datasetIds === null ? all : `${all} WHERE dataset_id IN (${datasetIds.map(text).join(', ')})`;
}

async function readReloads(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, ReadonlyMap<string, ReloadMark>>> {
  const rows = await engine.rows(
    `SELECT dataset_id, subscription_id, log_number, event_number, epoch_ms(created_at)
      FROM ${ofDatasets('reloads', asked)}`,
  );
  return reloadsOf(rows);
}

/**
 * A query returns the columns of a table as one JSON text, and the code sorts them. For 3,000 datasets with 20 columns each
 * this takes a fifth of the time of a row for each column.
 */
async function readColumns(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, readonly ObservedColumn[]>> {
  const rows = await engine.rows(`SELECT dataset_id,
      to_json(list(["position"::VARCHAR, name, column_name, type, role, crs]))::VARCHAR
    FROM ${ofDatasets('columns', asked)} GROUP BY dataset_id`);
  return new Map(rows.map((row) => [textAt(row, 0), columnsFrom(textAt(row, 1))]));
}

/** Returns the recorded columns of each table in order, by dataset id; as JSON for the same reason. */
async function readRecordedColumns(
  engine: Engine,
  asked: Asked,
): Promise<ReadonlyMap<string, readonly RecordedColumn[]>> {
  const rows =
    await engine.rows(`SELECT dataset_id, to_json(list(${RECORDED_COLUMN} ORDER BY "position"))::VARCHAR
    FROM ${ofDatasets('columns', asked)} GROUP BY dataset_id`);
  return new Map(
    rows.map((row) => [textAt(row, 0), storedJson(textAt(row, 1)) as readonly RecordedColumn[]]),
  );
}

const RECORDED_COLUMN = `{'name': name, 'columnName': column_name, 'type': type, 'isNullable': nullable,
    'description': description, 'sourceName': source_name, 'role': role, 'crs': crs}`;

/** Newest first; none in a mirror whose format does not record the time of the decision. */
async function readRetired(engine: Engine, format: number): Promise<readonly RetiredTable[]> {
  if (!storesProgress(format)) return [];
  const retired = "kind = 'retire' AND service_time IS NOT NULL";
  const rows = await engine.rows(`SELECT dataset_id, epoch_ms(service_time), coalesce(approved, false)
    FROM ${catalogOf(format, 'commits')}
    WHERE ${retired} AND service_time >= (
      SELECT max(service_time) - INTERVAL ${RETIRED_DAYS} DAYS FROM ${catalogOf(format, 'commits')} WHERE ${retired})
    ORDER BY service_time DESC, dataset_id`);
  return rows.map(retiredTableAt);
}
