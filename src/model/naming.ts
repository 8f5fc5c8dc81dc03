/**
 * The names of tables and columns in the mirror. A table's name is given once, in the order of arrival, and never
 * changes; every name is safe to be written unquoted in SQL as long as it is no reserved word.
 */

import { createHash } from 'node:crypto';

/** The longest name of a table, in bytes; as in PostgreSQL, so that names stay the same there. */
export const MAX_TABLE_NAME_BYTES = 63;

const DIGEST_DIGITS = 8;

/** What stands for a name without any character. */
const NAMELESS = '_';

/**
 * The name of a dataset's table: lower case, everything but `[a-z0-9_]` becomes `_`, a leading digit gets `_`, cut to
 * 63 bytes. Where that name is taken, `_` and 8 hex digits of the id's sha256 are put at its end, within 63 bytes.
 *
 * `taken` holds lower-case names. More digits are used in the case that even the longer name is taken.
 */
export function tableNameFor(datasetId: string, taken: ReadonlySet<string>): string {
  const plain = plainTableName(datasetId);
  if (!taken.has(plain)) return plain;
  const digest = createHash('sha256').update(datasetId).digest('hex');
  for (let digits = DIGEST_DIGITS; digits < digest.length; digits += 1) {
    const ending = `_${digest.slice(0, digits)}`;
    const name = plain.slice(0, MAX_TABLE_NAME_BYTES - ending.length) + ending;
    if (!taken.has(name)) return name;
  }
  throw new RangeError(`No free table name for the dataset ${datasetId}`);
}

function plainTableName(datasetId: string): string {
  const safe = datasetId.toLowerCase().replaceAll(/[^a-z0-9_]/gu, '_');
  const name = /^[0-9]/.test(safe) ? `_${safe}` : safe;
  return name === '' ? NAMELESS : name.slice(0, MAX_TABLE_NAME_BYTES);
}

/**
 * The names of a table's columns, in the order given: each as the service names it, except that a name equal to an
 * earlier one but for case gets `_2`, `_3`, … The numbered names never take one that the service uses itself.
 *
 * `kept` are the names that a table has already, by those of the service. They stay, and the others go around them.
 */
export function columnNames(
  names: readonly string[],
  kept: ReadonlyMap<string, string> = new Map(),
): readonly string[] {
  const wanted = names.map((name) => (name === '' ? NAMELESS : name));
  const reserved = new Set(wanted.map(caseFolded));
  const given = new Set([...kept.values()].map(caseFolded));
  return names.map((name, index) => {
    const keptName = kept.get(name);
    if (keptName !== undefined) return keptName;
    const plain = wanted[index] ?? name;
    const unique = given.has(caseFolded(plain)) ? numbered(plain, reserved, given) : plain;
    given.add(caseFolded(unique));
    return unique;
  });
}

function numbered(name: string, reserved: ReadonlySet<string>, given: ReadonlySet<string>): string {
  for (let number = 2; ; number += 1) {
    const candidate = `${name}_${number}`;
    if (!reserved.has(caseFolded(candidate)) && !given.has(caseFolded(candidate))) return candidate;
  }
}

/**
 * What makes two names equal to the database. It coalesces the letters A to Z; folding more than it does costs only an
 * unneeded number, folding less would collide.
 */
function caseFolded(name: string): string {
  return name.toLowerCase();
}
