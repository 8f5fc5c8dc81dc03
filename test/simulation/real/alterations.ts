/** What somebody does to a table of the mirror by hand, as SQL. */

import type { ObservedTable } from '../../../src/model/write-jobs.ts';
import { identifier, openExactly } from '../../support/exact-mirror.ts';
import type { Alteration } from '../stage.ts';

/** Null where there is nothing to alter. */
export async function alteringStatement(
  path: string,
  { tableName, columns }: ObservedTable,
  how: Alteration,
): Promise<string | null> {
  const table = `main.${identifier(tableName)}`;
  const mirror = await openExactly(path);
  const has = async (condition: string): Promise<boolean> =>
    (await mirror.rows(`SELECT '1' FROM ${table} WHERE ${condition} LIMIT 1`)).length > 0;
  try {
    if (!(await has('TRUE'))) return null;
    const first = `rowid = (SELECT min(rowid) FROM ${table})`;
    if (how === 'a row less') return `DELETE FROM ${table} WHERE ${first}`;
    if (how === 'a row more') {
      const key = columns.find(
        ({ role, type }) => role === 'key' && (type === 'string' || type === 'integer'),
      );
      if (key === undefined) return null;
      const name = identifier(key.columnName);
      const other = key.type === 'string' ? `${name} || ' by hand'` : `${name} + 1000003`;
      return `INSERT INTO ${table} SELECT * REPLACE (${other} AS ${name}) FROM ${table} WHERE ${first}`;
    }
    for (const { columnName, role } of columns) {
      const name = identifier(columnName);
      if (role !== 'data' || !(await has(`${name} IS NOT NULL`))) continue;
      return `UPDATE ${table} SET ${name} = NULL WHERE rowid = (SELECT min(rowid) FROM ${table} WHERE ${name} IS NOT NULL)`;
    }
    return null;
  } finally {
    mirror.close();
  }
}
