/**
 * JSON texts in SQL: decides whether a text is JSON, and computes its canonical text. DuckDB's JSON reader is laxer than JSON: it
 * accepts numbers such as NaN, and a comma behind the last item. Pure.
 *
 * Invariant: a value has the same text whether it came in a file or in a change. DuckDB's reader parses changes and writes what
 * `json()` writes, so that is the canonical text. `json()` rounds a number that no double holds. Changes with such a number are
 * not applied (`changes/numbers.ts`); a file's value keeps its digits.
 */

import { text } from './engine/sql.ts';

const STRING = '"(?:[^"\\\\]|\\\\.)*"';
/** The beginning of a value, NaN and Infinity in all spellings; a comma before the end of a list or an object. */
const NO_JSON = '(?i)(?:^|[,:\\[])\\s*-?(?:nan|inf)|,\\s*[\\]}]';
const NULL = '\\s*null\\s*';

/**
 * A double holds every number exactly, except for one with a fraction or an exponent and 16 digits, or with an exponent below
 * -99.
 */
const MAY_BE_ROUNDED = '\\.[0-9]{9}|[0-9]{8}[.eE]|[eE]-[0-9]{3}';
/** The most digits of a number that is compared with its double; JavaScript writes no more. */
export const MAX_DIGITS = 100;

/** Returns SQL that is true when the text is JSON. Few values need the second test, which ignores quoted text. */
export function isJson(value: string): string {
  return `CASE WHEN NOT json_valid(${value}) THEN FALSE WHEN NOT regexp_matches(${value}, ${text(NO_JSON)}) THEN TRUE
    ELSE NOT regexp_matches(regexp_replace(${value}, ${text(STRING)}, '0', 'g'), ${text(NO_JSON)}) END`;
}

/** Returns SQL that is true for most texts: those that `json()` either makes canonical or rightly refuses. */
export function isPlainJson(value: string): string {
  return `NOT regexp_matches(${value}, ${text(`${NO_JSON}|^${NULL}$|${MAY_BE_ROUNDED}`)})`;
}

/** Returns SQL that is true for the JSON value null, which is stored as the absence of a value. */
export function isJsonNull(value: string): string {
  return `regexp_full_match(${value}, ${text(NULL)})`;
}

/** Returns SQL for the canonical JSON text of a JSON text; null for the JSON value null. */
export function canonicalJson(value: string): string {
  return `CASE WHEN ${isJsonNull(value)} THEN NULL
    WHEN ${withoutBlanks(`json(${value})::VARCHAR`)} = ${withoutBlanks(value)} THEN json(${value})
    WHEN len(list_filter(${tokens(value)}, lambda token : ${isRounded('token')})) = 0 THEN json(${value})
    ELSE list_aggregate(list_transform(${tokens(value)}, lambda token : ${canonicalToken('token')}), 'string_agg', '')::JSON END`;
}

/** When two texts are equal without blanks, they write each number in the same way. */
function withoutBlanks(value: string): string {
  return `replace(replace(${value}, ' ', ''), chr(10), '')`;
}

/** Returns the texts, the numbers, and everything between them without white space. */
function tokens(value: string): string {
  return `regexp_extract_all(${value}, ${text(`${STRING}|-?[0-9][-+.0-9eE]*|[^"\\s0-9-]+`)})`;
}

function canonicalToken(token: string): string {
  return `CASE WHEN NOT regexp_matches(${token}, '^["0-9-]') OR ${isRounded(token)} THEN ${token} ELSE json(${token})::VARCHAR END`;
}

/** True when the token is a number that a double does not hold to its last digit; numbers.ts has the same rule for changes. */
function isRounded(token: string): string {
  const double = `TRY_CAST(${token} AS DOUBLE)`;
  const digits = digitsOf(token);
  const read = digitsOf(`format('{:.{}e}', ${double}, least(len(${digits}), ${MAX_DIGITS})::INTEGER - 1)`);
  const shortest = digitsOf(`json(${token})::VARCHAR`);
  return `CASE WHEN NOT regexp_matches(${token}, '^-?[0-9].*[.eE]') OR NOT isfinite(${double}) THEN FALSE
    WHEN ${digits} = '' OR ${digits} = ${shortest} THEN FALSE
    ELSE len(${digits}) > ${MAX_DIGITS} OR ${read} <> ${digits} END`;
}

/** Returns the digits of a decimal number without its exponent and without leading and trailing zeros. */
function digitsOf(decimal: string): string {
  return `trim(regexp_replace(regexp_replace(${decimal}, '[eE].*$', ''), '[-.]', '', 'g'), '0')`;
}
