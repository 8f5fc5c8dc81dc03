/** Counts the rows of the tables and compares columns, keys and checksums with the catalog, which reveals changes made by hand. */

import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import { identifier, numberAt, textOrNullAt } from '../../staging/engine/sql.ts';
import type { Checksum } from '../catalog/cells.ts';
import type { CountedDataset, CountedKeys, CountedTable, StrayColumn } from '../reader.ts';
import { refuseUnended } from './catalog/distributed.ts';
import { type Named, qualified } from './catalog/names.ts';
import { readTables, writeChecksum } from './catalog/observed-state.ts';
import type { Transaction } from './connection.ts';
import { readContent } from './content.ts';
import { isSameType, readFound } from './tables.ts';
import { type Postgis, shownTypeName } from './types.ts';

/** The longest part of a key value that is shown, in characters. */
const MAX_SHOWN_VALUE = 200;

/** Tables that are read one after another. */
export interface InTurn {
  /** Called before each table, because its node may not answer. */
  readonly before: (table: Named) => Promise<void>;
  /** Asked after each table: at least one is read. */
  readonly isEnough: () => boolean;
}

/** Counts those of the given datasets that have a table, in order. */
export async function countDatasets(
  transaction: Transaction,
  postgis: Postgis | null,
  datasetIds: readonly string[],
  { before, isEnough }: InTurn,
): Promise<readonly CountedDataset[]> {
  const tables = await readTables(transaction, datasetIds);
  const counted: CountedDataset[] = [];
  for (const { observed, checksum } of datasetIds.flatMap((id) => tables.get(id) ?? [])) {
    await before(observed);
    const table = await countOne(transaction, postgis, observed, checksum);
    await refuseUnended(transaction, observed);
    counted.push({ observed, table, damage: null });
    if (isEnough()) break;
  }
  return counted;
}

async function countOne(
  transaction: Transaction,
  postgis: Postgis | null,
  observed: ObservedTable,
  recorded: Checksum | null,
): Promise<CountedTable | null> {
  const found = (await readFound(transaction, observed))?.table ?? null;
  if (found === null) return null;
  const keys = observed.columns.filter(({ role }) => role === 'key').map(({ columnName }) => columnName);
  const strayColumns = strayOf(observed, found.columns, postgis);
  const isHashed = strayColumns.length === 0;
  const { rowCount, checksum } = await readContent(
    transaction,
    qualified(observed),
    isHashed ? observed.columns : [],
  );
  const usable = keys.length > 0 && keys.every((key) => found.columns.has(key));
  return {
    rowCount,
    keys: usable ? await countKeys(transaction, observed, keys) : null,
    strayColumns,
    hasRecordedChecksum:
      isHashed && recorded?.version === checksum.version ? recorded.sum === checksum.sum : null,
  };
}

async function countKeys(
  transaction: Transaction,
  named: Named,
  keyColumns: readonly string[],
): Promise<CountedKeys> {
  const keys = keyColumns.map(identifier);
  const table = qualified(named);
  const [nulls = []] = await transaction.rows(
    `SELECT count(*) FROM ${table} WHERE ${keys.map((key) => `${key} IS NULL`).join(' OR ')}`,
  );
  const shown = keys.map((key) => `left(${key}::text, ${MAX_SHOWN_VALUE})`);
  const repeated = `SELECT count(*) - 1 AS copies, ${shown.join(', ')} FROM ${table}
    GROUP BY ${keys.join(', ')} HAVING count(*) > 1`;
  const [sum = []] = await transaction.rows(
    `SELECT coalesce(sum(copies), 0)::bigint FROM (${repeated}) AS repeated`,
  );
  const repeatedRows = numberAt(sum, 0);
  const [row = []] = repeatedRows === 0 ? [] : await transaction.rows(`${repeated} LIMIT 1`);
  const example = new Map(keyColumns.map((key, index) => [key, textOrNullAt(row, index + 1)]));
  return { nullRows: numberAt(nulls, 0), repeatedRows, example: repeatedRows === 0 ? null : example };
}

/** Returns the columns that differ from the catalog. `found` has the names and the types of those that are there. */
export function strayOf(
  { columns }: { readonly columns: readonly Pick<ObservedColumn, 'columnName' | 'type'>[] },
  found: ReadonlyMap<string, string>,
  postgis: Postgis | null,
): readonly StrayColumn[] {
  const known = new Set(columns.map(({ columnName }) => columnName));
  return [
    ...columns
      .filter((column) => !isSameType(found.get(column.columnName), column, postgis))
      .map(({ columnName, type }) => ({
        columnName,
        expected: shownTypeName(type, postgis),
        found: found.get(columnName) ?? null,
      })),
    ...[...found]
      .filter(([columnName]) => !known.has(columnName))
      .map(([columnName, type]) => ({ columnName, expected: null, found: type })),
  ];
}

/** Stores the checksum of a table of the recorded size whose recorded one cannot be compared. Returns its name, else null. */
export async function renewChecksum(transaction: Transaction, datasetId: string): Promise<string | null> {
  const table = (await readTables(transaction, [datasetId])).get(datasetId);
  if (table === undefined) return null;
  const { observed, checksum: recorded } = table;
  const { schemaName, tableName, columns, commitNumber } = observed;
  const { rowCount, checksum } = await readContent(transaction, qualified(observed), columns);
  if (recorded?.version === checksum.version || rowCount !== observed.rowCount) return null;
  const isStored = await writeChecksum(transaction, { datasetId, commitNumber, ...checksum });
  return isStored ? `${schemaName}.${tableName}` : null;
}
