/**
 * Proves that text is JSON. The JSON reader of DuckDB asks for less: it takes numbers that are none, and commas behind the
 * last item. Pure.
 */

import { text } from './engine/quoting.ts';

const TEXT = '"(?:[^"\\\\]|\\\\.)*"';
/** Where a value begins, NaN and Infinity in all their spellings; a comma before the end of a list or an object. */
const NO_JSON = '(?i)(?:^|[,:\\[])\\s*-?(?:nan|inf)|,\\s*[\\]}]';

/** SQL that is true where the text is JSON. Few values need the second look, without what stands in quotes. */
export function isJson(value: string): string {
  return `CASE WHEN NOT json_valid(${value}) THEN FALSE WHEN NOT regexp_matches(${value}, ${text(NO_JSON)}) THEN TRUE
    ELSE NOT regexp_matches(regexp_replace(${value}, ${text(TEXT)}, '0', 'g'), ${text(NO_JSON)}) END`;
}
