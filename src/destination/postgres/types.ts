/** The types of the columns in PostgreSQL, and how their values are compared and hashed. Pure. */

import type { ColumnType } from '../../model/records.ts';
import { identifier } from '../../staging/engine/sql.ts';

/** The extension PostGIS of the database; null where it is not there. */
export interface Postgis {
  /** The schema of its types and functions. */
  readonly schema: string;
}

/** As `format_type` names them where only `pg_catalog` is searched. */
const TYPE_NAMES: Readonly<Record<Exclude<ColumnType, 'geometry'>, string>> = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  date: 'date',
  timestamp: 'timestamp with time zone',
  json: 'jsonb',
};

/** Bytes hold a geometry as WKB where PostGIS is missing. */
const WITHOUT_POSTGIS = 'bytea';

/** Returns the type as SQL. */
export function typeName(type: ColumnType, postgis: Postgis | null): string {
  if (type !== 'geometry') return TYPE_NAMES[type];
  return postgis === null ? WITHOUT_POSTGIS : `${identifier(postgis.schema)}.geometry`;
}

/** Returns the type as the server names it in its catalog, with a schema only where it is not a built-in one. */
export function shownTypeName(type: ColumnType, postgis: Postgis | null): string {
  return type === 'geometry' && postgis !== null ? 'geometry' : typeName(type, postgis);
}

/** Returns the schemas in which a transaction looks for operators: those of the server, and those of PostGIS. */
export function searchPath(postgis: Postgis | null): string {
  return postgis === null ? 'pg_catalog' : `pg_catalog, ${identifier(postgis.schema)}`;
}

/** Returns the condition that two values differ: as texts where equal values may be written differently. */
export function differs(left: string, right: string, type: ColumnType): string {
  if (type === 'json') return `${left}::text IS DISTINCT FROM ${right}::text`;
  // Somebody may have given the column a collation by which texts are equal that are not the same.
  if (type === 'string') return `${left} IS DISTINCT FROM ${right} COLLATE "C"`;
  // Zero equals minus zero.
  if (type === 'number') return `float8send(${left}) IS DISTINCT FROM float8send(${right})`;
  return `${left} IS DISTINCT FROM ${right}`;
}

/** Raised when the way of hashing a row below changes. */
const METHOD = 1;

/** Returns the hash of a row as SQL. `columns` are the SQL values and their types, in the order of the catalog. */
export function rowHash(columns: readonly (readonly [value: string, type: ColumnType])[]): string {
  const values = columns.map(([value, type]) => hashedValue(value, type));
  return `hash_record_extended(ROW(${values.join(', ')}), 0)::numeric`;
}

/** Types without a hash of their own, and those whose equal values may be written differently, are hashed as texts. */
function hashedValue(value: string, type: ColumnType): string {
  if (type === 'json') return `${value}::text`;
  // Somebody may have given the column a collation by which other texts have the same hash.
  if (type === 'string') return `${value} COLLATE "C"`;
  return type === 'geometry' ? `${value}::bytea::text` : value;
}

export function sumOfHashes(hash: string): string {
  return `coalesce(sum(${hash}), 0)`;
}

/** Another server may hash otherwise, or write geometries otherwise: a checksum of another version is not compared. */
export const CHECKSUM_VERSION = `('postgres-${METHOD}-' || ${rowHash([
  ["'feed-sync'::text", 'string'],
  ['42::bigint', 'integer'],
  ['0.1::double precision', 'number'],
  ['true', 'boolean'],
  ["date '2000-01-02'", 'date'],
  ["timestamptz '2000-01-02 03:04:05+00'", 'timestamp'],
  [`'{"a":1}'::jsonb`, 'json'],
])}::text)`;
