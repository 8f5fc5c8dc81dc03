/**
 * Renders rows as a statement of DuckDB that writes CSV, for the geometries that PostGIS refuses to read from their bytes: it reads
 * the digits of a polygon that is not closed, or of a line with one point, and keeps them. Pure.
 */

import { text } from '../../staging/engine/sql.ts';
import { type CopiedColumn, withSrid } from './binary-rows.ts';

/** The types whose values are quoted, because they may be an empty text or hold a line of COPY. NULL is never quoted. */
const IS_QUOTED: ReadonlySet<CopiedColumn['type']> = new Set(['string', 'json']);

/** `from` is SQL after FROM; geometries are those of PostGIS. */
export function writeCsv(columns: readonly CopiedColumn[], from: string, path: string): string {
  const values = columns.map((column, index) => `${csvValue(column)} AS c${index}`);
  const quoted = columns.flatMap(({ type }, index) => (IS_QUOTED.has(type) ? [`c${index}`] : []));
  const force = quoted.length === 0 ? '' : `, FORCE_QUOTE (${quoted.join(', ')})`;
  return `COPY (SELECT ${values.join(', ')} FROM ${from})
    TO ${text(path)} (FORMAT csv, HEADER false, USE_TMP_FILE false${force})`;
}

function csvValue({ value, type, srid }: CopiedColumn): string {
  if (type === 'timestamp') return timestamp(value);
  if (type !== 'geometry') return value;
  const wkb = `ST_AsWKB(${value})`;
  return `hex(${srid === 0 ? wkb : withSrid(wkb, srid)})`;
}

/** DuckDB rounds the time of a zone, and no other, where it writes one that is far away. */
function timestamp(value: string): string {
  return `CASE WHEN isfinite(${value}) THEN make_timestamp(epoch_us(${value}))::VARCHAR || '+00' ELSE ${value}::VARCHAR END`;
}
