/** The digest of a net change: it names the content that an operator approves. */

import { createHash } from 'node:crypto';
import type { Engine } from '../engine/engine.ts';
import { bigintOrNullAt, numberAt } from '../engine/sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { netColumn, PRESENT } from './columns.ts';

/**
 * Identifies the content of a net change, whatever the order of its rows and the pages that they came in. Of a removed row the key
 * alone counts: nothing else of it has an effect. `from` is SQL for use after FROM: the columns `c0`, `c1`, …, then `present`.
 * @throws DuckDbError
 */
export async function digestOfNetChange(
  engine: Engine,
  from: string,
  columns: readonly PlannedColumn[],
): Promise<string> {
  const parts = columns.map(({ type, role }, position) => {
    const column = netColumn(position);
    const written = type === 'geometry' ? `hex(ST_AsWKB(${column}))` : `${column}::VARCHAR`;
    // Each value is hashed by itself, because no character can part texts that may hold any.
    const value = `coalesce(md5(${written}), '-')`;
    return role === 'key' ? value : `CASE WHEN ${PRESENT} THEN ${value} END`;
  });
  const hashed = `concat_ws(',', ${[PRESENT, ...parts].join(', ')})`;
  const [row = []] =
    await engine.rows(`SELECT count(*), sum(md5_number_lower(h)::HUGEINT), sum(md5_number_upper(h)::HUGEINT)
    FROM (SELECT ${hashed} AS h FROM ${from})`);
  const sums = [1, 2].map((index) => String(bigintOrNullAt(row, index) ?? 0n));
  const described = columns.map(({ column, type, role }) => [column.name, type, role]);
  return createHash('sha256')
    .update(JSON.stringify([described, numberAt(row, 0), sums]))
    .digest('hex');
}
