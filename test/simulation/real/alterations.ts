/** What somebody does to a table of the mirror by hand, as SQL that both DuckDB and PostgreSQL know. */

import type { ObservedTable } from '../../../src/model/write-jobs.ts';
import { identifier } from '../../support/exact-mirror.ts';
import type { Alteration } from '../stage.ts';

interface Place {
  /** The schema of the tables. */
  readonly schema: string;
  /** Tells rows apart. */
  readonly rowId: string;
  /** Whether the query has a row. */
  readonly has: (sql: string) => Promise<boolean>;
}

/** Null where there is nothing to alter. */
export async function alteringStatement(
  { tableName, columns }: ObservedTable,
  how: Alteration,
  { schema, rowId, has }: Place,
): Promise<string | null> {
  const table = `${schema}.${identifier(tableName)}`;
  const hasRow = (condition: string): Promise<boolean> =>
    has(`SELECT '1' FROM ${table} WHERE ${condition} LIMIT 1`);
  if (!(await hasRow('TRUE'))) return null;
  const first = `${rowId} = (SELECT min(${rowId}) FROM ${table})`;
  if (how === 'a row less') return `DELETE FROM ${table} WHERE ${first}`;
  if (how === 'a row more') {
    const key = columns.find(({ role, type }) => role === 'key' && (type === 'string' || type === 'integer'));
    if (key === undefined) return null;
    const names = columns.map(({ columnName }) => identifier(columnName));
    const values = columns.map((column) => {
      const name = identifier(column.columnName);
      if (column !== key) return name;
      return key.type === 'string' ? `${name} || ' by hand'` : `${name} + 1000003`;
    });
    return `INSERT INTO ${table} (${names.join(', ')}) SELECT ${values.join(', ')} FROM ${table} WHERE ${first}`;
  }
  for (const { columnName, role } of columns) {
    const name = identifier(columnName);
    if (role !== 'data' || !(await hasRow(`${name} IS NOT NULL`))) continue;
    return `UPDATE ${table} SET ${name} = NULL
      WHERE ${rowId} = (SELECT min(${rowId}) FROM ${table} WHERE ${name} IS NOT NULL)`;
  }
  return null;
}
