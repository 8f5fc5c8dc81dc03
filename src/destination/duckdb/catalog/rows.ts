/** Changes of the catalog as SQL, in statements of a bounded length. Pure. */

import { identifier, text } from '../../../staging/engine/sql.ts';
import { type CatalogType, catalogColumns } from '../../catalog/tables.ts';
import { type CatalogWrite, jsonLists, keyLists } from '../../catalog/writes.ts';
import { catalogTable } from './schema.ts';

/** Returns the statements of the changes, in order. */
export function statementsOf(writes: readonly CatalogWrite[]): readonly string[] {
  return writes.flatMap((write) => (write.kind === 'insert' ? insert(write) : deletion(write)));
}

function insert({ table, rows }: Extract<CatalogWrite, { kind: 'insert' }>): readonly string[] {
  const columns = catalogColumns(table).map(([, type], index) =>
    FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`),
  );
  return jsonLists(rows).map(
    (some) => `INSERT INTO ${catalogTable(table)} SELECT ${columns.join(', ')}
      FROM (SELECT unnest(from_json(${text(some)}, '["JSON"]')) AS "row")`,
  );
}

function deletion({ table, columns, keys }: Extract<CatalogWrite, { kind: 'delete' }>): readonly string[] {
  const same = `(${columns.map(identifier).join(', ')})`;
  return keyLists(keys).map((some) => `DELETE FROM ${catalogTable(table)} WHERE ${same} IN (${some})`);
}

/** Builds a cell from its JSON, which is given as a value and as text. The type makes the compiler refuse a missing type. */
export const FROM_JSON: Readonly<Record<CatalogType, (value: string, shown: string) => string>> = {
  VARCHAR: (_value, shown) => shown,
  BIGINT: (_value, shown) => `(${shown})::BIGINT`,
  HUGEINT: (_value, shown) => `(${shown})::HUGEINT`,
  BOOLEAN: (_value, shown) => `(${shown})::BOOLEAN`,
  TIMESTAMPTZ: (_value, shown) => `make_timestamptz((${shown})::BIGINT * 1000)`,
  'VARCHAR[]': (value) => `from_json(${value}, '["VARCHAR"]')`,
};
