/**
 * Renders rows as SQL of DuckDB in the binary format of COPY: a row is the number of its values, and each value its length and its bytes,
 * numbers with the highest byte first. The server takes it in 0.4 of the time of CSV, where it reads every value from a text. Pure.
 */

import type { ColumnType } from '../../model/records.ts';

/** A column of the rows that DuckDB selects, in order. */
export interface CopiedColumn {
  /** The SQL value in DuckDB. */
  readonly value: string;
  readonly type: ColumnType | 'flag';
  /** The number of the coordinate system, for a geometry. */
  readonly srid: number;
}

/** Precedes the rows: the signature, no flags, and no more of a header. */
export const HEADER: Buffer = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Follows the rows, in the place of the number of values. */
export const TRAILER: Buffer = Buffer.from([0xff, 0xff]);

/** Returns the row as a BLOB. `hasPostgis`: geometries are those of PostGIS; else they are bytes (WKB). */
export function binaryRow(columns: readonly CopiedColumn[], hasPostgis: boolean): string {
  const count = Buffer.alloc(2);
  count.writeInt16BE(columns.length);
  return joined([blob(count), ...columns.map((column) => field(column, hasPostgis))]);
}

/** The length that stands for NULL. */
const NULL = blob([0xff, 0xff, 0xff, 0xff]);

function field(column: CopiedColumn, hasPostgis: boolean): string {
  return `coalesce(${present(column, hasPostgis)}, ${NULL})`;
}

/** NULL where the value is. */
function present({ value, type, srid }: CopiedColumn, hasPostgis: boolean): string {
  switch (type) {
    case 'string':
      return `${length(`strlen(${value})`)} || encode(${value})`;
    case 'json':
      return `${length(`strlen(${value}) + 1`)} || ${JSON_VERSION} || encode(${value}::VARCHAR)`;
    case 'integer':
    case 'number':
      return `${EIGHT} || ${bytes(value)}`;
    case 'boolean':
    case 'flag':
      return `CASE ${value} WHEN TRUE THEN ${blob([0, 0, 0, 1, 1])} WHEN FALSE THEN ${blob([0, 0, 0, 1, 0])} END`;
    case 'date':
      return `${FOUR} || ${date(value)}`;
    case 'timestamp':
      return `${EIGHT} || ${timestamp(value)}`;
    case 'geometry':
      return geometry(`ST_AsWKB(${value})`, hasPostgis ? srid : 0);
  }
}

const JSON_VERSION = blob([1]);
const FOUR = blob([0, 0, 0, 4]);
const EIGHT = blob([0, 0, 0, 8]);

/** Returns the bytes of a number, the highest first. */
function bytes(value: string): string {
  return `${value}::BIT::BLOB`;
}

function length(count: string): string {
  return bytes(`(${count})::INTEGER`);
}

/** Days since 2000. The server refuses one below its range, which a date of DuckDB may be. */
function date(value: string): string {
  const days = `greatest(${value} - DATE '2000-01-01', ${-(2 ** 31) + 1})::INTEGER`;
  return orEndless(value, bytes(days), 'DATE', 4);
}

/** Microseconds since 2000. The server refuses one below its range, which a time of DuckDB may be. */
function timestamp(value: string): string {
  const micros = `(greatest(epoch_us(${value}), -9000000000000000000) - 946684800000000)`;
  return orEndless(value, bytes(micros), 'TIMESTAMPTZ', 8);
}

/** The server writes an infinite time as the largest number, or the smallest. */
function orEndless(value: string, finite: string, type: string, size: number): string {
  const rest = Array.from({ length: size - 1 });
  const most = blob([0x7f, ...rest.map(() => 0xff)]);
  const least = blob([0x80, ...rest.map(() => 0)]);
  return `CASE WHEN isfinite(${value}) THEN ${finite} WHEN ${value} = ${type} 'infinity' THEN ${most}
    WHEN ${value} = ${type} '-infinity' THEN ${least} END`;
}

function geometry(wkb: string, srid: number): string {
  if (srid === 0) return `${length(`octet_length(${wkb})`)} || ${wkb}`;
  return `${length(`octet_length(${wkb}) + 4`)} || ${withSrid(wkb, srid)}`;
}

/** WKB says first in which order its bytes come; DuckDB writes the lowest first. The flag is in the highest byte of the type. */
export function withSrid(wkb: string, srid: number): string {
  const number = Buffer.alloc(4);
  number.writeUInt32LE(srid);
  return `${wkb}[1:4] || ${blob([0x20, ...number])} || ${wkb}[6:]`;
}

function blob(content: Iterable<number>): string {
  return `'${Array.from(content, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}'::BLOB`;
}

/** A balanced tree: DuckDB refuses expressions that are nested a thousand deep. */
function joined(parts: readonly string[]): string {
  if (parts.length <= 1) return parts.join('');
  const half = parts.length >> 1;
  return `(${joined(parts.slice(0, half))} || ${joined(parts.slice(half))})`;
}
