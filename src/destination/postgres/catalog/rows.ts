/** Changes of the catalog as SQL, in statements of a bounded length. Pure. */

import { identifier, text } from '../../../staging/engine/sql.ts';
import { type CatalogType, catalogColumns } from '../../catalog/tables.ts';
import { type CatalogWrite, jsonLists, keyLists } from '../../catalog/writes.ts';
import { catalogTable } from './names.ts';

/** Returns the statements of the changes, in order. */
export function statementsOf(writes: readonly CatalogWrite[]): readonly string[] {
  return writes.flatMap((write) => (write.kind === 'insert' ? insert(write) : deletion(write)));
}

function insert({ table, rows }: Extract<CatalogWrite, { kind: 'insert' }>): readonly string[] {
  const columns = catalogColumns(table).map(([, type], index) => FROM_JSON[type](index));
  const names = catalogColumns(table).map(([name]) => identifier(name));
  return jsonLists(rows).map(
    (some) => `INSERT INTO ${catalogTable(table)} (${names.join(', ')}) SELECT ${columns.join(', ')}
      FROM json_array_elements(${text(some)}::json) AS "row"`,
  );
}

function deletion({ table, columns, keys }: Extract<CatalogWrite, { kind: 'delete' }>): readonly string[] {
  const same = `(${columns.map(identifier).join(', ')})`;
  return keyLists(keys).map((some) => `DELETE FROM ${catalogTable(table)} WHERE ${same} IN (${some})`);
}

/** Returns the SQL value of a cell from its place in the JSON of a row, which is called "row". */
export function cellFromJson(type: CatalogType, index: number): string {
  return FROM_JSON[type](index);
}

/** Builds a cell from its place in the JSON of the row. The type makes the compiler refuse a missing type. */
const FROM_JSON: Readonly<Record<CatalogType, (index: number) => string>> = {
  VARCHAR: shown,
  BIGINT: (index) => `(${shown(index)})::bigint`,
  HUGEINT: (index) => `(${shown(index)})::numeric`,
  BOOLEAN: (index) => `(${shown(index)})::boolean`,
  TIMESTAMPTZ: (index) => `to_timestamp((${shown(index)})::numeric / 1000)`,
  'VARCHAR[]': (index) => `CASE WHEN json_typeof("row"->${index}) = 'array'
    THEN ARRAY(SELECT json_array_elements_text("row"->${index})) END`,
};

function shown(index: number): string {
  return `"row"->>${index}`;
}
