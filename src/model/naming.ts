/**
 * The names of tables and columns in the mirror. A table gets its name once, in order of arrival, and keeps it. Every name can
 * be written unquoted in SQL unless it is a reserved word.
 */

import { createHash } from 'node:crypto';

/** The longest name of a table, in bytes. PostgreSQL has the same limit, so names can be used there unchanged. */
export const MAX_TABLE_NAME_BYTES = 63;

const DIGEST_DIGITS = 8;

/** Replaces a name without any character. */
const NAMELESS = '_';

/**
 * Returns the name of a dataset's table: lower case, with `_` for everything but `[a-z0-9_]`, with `_` before a leading digit,
 * cut to 63 bytes. A taken name gets `_` and 8 hex digits of the id's sha256 at its end, within 63 bytes.
 *
 * `taken` contains lower-case names. When the longer name is taken as well, more digits are used.
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
 * Returns the names of a table's columns, in the given order. Each column keeps the service's name, except that a name which
 * differs from an earlier one only in case gets `_2`, `_3`, … Numbered names avoid the service's own names.
 *
 * `kept` maps the service's names to existing column names, which stay; the others avoid them.
 */
export function columnNames(
  names: readonly string[],
  kept: ReadonlyMap<string, string> = new Map(),
): readonly string[] {
  const requested = names.map((name) => (name === '' ? NAMELESS : name));
  const reserved = new Set(requested.map(caseFolded));
  const given = new Set([...kept.values()].map(caseFolded));
  return names.map((name, index) => {
    const keptName = kept.get(name);
    if (keptName !== undefined) return keptName;
    const plain = requested[index] ?? name;
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
 * Maps names that are equal to the database to the same text. The database folds the letters A to Z. Folding more only costs an
 * unneeded number; folding less would cause collisions.
 */
function caseFolded(name: string): string {
  return name.toLowerCase();
}
