/**
 * Counts the tables of the mirror themselves, and compares their columns with what is written of them: what was
 * changed by hand is found. The bookkeeping and the tables are read in one transaction, so they are of one moment.
 */

import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, numberAt, text, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import { TYPE_NAMES } from '../../staging/snapshot/casts.ts';
import { readObservedState } from './catalog/observed-state.ts';
import { MIRROR, mirrored } from './catalog/schema.ts';

/** A dataset as it is written down, and its table as it is. */
export interface CountedDataset {
  readonly observed: ObservedTable;
  /** Null where there is no such table. */
  readonly table: CountedTable | null;
}

export interface CountedTable {
  readonly rowCount: number;
  /** Null for a table without key columns, and for one that lacks one of them. */
  readonly keys: CountedKeys | null;
  /** The columns that are not as they are written down. */
  readonly strayColumns: readonly StrayColumn[];
}

export interface CountedKeys {
  /** Rows that lack a part of their key. */
  readonly nullRows: number;
  /** Rows whose key another row has already. */
  readonly repeatedRows: number;
  /** One key that is there more than once, by the names of its columns; null where there is none. */
  readonly example: ReadonlyMap<string, string | null> | null;
}

export interface StrayColumn {
  readonly columnName: string;
  /** The types that it should have and has, as DuckDB names them; null where it should not be there, or is not. */
  readonly expected: string | null;
  readonly found: string | null;
}

type ColumnsByTable = ReadonlyMap<string, ReadonlyMap<string, string>>;

/**
 * Counts those of the datasets that the attached mirror holds, in their order, until `isEnough` says so between two of
 * them; at least one is counted.
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
  const chosen = datasetIds.flatMap((id) => datasets.get(id) ?? []);
  const columns = await readColumns(engine, chosen);
  const counted: CountedDataset[] = [];
  for (const observed of chosen) {
    const found = columns.get(observed.tableName);
    counted.push({ observed, table: found === undefined ? null : await countOne(engine, observed, found) });
    if (isEnough()) break;
  }
  // It was opened for reading, so nothing is undone.
  await engine.run('ROLLBACK');
  return counted;
}

async function readColumns(engine: Engine, observed: readonly ObservedTable[]): Promise<ColumnsByTable> {
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
): Promise<CountedTable> {
  const keys = observed.columns.filter(({ role }) => role === 'key').map(({ columnName }) => columnName);
  const usable = keys.every((key) => found.has(key)) ? keys : [];
  const [row = []] = await engine.rows(countTable(observed.tableName, usable));
  const [rowCount, nullRows, hashes] = [numberAt(row, 0), numberAt(row, 1), numberAt(row, 2)];
  const repeated =
    hashes < rowCount
      ? await countRepeated(engine, observed.tableName, usable)
      : { repeatedRows: 0, example: null };
  return {
    rowCount,
    keys: usable.length === 0 ? null : { nullRows, ...repeated },
    strayColumns: strayColumns(observed, found),
  };
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

function strayColumns(
  { columns }: ObservedTable,
  found: ReadonlyMap<string, string>,
): readonly StrayColumn[] {
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

/** The longest part of a value of a key that is shown, in characters. */
const MAX_SHOWN_VALUE = 200;

/** A row for each column of those of the tables that are there: table, column, type as DuckDB names it. */
function selectColumns(tableNames: readonly string[]): string {
  return `SELECT tables.table_name, columns.column_name, columns.data_type
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid)
    WHERE tables.database_name = ${text(MIRROR)} AND tables.schema_name = 'main'
      AND tables.table_name IN (${tableNames.map(text).join(', ')})
    ORDER BY tables.table_name, columns.column_index`;
}

/**
 * One row, by one scan: the rows, those of which a key column is null, and the different hashes of the keys. As many
 * hashes as rows prove the keys unique, without keeping the keys; fewer prove nothing, because hashes may collide.
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

/** One row: how many rows have a key that an earlier row has, and the values of one such key as text. */
function countRepeatedKeys(tableName: string, keyColumns: readonly string[]): string {
  const keys = keyColumns.map(identifier);
  const aliases = keys.map((_, index) => `k${index}`);
  const shown = aliases.map((alias) => `any_value(left(${alias}::VARCHAR, ${MAX_SHOWN_VALUE}))`);
  return `SELECT coalesce(sum(copies - 1), 0)::BIGINT, ${shown.join(', ')}
    FROM (SELECT ${keys.join(', ')}, count(*) FROM ${mirrored(tableName)} GROUP BY ${keys.join(', ')} HAVING count(*) > 1)
      AS repeated(${[...aliases, 'copies'].join(', ')})`;
}
