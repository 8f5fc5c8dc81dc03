/**
 * Values of change rows: each column type as SQL that makes the value from its JSON text. A value that would have to
 * be bent raises an error; a null stays one. Pure.
 */

import type { ColumnType } from '../../model/column.ts';

/** SQL for the value, from SQL for its JSON text that is not null. */
type Decode = (cell: string) => string;

const REFUSED = "error('not of its type')";

/** An integer that DuckDB had to read as a fraction (`1.0`, `1e3`): up to 15 digits, none is lost in a double. */
const WHOLE_FRACTION = '-?[0-9]{1,15}\\.0';
const DECIMAL_TEXT = '"-?[0-9]+"';
const DATE = '"[0-9]{4}-[0-9]{2}-[0-9]{2}"';
/** RFC 3339 with an offset. Digits below the microsecond are zeros. */
const TIMESTAMP =
  '"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6}0*)?(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])"';

/** Geometries take more than one step, and are decoded by changes-geometry.ts. */
export const DECODE: Readonly<Record<Exclude<ColumnType, 'geometry'>, Decode>> = {
  string: (cell) => `CASE WHEN starts_with(${cell}, '"') THEN ${unquoted(cell)} ELSE ${REFUSED} END`,
  // What DuckDB takes for an integer, a blank before it or a fraction that it rounds, is seen by writing it again.
  integer: (cell) => `CASE WHEN TRY_CAST(${cell} AS BIGINT)::VARCHAR = ${cell} THEN ${cell}::BIGINT
    WHEN regexp_full_match(${cell}, '${DECIMAL_TEXT}') THEN ${unquoted(cell)}::BIGINT
    WHEN regexp_full_match(${cell}, '${WHOLE_FRACTION}') THEN ${cell}::BIGINT ELSE ${REFUSED} END`,
  number: (cell) =>
    `CASE WHEN isfinite(TRY_CAST(${cell} AS DOUBLE)) THEN ${cell}::DOUBLE ELSE ${REFUSED} END`,
  boolean: (cell) => `CASE ${cell} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE ELSE ${REFUSED} END`,
  date: (cell) =>
    `CASE WHEN regexp_full_match(${cell}, '${DATE}') THEN ${unquoted(cell)}::DATE ELSE ${REFUSED} END`,
  timestamp: (
    cell,
  ) => `CASE WHEN regexp_full_match(${cell}, '${TIMESTAMP}') THEN upper(${unquoted(cell)})::TIMESTAMPTZ
    ELSE ${REFUSED} END`,
  json: (cell) => `${cell}::JSON`,
};

/** What a value of the type is called in `which is no …`. */
export const TYPE_WORDS: Readonly<Record<ColumnType, string>> = {
  string: 'string',
  integer: 'integer of 64 bits',
  number: 'number that a double can hold',
  boolean: 'boolean',
  date: 'date of the form YYYY-MM-DD',
  timestamp: 'timestamp with an offset and no more than microseconds',
  geometry: 'geometry that can be read',
  json: 'JSON',
};

function unquoted(cell: string): string {
  return `(${cell}->>'$')`;
}
