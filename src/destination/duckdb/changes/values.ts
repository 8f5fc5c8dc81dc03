/**
 * Values of change rows: each column type as SQL that makes the value from its JSON text. A value that would have to
 * be bent raises an error; a null stays one. Pure.
 */

import type { ColumnType } from '../../../model/column.ts';
import { isJson } from '../json-text.ts';

/** SQL for the value, from SQL for its JSON text that is not null, and what it is to be where that is refused. */
type Decode = (cell: string, refused: string) => string;

/** What is refused ends the statement. `TRY` takes no such thing: where it asks, a null is the answer. */
export const REFUSED = "error('not of its type')";

/** A decimal text, or what DuckDB had to read as a fraction (`1.0`, `1e3`); rounded.ts sees to it that it is none. */
const OTHER_INTEGER = '"-?[0-9]+"|-?[0-9]+\\.0';
const DATE = '"[0-9]{4}-[0-9]{2}-[0-9]{2}"';
const HOUR_AND_MINUTE = '(?:[01][0-9]|2[0-3]):[0-5][0-9]';
/** RFC 3339 with an offset. Digits below the microsecond are zeros. */
const TIMESTAMP =
  `"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]${HOUR_AND_MINUTE}:[0-5][0-9]` +
  `(?:\\.[0-9]{1,6}0*)?(?:[Zz]|[-+]${HOUR_AND_MINUTE})"`;

/** Geometries take more than one step, and are decoded by geometry.ts. */
export const DECODE: Readonly<Record<Exclude<ColumnType, 'geometry'>, Decode>> = {
  string: (cell, refused) => `CASE WHEN starts_with(${cell}, '"') THEN ${unquoted(cell)} ELSE ${refused} END`,
  // What DuckDB takes for an integer, a blank before it or a fraction that it rounds, is seen by writing it again.
  integer: (cell, refused) => `CASE WHEN TRY_CAST(${cell} AS BIGINT)::VARCHAR = ${cell} THEN ${cell}::BIGINT
    WHEN regexp_full_match(${cell}, '${OTHER_INTEGER}') THEN ${unquoted(cell)}::BIGINT ELSE ${refused} END`,
  number: (cell, refused) =>
    `CASE WHEN isfinite(TRY_CAST(${cell} AS DOUBLE)) THEN ${cell}::DOUBLE ELSE ${refused} END`,
  boolean: (cell, refused) =>
    `CASE ${cell} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE ELSE ${refused} END`,
  date: (cell, refused) =>
    `CASE WHEN regexp_full_match(${cell}, '${DATE}') THEN ${unquoted(cell)}::DATE ELSE ${refused} END`,
  timestamp: (
    cell,
    refused,
  ) => `CASE WHEN regexp_full_match(${cell}, '${TIMESTAMP}') THEN upper(${unquoted(cell)})::TIMESTAMPTZ
    ELSE ${refused} END`,
  json: (cell, refused) => `CASE WHEN ${isJson(cell)} THEN ${cell}::JSON ELSE ${refused} END`,
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
