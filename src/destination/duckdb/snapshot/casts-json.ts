/** The physical forms of a JSON value: text that is JSON, which a file may say of it or not, and what is nested. */

import { canonicalJson, isJson, isJsonNull, isPlainJson } from '../json-text.ts';
import { type Cast, DECIMAL, from, guarded, LARGE_INTEGERS, type Rule, SMALL_INTEGERS } from './cast.ts';

const MUST = 'be JSON, which has no NaN, no Infinity and no comma behind the last item';

/** `written` is SQL for the JSON text of a value. */
function fromWritten(written: (value: string) => string): Cast {
  const of = (sql: (text: string) => string) => (value: string) => sql(written(value));
  return {
    ...guarded(of(canonicalJson), of(isJson), MUST),
    usual: { is: of(isPlainJson), convert: of((text) => `json(${text})`) },
    vanishes: of(isJsonNull),
  };
}

/** A file's word that its text is JSON is not proof. */
const fromText = from(
  ['VARCHAR', 'JSON'],
  fromWritten((value) => `${value}::VARCHAR`),
);

/** What stands inside structs, lists and maps, and is in JSON as it is. */
const LEAVES: ReadonlySet<string> = new Set([
  ...['VARCHAR', 'UUID', 'BOOLEAN', 'DATE', 'FLOAT', 'DOUBLE', 'BIGINT'],
  ...SMALL_INTEGERS,
  ...LARGE_INTEGERS,
]);

const NESTED = fromWritten((value) => `to_json(${value})::VARCHAR`);

const fromNested: Rule = ({ type, leaves }) => {
  const isNested = type.endsWith(']') || /^(?:STRUCT|MAP)\(/.test(type);
  return isNested && leaves.every((leaf) => LEAVES.has(leaf) || DECIMAL.test(leaf)) ? NESTED : null;
};

export const JSON_RULES: readonly Rule[] = [fromText, fromNested];
