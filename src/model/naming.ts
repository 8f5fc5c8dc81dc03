/**
 * The names of tables, schemas and columns in the mirror. A table gets its name once, in order of arrival, and keeps it. Every name
 * can be written unquoted in SQL unless it is a reserved word.
 */

import { createHash } from 'node:crypto';
import { wildcardTexts } from './glob.ts';

/** The longest name of a table, in bytes. PostgreSQL has the same limit, so names can be used there unchanged. */
export const MAX_TABLE_NAME_BYTES = 63;

/** The longest name of a schema that a rule gives, in bytes: suffixes fit behind it into a name of PostgreSQL. */
export const MAX_SCHEMA_NAME_BYTES = 50;

const DIGEST_DIGITS = 8;

/** Replaces a name without any character. */
const NAMELESS = '_';

/**
 * Returns the name of a dataset's table: lower case, with `_` for everything but `[a-z0-9_]`, with `_` before a leading digit,
 * cut to `maxBytes`. A taken name gets `_` and 8 hex digits of the id's sha256 at its end, within as many.
 *
 * `taken` contains lower-case names. When the longer name is taken as well, more digits are used.
 */
export function tableNameFor(
  datasetId: string,
  taken: ReadonlySet<string>,
  maxBytes = MAX_TABLE_NAME_BYTES,
): string {
  const plain = plainTableName(datasetId).slice(0, maxBytes);
  if (!taken.has(plain)) return plain;
  const digest = createHash('sha256').update(datasetId).digest('hex');
  for (let digits = DIGEST_DIGITS; digits < digest.length; digits += 1) {
    const ending = `_${digest.slice(0, digits)}`;
    const name = plain.slice(0, maxBytes - ending.length) + ending;
    if (!taken.has(name)) return name;
  }
  throw new RangeError(`No free table name for the dataset ${datasetId}`);
}

function plainTableName(datasetId: string): string {
  return safeName(datasetId, MAX_TABLE_NAME_BYTES);
}

function safeName(text: string, maxBytes: number): string {
  const safe = text.toLowerCase().replaceAll(/[^a-z0-9_]/gu, '_');
  const name = /^[0-9]/.test(safe) ? `_${safe}` : safe;
  return name === '' ? NAMELESS : name.slice(0, maxBytes);
}

/** A rule of `destination.schemas`: the tables of the datasets that match the pattern are in the schema. */
export interface SchemaRule {
  /** A pattern of dataset ids; `*` stands for any text. */
  readonly datasets: string;
  /** The name of the schema; `{1}` stands for the text that the first `*` matched, `{2}` for that of the second. */
  readonly schema: string;
}

/** A place in the name of a rule's schema. */
const PLACE = /\{([1-9][0-9]?)\}/g;

/** Returns the numbers of the wildcards that the name of a rule's schema contains. */
export function placesIn(schema: string): readonly number[] {
  return [...schema.matchAll(PLACE)].map(([, digits]) => Number(digits));
}

/** Returns the name of a rule's schema without its places. */
export function withoutPlaces(schema: string): string {
  return schema.replaceAll(PLACE, '');
}

/** The schemas that feed-sync, the database or Citus uses for other tables. */
const RESERVED_SCHEMAS: ReadonlySet<string> = new Set([
  'archived',
  'citus',
  'citus_internal',
  'columnar',
  'columnar_internal',
  'feed_sync',
  'history',
  'information_schema',
  'public',
]);

/** Returns whether no rule may give a schema this name. PostgreSQL keeps every name that begins with `pg_` for itself. */
export function isReservedSchema(name: string): boolean {
  return name.startsWith('pg_') || RESERVED_SCHEMAS.has(name);
}

/**
 * Returns the name of the schema of a dataset's table by the first rule that matches, else `otherwise`. A name is made safe as the
 * name of a table is, and cut to 50 bytes; a reserved one gets `_` before it. Several datasets may share a schema.
 */
export function schemaNameFor(datasetId: string, rules: readonly SchemaRule[], otherwise: string): string {
  for (const { datasets, schema } of rules) {
    const texts = wildcardTexts(datasets, datasetId);
    if (texts === null) continue;
    const filled = schema.replaceAll(PLACE, (_place, digits) => texts[Number(digits) - 1] ?? '');
    const name = safeName(filled, MAX_SCHEMA_NAME_BYTES);
    return isReservedSchema(name) ? safeName(`_${name}`, MAX_SCHEMA_NAME_BYTES) : name;
  }
  return otherwise;
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
