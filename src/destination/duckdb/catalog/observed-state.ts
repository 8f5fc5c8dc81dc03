/** Reads the observed state of the mirror from its catalog, and assigns table names. */

import { assert } from '../../../lib/assert.ts';
import type { ReloadMark } from '../../../model/desired-state.ts';
import { ConfigurationError } from '../../../model/errors.ts';
import { tableNameFor } from '../../../model/naming.ts';
import { COLUMN_TYPES, type ColumnType } from '../../../model/records.ts';
import type { DigestKind, ObservedColumn, ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine, Row } from '../../../staging/engine/engine.ts';
import {
  bigintAt,
  booleanAt,
  dateAt,
  dateOrNullAt,
  integer,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  textListAt,
  textOrNullAt,
  tuple,
} from '../../../staging/engine/sql.ts';
import type { Enrolment, ObservedState, RetiredTable, TableChecksum } from '../../destination.ts';
import { type Checksum, checksumOrNullAt } from '../checksum.ts';
import { readProgress } from './progress.ts';
import {
  type CatalogTable,
  catalogOf,
  catalogTable,
  createSchema,
  deleteMeta,
  FORMAT_VERSION,
  forgetSubscription,
  insertMeta,
  isKnownFormat,
  META_FORMAT_VERSION,
  META_SERVICE_ORIGIN,
  META_SUBSCRIPTION_ID,
  migrate,
  selectMeta,
  selectSchema,
  selectTableNames,
  storesProgress,
} from './schema.ts';
import type { RecordedColumn } from './tables.ts';

export const EMPTY: ObservedState = { service: null, datasets: new Map(), progress: null, retired: [] };

/** Reads the state of the attached mirror. @throws ConfigurationError when a newer program wrote the mirror. */
export async function readObservedState(engine: Engine, path: string): Promise<ObservedState> {
  if (!(await hasSchema(engine))) return EMPTY;
  const { service, format } = await readMeta(engine, path);
  return {
    service,
    datasets: await readObservedTables(engine, null, format),
    progress: storesProgress(format) ? await readProgress(engine) : null,
    retired: await readRetired(engine, format),
  };
}

/**
 * Creates the catalog in a new mirror, and migrates an earlier format. Must run before any other write to the catalog. Resolves
 * to whether the mirror is new.
 * @throws ConfigurationError when a newer program wrote the mirror.
 */
export async function ensureSchema(engine: Engine, path: string): Promise<boolean> {
  if (await hasSchema(engine)) {
    const { format } = await readMeta(engine, path);
    for (const statement of migrate(format)) await engine.run(statement);
    return false;
  }
  for (const statement of createSchema()) await engine.run(statement);
  return true;
}

/** Tells whether the mirror already contains the whole enrolment. */
export async function isEnrolled(engine: Engine, path: string, enrolment: Enrolment): Promise<boolean> {
  if (!(await hasSchema(engine))) return false;
  const { service } = await readMeta(engine, path);
  const names = await readNames(engine);
  return (
    service?.origin === enrolment.origin &&
    enrolment.subscriptionIds.every((id) => service.subscriptionIds.includes(id)) &&
    !givenUp(enrolment).some((id) => service.subscriptionIds.includes(id)) &&
    nameable(enrolment.datasetIds).every((id) => names.has(id))
  );
}

/** Records the service, removes forgotten subscriptions, and names the datasets that have no name. */
export async function writeEnrolment(engine: Engine, path: string, enrolment: Enrolment): Promise<void> {
  const { service } = await readMeta(engine, path);
  if (service?.origin !== enrolment.origin) {
    await engine.run(deleteMeta(META_SERVICE_ORIGIN));
    await engine.run(insertMeta(META_SERVICE_ORIGIN, enrolment.origin));
  }
  const seen = new Set(service?.subscriptionIds);
  for (const id of new Set(enrolment.subscriptionIds)) {
    if (!seen.has(id)) await engine.run(insertMeta(META_SUBSCRIPTION_ID, id));
  }
  for (const id of givenUp(enrolment).filter((each) => seen.has(each))) {
    for (const statement of forgetSubscription(id)) await engine.run(statement);
  }
  await giveNames(engine, enrolment.datasetIds);
}

/** A forgotten subscription that is followed again stays. */
function givenUp({ forgottenSubscriptionIds, subscriptionIds }: Enrolment): readonly string[] {
  return forgottenSubscriptionIds.filter((id) => !subscriptionIds.includes(id));
}

/** Returns the table names of the datasets. Datasets without a name get one, in the order of the list. */
export async function giveNames(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map(await readNames(engine));
  const missing = nameable(datasetIds).filter((id) => !names.has(id));
  if (missing.length === 0) return names;
  const taken = new Set(names.values());
  for (const row of await engine.rows(selectTableNames('main'))) taken.add(textAt(row, 0));
  const given: string[] = [];
  for (const id of missing) {
    if (names.has(id)) continue;
    const name = tableNameFor(id, taken);
    names.set(id, name);
    taken.add(name);
    given.push(tuple([text(id), text(name)]));
  }
  await engine.run(`INSERT INTO ${catalogTable('names')} VALUES ${given.join(', ')}`);
  return names;
}

async function readNames(engine: Engine): Promise<ReadonlyMap<string, string>> {
  const rows = await engine.rows(`SELECT dataset_id, table_name FROM ${catalogTable('names')}`);
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/** Tells whether the attached database is a mirror. */
export async function hasSchema(engine: Engine): Promise<boolean> {
  return (await engine.rows(selectSchema())).length > 0;
}

/**
 * Returns null when the attached database is not a mirror yet. @throws ConfigurationError when a newer program wrote the
 * mirror.
 */
export async function readFormat(engine: Engine, path: string): Promise<number | null> {
  return (await hasSchema(engine)) ? (await readMeta(engine, path)).format : null;
}

interface Meta {
  readonly format: number;
  readonly service: ObservedState['service'];
}

async function readMeta(engine: Engine, path: string): Promise<Meta> {
  const entries = (await engine.rows(selectMeta())).map((row) => [textAt(row, 0), textAt(row, 1)] as const);
  const all = (key: string) => entries.filter((entry) => entry[0] === key).map((entry) => entry[1]);
  const format = Number(all(META_FORMAT_VERSION)[0] ?? Number.NaN);
  if (!isKnownFormat(format)) {
    throw new ConfigurationError(
      `The mirror ${path} has the format ${format}; this program knows no format above ${FORMAT_VERSION}.`,
      { hint: 'Use the newer version of feed-sync that wrote it, or set destination.path to another file.' },
    );
  }
  const origin = all(META_SERVICE_ORIGIN)[0];
  if (origin === undefined) return { format, service: null };
  return { format, service: { origin, subscriptionIds: all(META_SUBSCRIPTION_ID) } };
}

/** DuckDB ends a name at a NUL. Such a dataset gets no name, and its validation fails. */
function nameable(datasetIds: readonly string[]): readonly string[] {
  return datasetIds.filter((id) => !id.includes('\0'));
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

/** A live table as the catalog records it. */
interface CatalogedTable {
  readonly observed: ObservedTable;
  /** Null when none was recorded. */
  readonly checksum: Checksum | null;
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
      epoch_ms(pinned_since)
    FROM ${ofDatasets('datasets', asked)} ORDER BY dataset_id`);
  const tables = rows.map((row): CatalogedTable => {
    const datasetId = textAt(row, 0);
    const observed = {
      datasetId,
      tableName: textAt(row, 1),
      commitNumber: numberOrNullAt(row, 15),
      version: numberAt(row, 2),
      schemaVersion: textOrNullAt(row, 3),
      rowCount: numberAt(row, 4),
      keyColumns: textListAt(row, 5),
      snapshotVersion: numberAt(row, 6),
      snapshotDigest: textAt(row, 7),
      digestKind: digestKindAt(row, 8),
      loadedThrough: textOrNullAt(row, 9),
      loadedAt: dateOrNullAt(row, 10),
      publishedAt: dateOrNullAt(row, 11),
      appliedAt: dateAt(row, 12),
      pinnedSince: dateOrNullAt(row, 16),
      columns: columns.get(datasetId) ?? [],
      reloads: reloads.get(datasetId) ?? new Map(),
    };
    return { observed, checksum: checksumOrNullAt(row, 13) };
  });
  return new Map(tables.map((table) => [table.observed.datasetId, table]));
}

export function digestKindAt(row: Row, index: number): DigestKind | null {
  const kind = textOrNullAt(row, index);
  assert(
    kind === null || kind === 'stated' || kind === 'computed',
    `a digest is stated or computed, not ${kind}`,
  );
  return kind;
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
  const reloads = new Map<string, Map<string, ReloadMark>>();
  for (const row of rows) {
    const ofDataset = reloads.get(textAt(row, 0)) ?? new Map<string, ReloadMark>();
    ofDataset.set(textAt(row, 1), reloadMarkAt(row, 2));
    reloads.set(textAt(row, 0), ofDataset);
  }
  return reloads;
}

/** Reads three cells: number of the event log, number of the event, time of creation. */
export function reloadMarkAt(row: Row, index: number): ReloadMark {
  return {
    logNumber: numberAt(row, index),
    eventNumber: bigintAt(row, index + 1),
    createdAt: dateOrNullAt(row, index + 2),
  };
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
    rows.map((row) => [textAt(row, 0), JSON.parse(textAt(row, 1)) as readonly RecordedColumn[]]),
  );
}

const RECORDED_COLUMN = `{'name': name, 'columnName': column_name, 'type': type, 'isNullable': nullable,
    'description': description, 'sourceName': source_name, 'role': role, 'crs': crs}`;

/** The cells of the query in `readColumns`: position, name, name in the table, type, role, coordinate system. */
type ColumnCells = readonly [string, string, string, string, ObservedColumn['role'], string | null];

function columnsFrom(json: string): readonly ObservedColumn[] {
  const columns = JSON.parse(json) as readonly ColumnCells[];
  return columns
    .toSorted((left, right) => Number(left[0]) - Number(right[0]))
    .map(([, name, columnName, type, role, crs]) => ({
      name,
      columnName,
      type: knownColumnType(type),
      role,
      crs,
    }));
}

export function observedColumn({ name, columnName, type, role, crs }: RecordedColumn): ObservedColumn {
  return { name, columnName, type: knownColumnType(type), role: role as ObservedColumn['role'], crs };
}

function knownColumnType(stated: string): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === stated);
  assert(type !== undefined, `the bookkeeping holds types of columns that are known, not ${stated}`);
  return type;
}

/** Longer than any rule looks back. Counted from the newest retirement, because the machine's clock may be wrong. */
const DAYS = 3;

/** Newest first; none in a mirror whose format does not record the time of the decision. */
async function readRetired(engine: Engine, format: number): Promise<readonly RetiredTable[]> {
  if (!storesProgress(format)) return [];
  const retired = "kind = 'retire' AND service_time IS NOT NULL";
  const rows = await engine.rows(`SELECT dataset_id, epoch_ms(service_time), coalesce(approved, false)
    FROM ${catalogOf(format, 'commits')}
    WHERE ${retired} AND service_time >= (
      SELECT max(service_time) - INTERVAL ${DAYS} DAYS FROM ${catalogOf(format, 'commits')} WHERE ${retired})
    ORDER BY service_time DESC, dataset_id`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    retiredAt: dateAt(row, 1),
    isApproved: booleanAt(row, 2),
  }));
}
