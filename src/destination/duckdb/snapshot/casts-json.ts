/** The physical forms of a JSON value: text that is JSON, which a file may say of it or not, and what is nested. */

import { isJson } from '../json-text.ts';
import { DECIMAL, from, guarded, LARGE_INTEGERS, type Rule, SMALL_INTEGERS } from './cast.ts';

const MUST = 'be JSON, which has no NaN, no Infinity and no comma behind the last item';

const fromText = from(
  ['VARCHAR'],
  guarded((value) => `${value}::JSON`, isJson, MUST),
);

/** A file's word that its text is JSON is not proof. */
const fromJson = from(
  ['JSON'],
  guarded(
    (value) => value,
    (value) => isJson(`${value}::VARCHAR`),
    MUST,
  ),
);

/** What stands inside structs, lists and maps, and is in JSON as it is. */
const LEAVES: ReadonlySet<string> = new Set([
  ...['VARCHAR', 'UUID', 'BOOLEAN', 'DATE', 'FLOAT', 'DOUBLE', 'BIGINT'],
  ...SMALL_INTEGERS,
  ...LARGE_INTEGERS,
]);

const fromNested: Rule = ({ type, leaves }) => {
  const isNested = type.endsWith(']') || /^(?:STRUCT|MAP)\(/.test(type);
  if (!isNested || !leaves.every((leaf) => LEAVES.has(leaf) || DECIMAL.test(leaf))) return null;
  return guarded(
    (value) => `to_json(${value})`,
    (value) => isJson(`to_json(${value})::VARCHAR`),
    MUST,
  );
};

export const JSON_RULES: readonly Rule[] = [fromText, fromJson, fromNested];
