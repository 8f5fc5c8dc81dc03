/**
 * Counts the rows of the mirror's tables and compares their columns with the catalog, which reveals changes made by hand. One
 * transaction reads the catalog and the tables, so both are from one point in time.
 */

import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, type Fault, firstLine } from '../../staging/engine/errors.ts';
import { identifier, numberAt, text, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import { TYPE_NAMES } from '../../staging/snapshot/casts.ts';
import type { Checksum } from '../catalog/cells.ts';
import type { CountedDataset, CountedKeys, CountedTable, StrayColumn } from '../reader.ts';
import { readFormat } from './catalog/format.ts';
import { readChecksums, readObservedState } from './catalog/observed-state.ts';
import { MIRROR, mirrored } from './catalog/schema.ts';
import { computeChecksum } from './checksum.ts';

/** A table with the columns that the catalog lists. */
interface ListedTable extends Pick<ObservedTable, 'tableName'> {
  readonly columns: readonly Pick<ObservedColumn, 'columnName' | 'type'>[];
}

type ColumnsByTable = ReadonlyMap<string, ReadonlyMap<string, string>>;

/**
 * Counts those of the given datasets that the attached mirror contains, in order. Asks `isEnough` after each; counts at least
 * one.
 * @throws DuckDbError
 */
export async function countDatasets(
  engine: Engine,
  path: string,
  datasetIds: readonly string[],
  isEnough: () => boolean,
): Promise<readonly CountedDataset[]> {
  await engine.run('BEGIN TRANSACTION READ ONLY');
  const { datasets } = await readObservedState(engine, path);
  const format = await readFormat(engine, path);
  const chosen = datasetIds.flatMap((id) => datasets.get(id) ?? []);
  const checksums = format === null ? new Map() : await readChecksums(engine, datasetIds, format);
  const columns = await readColumns(engine, chosen);
  const counted: CountedDataset[] = [];
  for (const observed of chosen) {
    const found = columns.get(observed.tableName);
    const recorded = checksums.get(observed.datasetId) ?? null;
    const one = found === undefined ? MISSING : await countReadable(engine, observed, found, recorded);
    counted.push({ observed, ...one });
    // An instance that met damage may refuse everything from then on.
    if (one.damage !== null) return counted;
    if (isEnough()) break;
  }
  // The file was opened for reading, so the rollback undoes nothing.
  await engine.run('ROLLBACK');
  return counted;
}

const MISSING: Omit<CountedDataset, 'observed'> = { table: null, damage: null };

/** The faults of a table that lies in a damaged part of the file. */
export const IS_DAMAGE: ReadonlySet<Fault> = new Set(['unreadable', 'gave-up']);

async function countReadable(
  engine: Engine,
  observed: ObservedTable,
  found: ReadonlyMap<string, string>,
  recorded: Checksum | null,
): Promise<Omit<CountedDataset, 'observed'>> {
  try {
    return { table: await countOne(engine, observed, found, recorded), damage: null };
  } catch (error) {
    if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
    return { table: null, damage: firstLine(error) };
  }
}

async function readColumns(
  engine: Engine,
  observed: readonly Pick<ObservedTable, 'tableName'>[],
): Promise<ColumnsByTable> {
  const columns = new Map<string, Map<string, string>>();
  if (observed.length === 0) return columns;
  for (const row of await engine.rows(selectColumns(observed.map(({ tableName }) => tableName)))) {
    const ofTable = columns.get(textAt(row, 0)) ?? new Map<string, string>();
    columns.set(textAt(row, 0), ofTable.set(textAt(row, 1), textAt(row, 2)));
  }
  return columns;
}

async function countOne(
  engine: Engine,
  observed: ObservedTable,
  found: ReadonlyMap<string, string>,
  recorded: Checksum | null,
): Promise<CountedTable> {
  const keys = observed.columns.filter(({ role }) => role === 'key').map(({ columnName }) => columnName);
  const usable = keys.every((key) => found.has(key)) ? keys : [];
  const [row = []] = await engine.rows(countTable(observed.tableName, usable));
  const [rowCount, nullRows, hashes] = [numberAt(row, 0), numberAt(row, 1), numberAt(row, 2)];
  const repeated =
    hashes < rowCount
      ? await countRepeated(engine, observed.tableName, usable)
      : { repeatedRows: 0, example: null };
  const stray = strayColumns(observed, found);
  return {
    rowCount,
    keys: usable.length === 0 ? null : { nullRows, ...repeated },
    strayColumns: stray,
    hasRecordedChecksum: await hasChecksum(engine, observed, found, stray.length > 0 ? null : recorded),
  };
}

/** Reads every value, whatever was recorded: a table that cannot be read to its end is not called equal. */
async function hasChecksum(
  engine: Engine,
  { tableName, columns }: ObservedTable,
  found: ReadonlyMap<string, string>,
  recorded: Checksum | null,
): Promise<boolean | null> {
  const names = recorded === null ? [...found.keys()] : columns.map(({ columnName }) => columnName);
  const { sum, version } = await computeChecksum(engine, mirrored(tableName), names);
  if (recorded === null) return null;
  return version === recorded.version ? sum === recorded.sum : null;
}

async function countRepeated(
  engine: Engine,
  tableName: string,
  keys: readonly string[],
): Promise<Pick<CountedKeys, 'repeatedRows' | 'example'>> {
  const [row = []] = await engine.rows(countRepeatedKeys(tableName, keys));
  const repeatedRows = numberAt(row, 0);
  if (repeatedRows === 0) return { repeatedRows, example: null };
  return { repeatedRows, example: new Map(keys.map((key, index) => [key, textOrNullAt(row, index + 1)])) };
}

/** Returns the columns of a table of the attached mirror that differ from the catalog: all of them where the table is missing. */
export async function strayColumnsOf(engine: Engine, observed: ListedTable): Promise<readonly StrayColumn[]> {
  return strayColumns(observed, (await readColumns(engine, [observed])).get(observed.tableName) ?? new Map());
}

/** Returns the same for each of the tables, by dataset id. */
export async function strayColumnsOfAll(
  engine: Engine,
  observed: readonly ObservedTable[],
): Promise<ReadonlyMap<string, readonly StrayColumn[]>> {
  const found = await readColumns(engine, observed);
  return new Map(
    observed.map((each) => [each.datasetId, strayColumns(each, found.get(each.tableName) ?? new Map())]),
  );
}

function strayColumns({ columns }: ListedTable, found: ReadonlyMap<string, string>): readonly StrayColumn[] {
  const expected = new Map(columns.map(({ columnName, type }) => [columnName, TYPE_NAMES[type]]));
  const names = new Set([...expected.keys(), ...found.keys()]);
  return [...names]
    .map((columnName) => ({
      columnName,
      expected: expected.get(columnName) ?? null,
      found: found.get(columnName) ?? null,
    }))
    .filter((column) => column.expected !== column.found);
}

/** The longest part of a key value that is shown, in characters. */
const MAX_SHOWN_VALUE = 200;

/** Selects a row for each column of the existing tables: table, column, type as DuckDB names it. */
function selectColumns(tableNames: readonly string[]): string {
  return `SELECT tables.table_name, columns.column_name, columns.data_type
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid)
    WHERE tables.database_name = ${text(MIRROR)} AND tables.schema_name = 'main'
      AND tables.table_name IN (${tableNames.map(text).join(', ')})
    ORDER BY tables.table_name, columns.column_index`;
}

/**
 * Returns one row by one scan: the row count, the rows with a null in the key, and the number of distinct key hashes. As many
 * hashes as rows prove the keys unique without storing the keys. Fewer hashes prove nothing, because hashes may collide.
 */
function countTable(tableName: string, keyColumns: readonly string[]): string {
  const keys = keyColumns.map(identifier);
  const counts =
    keys.length === 0
      ? ['count(*)', '0', 'count(*)']
      : [
          'count(*)',
          `count(*) FILTER (${keys.map((key) => `${key} IS NULL`).join(' OR ')})`,
          `count(DISTINCT hash(${keys.join(', ')}))`,
        ];
  return `SELECT ${counts.join(', ')} FROM ${mirrored(tableName)}`;
}

/** Returns one row: the number of rows that repeat a key, and the values of one such key as text. */
function countRepeatedKeys(tableName: string, keyColumns: readonly string[]): string {
  const keys = keyColumns.map(identifier);
  const aliases = keys.map((_, index) => `k${index}`);
  const shown = aliases.map((alias) => `any_value(left(${alias}::VARCHAR, ${MAX_SHOWN_VALUE}))`);
  return `SELECT coalesce(sum(copies - 1), 0)::BIGINT, ${shown.join(', ')}
    FROM (SELECT ${keys.join(', ')}, count(*) FROM ${mirrored(tableName)} GROUP BY ${keys.join(', ')} HAVING count(*) > 1)
      AS repeated(${[...aliases, 'copies'].join(', ')})`;
}
