/** PostgreSQL as a destination in a database of its own, and contents of either destination as exact texts, by no code of ours. */

import { randomUUID } from 'node:crypto';
import process from 'node:process';
import { onTestFinished } from 'vitest';
import { statement } from '../../fixtures/postgres-server.ts';
import type { Destination } from '../../src/destination/destination.ts';
import type { PostgresOptions } from '../../src/destination/postgres/destination.ts';
import { openPostgres } from '../../src/destination/postgres/open.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import type { CommitSource, ExportSource } from '../../src/destination/publication.ts';
import type { DestinationReader } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { runProgram } from '../../src/lib/run-program.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { ObservedColumn, ObservedTable } from '../../src/model/write-jobs.ts';
import { inMirror, temporaryFolder } from './duckdb-mirror.ts';
import { type DestinationAtWork, destinationAtWork } from './mirror-at-work.ts';

export async function openDatabase(
  address: string,
  dataDirectory: string,
  options: Partial<PostgresOptions> = {},
): Promise<Destination & CommitSource & ExportSource> {
  return await openPostgres({
    url: new Secret(address),
    dataDirectory,
    memoryLimitBytes: 1_000_000_000,
    threads: 2,
    reserveBytes: 0,
    lockWaitMs: 20_000,
    leaseMs: 30_000,
    readers: [],
    indexes: 'all',
    token: randomUUID(),
    holder: 'a test',
    runProgram,
    programPath: process.env['PATH'] ?? '',
    clock: systemClock,
    log: silentLog,
    ...options,
  });
}

export interface DatabaseAtWork extends DestinationAtWork {
  readonly address: string;
  readonly folder: string;
  readonly database: Destination & CommitSource & ExportSource;
  /** Runs a statement as a reader or an operator would. */
  byHand(sql: string): ReturnType<typeof statement>;
}

/** Is closed and removed when the test has finished. */
export async function databaseAtWork(
  address: string,
  options: Partial<PostgresOptions> = {},
): Promise<DatabaseAtWork> {
  const folder = await temporaryFolder();
  const destination = await openDatabase(address, folder.path, options);
  onTestFinished(async () => {
    await destination.close();
    await folder[Symbol.asyncDispose]();
  });
  const byHand = (sql: string) => statement(address, sql);
  const world = await destinationAtWork(folder.path, destination);
  return { ...world, address, folder: folder.path, database: destination, byHand };
}

/** Opens the catalog and the tables to be read; closed when the test has finished. */
export async function openReaderOf(address: string): Promise<DestinationReader> {
  const reader = present(
    await openPostgresReader({ url: new Secret(address), clock: systemClock }),
    'the catalog is there',
  );
  onTestFinished(() => reader.close());
  return reader;
}

type Texts = readonly (readonly (string | null)[])[];

/** The rows of a table of DuckDB, sorted. */
export async function textsInDuckDb(folder: string, { tableName, columns }: ObservedTable): Promise<Texts> {
  const cells = columns.map(({ columnName, type }) => {
    const name = quoted(columnName);
    if (type === 'geometry') return `hex(ST_AsWKB(${name}))`;
    if (type === 'timestamp') return `epoch_us(${name})::VARCHAR`;
    // The client would cut a byte order mark.
    if (type === 'string') return `hex(encode(${name}))`;
    return `${name}::VARCHAR`;
  });
  const rows = await inMirror(folder, `SELECT ${cells.join(', ')} FROM ${quoted(tableName)}`);
  return alike(rows as Texts, columns);
}

/** The rows of a table of PostgreSQL, sorted. */
export async function textsInPostgres(
  address: string,
  { tableName, columns }: ObservedTable,
): Promise<Texts> {
  const cells = columns.map(({ columnName, type }) => {
    const name = quoted(columnName);
    if (type === 'geometry') return `upper(encode(${name}, 'hex'))`;
    if (type === 'timestamp') return `(extract(epoch FROM ${name}) * 1000000)::bigint::text`;
    if (type === 'string') return `encode(convert_to(${name}, 'UTF8'), 'hex')`;
    return `${name}::text`;
  });
  return alike(
    await statement(address, `SET TimeZone = 'UTC'; SELECT 1`).then(() =>
      statement(address, `SELECT ${cells.join(', ')} FROM feeds.${quoted(tableName)}`),
    ),
    columns,
  );
}

/** The order of rows, of members of a JSON object, and the way to write a number, are no part of the content. */
function alike(rows: Texts, columns: readonly ObservedColumn[]): Texts {
  const cell = (value: string | null, type: ObservedColumn['type'] | undefined): string | null => {
    if (value === null) return null;
    if (type === 'json') return JSON.stringify(withSortedMembers(JSON.parse(value)));
    if (type === 'number') return numberText(value);
    if (type === 'string') return Buffer.from(value, 'hex').toString();
    return value;
  };
  const written = rows.map((row) => row.map((value, index) => cell(value, columns[index]?.type)));
  return written.toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
}

function numberText(value: string): string {
  const named = new Map([
    ['inf', 'Infinity'],
    ['-inf', '-Infinity'],
    ['nan', 'NaN'],
  ]);
  // DuckDB keeps a zero where changes bring the other one: they are equal.
  return String(Number(named.get(value) ?? value) + 0);
}

/** The same value with the members of its objects in the order of their names. */
export function withSortedMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSortedMembers);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, part]) => [name, withSortedMembers(part)] as const);
  return Object.fromEntries(entries.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
