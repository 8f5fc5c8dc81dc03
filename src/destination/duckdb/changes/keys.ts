/** Keys that occur in more than one change, and the fold that leaves the last of them. */

import type { ChangesUnit } from '../../destination.ts';
import type { Row } from '../engine/engine.ts';
import { text } from '../engine/quoting.ts';
import { numberAt } from '../engine/rows.ts';
import { MAX_SHOWN_VALUE } from '../snapshot/load-sql.ts';
import { readParquet } from '../snapshot/parquet-file.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn, PRESENT } from './net.ts';
import { pageAt } from './pages.ts';
import { bad } from './refusals.ts';
import { AS_IT_IS, type Decoding } from './sql.ts';

/** The first key listed twice with a row in one version: its second place, its values as text. `decoded` is what comes after FROM. */
export function findRepeatedKey(decoded: string, columns: ChangesColumns): string {
  const shown = columns.keys.map((position) => `left(${netColumn(position)}::VARCHAR, ${MAX_SHOWN_VALUE})`);
  return `SELECT place[1], place[2], ${shown.join(', ')} FROM (
    SELECT list_sort(list([page, line]))[2] AS place, ${keyList(columns)} FROM ${decoded}
      WHERE ${PRESENT} GROUP BY step, ${keyList(columns)} HAVING count(*) > 1)
    ORDER BY place LIMIT 1`;
}

/** `row` is that of `findRepeatedKey`. @throws BadChangesError where there is one. */
export function refuseRepeatedKey(
  unit: ChangesUnit,
  { pages, columns }: Decoding,
  row: Row | undefined,
): void {
  if (row === undefined) return;
  const key = columns.keys.map(
    (position, index) => `${columns.columns[position]?.column.name} = ${JSON.stringify(row[index + 2])}`,
  );
  const why = `the key ${key.join(', ')} has a row in this version already`;
  throw bad(unit, pageAt(pages, numberAt(row, 0)), numberAt(row, 1), why);
}

/**
 * Writes the last change of each key into a file. In one version that with a row is the last: the key was removed and added.
 * `decoded` is what comes after FROM.
 */
export function writeFolded(decoded: string, columns: ChangesColumns, path: string): string {
  const values = columns.columns.map((_, position) => netColumn(position));
  const last = `SELECT page, line FROM ${decoded}
    QUALIFY row_number() OVER (PARTITION BY ${keyList(columns)} ORDER BY step DESC, ${PRESENT} DESC, page, line) = 1`;
  return `COPY (SELECT ${[...values, PRESENT].join(', ')} FROM ${decoded}
    SEMI JOIN (${last}) USING (page, line)) TO ${text(path)} ${AS_IT_IS}`;
}

/** One row: the keys that have a row, and those that have none. */
export function countPresent(path: string): string {
  return `SELECT count(*) FILTER (${PRESENT}), count(*) FILTER (NOT ${PRESENT}) FROM ${readParquet([path])}`;
}

function keyList({ keys }: ChangesColumns): string {
  return keys.map(netColumn).join(', ');
}
