/**
 * JSON texts in SQL: whether a text is JSON, and the one text that the mirror holds of a value. DuckDB's JSON reader asks for less than
 * JSON does: it takes numbers that are none, and commas behind the last item. Pure.
 *
 * Invariant: a value has the same text whether it came in a file or in a change. A change is taken apart by DuckDB's reader, which
 * writes what `json()` writes, so that is the canonical text. It rounds a number that no double holds: changes with such a number are
 * not applied (`changes/rounded.ts`), and a file's keeps its digits.
 */

import { text } from './engine/sql.ts';

const STRING = '"(?:[^"\\\\]|\\\\.)*"';
/** Where a value begins, NaN and Infinity in all their spellings; a comma before the end of a list or an object. */
const NO_JSON = '(?i)(?:^|[,:\\[])\\s*-?(?:nan|inf)|,\\s*[\\]}]';
const NULL = '\\s*null\\s*';

/** A number comes out of a double as it went in, unless it has a fraction or an exponent and 16 digits, or an exponent below -99. */
const MAY_BE_ROUNDED = '\\.[0-9]{9}|[0-9]{8}[.eE]|[eE]-[0-9]{3}';
/** The most digits of a number that is compared with the double that was read of it; JavaScript writes no more. */
export const MAX_DIGITS = 100;

/** SQL that is true where the text is JSON. Few values need the second look, without what stands in quotes. */
export function isJson(value: string): string {
  return `CASE WHEN NOT json_valid(${value}) THEN FALSE WHEN NOT regexp_matches(${value}, ${text(NO_JSON)}) THEN TRUE
    ELSE NOT regexp_matches(regexp_replace(${value}, ${text(STRING)}, '0', 'g'), ${text(NO_JSON)}) END`;
}

/** SQL that is true of most texts: those that `json()` makes canonical, or refuses, as they need it. */
export function isPlainJson(value: string): string {
  return `NOT regexp_matches(${value}, ${text(`${NO_JSON}|^${NULL}$|${MAY_BE_ROUNDED}`)})`;
}

/** SQL that is true where the text is that of the JSON value null, which is kept as the absence of a value. */
export function isJsonNull(value: string): string {
  return `regexp_full_match(${value}, ${text(NULL)})`;
}

/** SQL for the canonical text, as JSON, of a text that is JSON; null for the JSON value null. */
export function canonicalJson(value: string): string {
  return `CASE WHEN ${isJsonNull(value)} THEN NULL
    WHEN ${withoutBlanks(`json(${value})::VARCHAR`)} = ${withoutBlanks(value)} THEN json(${value})
    WHEN len(list_filter(${tokens(value)}, lambda token : ${isRounded('token')})) = 0 THEN json(${value})
    ELSE list_aggregate(list_transform(${tokens(value)}, lambda token : ${canonicalToken('token')}), 'string_agg', '')::JSON END`;
}

/** Where two texts are the same without these, each number is written the same in both. */
function withoutBlanks(value: string): string {
  return `replace(replace(${value}, ' ', ''), chr(10), '')`;
}

/** The texts, the numbers, and what stands between them without its white space. */
function tokens(value: string): string {
  return `regexp_extract_all(${value}, ${text(`${STRING}|-?[0-9][-+.0-9eE]*|[^"\\s0-9-]+`)})`;
}

function canonicalToken(token: string): string {
  return `CASE WHEN NOT regexp_matches(${token}, '^["0-9-]') OR ${isRounded(token)} THEN ${token} ELSE json(${token})::VARCHAR END`;
}

/** Whether the token is a number that a double does not hold to its last digit: rounded.ts says the same of numbers in changes. */
function isRounded(token: string): string {
  const double = `TRY_CAST(${token} AS DOUBLE)`;
  const digits = digitsOf(token);
  const read = digitsOf(`format('{:.{}e}', ${double}, least(len(${digits}), ${MAX_DIGITS})::INTEGER - 1)`);
  const shortest = digitsOf(`json(${token})::VARCHAR`);
  return `CASE WHEN NOT regexp_matches(${token}, '^-?[0-9].*[.eE]') OR NOT isfinite(${double}) THEN FALSE
    WHEN ${digits} = '' OR ${digits} = ${shortest} THEN FALSE
    ELSE len(${digits}) > ${MAX_DIGITS} OR ${read} <> ${digits} END`;
}

/** The digits of a decimal number without its exponent, and without the zeros before and after them. */
function digitsOf(decimal: string): string {
  return `trim(regexp_replace(regexp_replace(${decimal}, '[eE].*$', ''), '[-.]', '', 'g'), '0')`;
}
