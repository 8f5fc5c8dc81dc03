/** A mirror in a temporary folder, snapshots for it, and queries of it by an instance of the test. */

import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance, type Json } from '@duckdb/node-api';
import type { Destination, JobResult } from '../../src/destination/destination.ts';
import { type MirrorOptions, openMirror } from '../../src/destination/duckdb/mirror.ts';
import { type MirrorReader, openReader, type ReaderOptions } from '../../src/destination/duckdb/reader.ts';
import type { PostCommitSource } from '../../src/destination/publication.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { Column, ColumnType } from '../../src/model/records.ts';
import type { SnapshotJob } from '../../src/model/write-jobs.ts';
import { commitAll } from './commit-all.ts';
import { schema } from './sync-values.ts';

/** Jitter as long as it gets, every time. */
export const fullJitter = { next: () => 0.999 };

export interface ManualClock extends Clock {
  readonly slept: readonly number[];
}

/** A clock on which time passes only by sleeping, at once. `onSleep` may change the world meanwhile. */
export function manualClock(onSleep: () => Promise<void> | void = () => {}): ManualClock {
  let elapsedMs = 0;
  const slept: number[] = [];
  return {
    slept,
    now: () => new Date(Date.UTC(2026, 0, 1) + elapsedMs),
    monotonicMs: () => elapsedMs,
    async sleep(durationMs) {
      slept.push(durationMs);
      elapsedMs += durationMs;
      await onSleep();
    },
  };
}

export async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'feed-sync-mirror-')));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export function mirrorIn(
  folder: string,
  options: Partial<MirrorOptions> = {},
): Promise<Destination & PostCommitSource> {
  return openMirror({
    path: join(folder, 'mirror.duckdb'),
    dataDirectory: folder,
    memoryLimitBytes: 1_000_000_000,
    threads: 2,
    lockWaitMs: 0,
    clock: systemClock,
    random: fullJitter,
    log: silentLog,
    ...options,
  });
}

/** Opens the mirror at `path` as the commands that read it do. Null where there is none. */
export function readerOf(path: string, options: Partial<ReaderOptions> = {}): Promise<MirrorReader | null> {
  return openReader({
    path,
    waitMs: 0,
    memoryLimitBytes: 500_000_000,
    threads: 1,
    clock: systemClock,
    random: fullJitter,
    ...options,
  });
}

/** Runs SQL in an instance of its own: to write Parquet files, or to read a mirror that is free. */
export async function duckdb(...statements: readonly string[]): Promise<readonly (readonly Json[])[]> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  try {
    await connection.run("SET TimeZone = 'UTC'; SET enable_geoparquet_conversion = false");
    let rows: Json[][] = [];
    for (const statement of statements) rows = (await connection.runAndReadAll(statement)).getRowsJson();
    return rows;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The rows of a query on the mirror in the folder, which is opened read-only. */
export function inMirror(folder: string, sql: string): Promise<readonly (readonly Json[])[]> {
  return duckdb(`ATTACH '${join(folder, 'mirror.duckdb')}' AS m (READ_ONLY)`, 'USE m', sql);
}

export function column(name: string, type: ColumnType, rest: Partial<Column> = {}): Column {
  return { name, type, nullable: true, description: null, sourceName: null, ...rest };
}

export interface SnapshotSpecification extends Partial<Omit<SnapshotJob, 'schema' | 'files'>> {
  readonly columns: readonly Column[];
  readonly keyColumns?: readonly string[];
  readonly envelopeColumns?: readonly Column[];
  /** Paths of Parquet files. */
  readonly files: readonly string[];
}

export function snapshot(specification: SnapshotSpecification): SnapshotJob {
  const { columns, keyColumns = [], envelopeColumns = [], files, ...rest } = specification;
  const datasetId = rest.datasetId ?? 'parcels';
  return {
    kind: 'snapshot',
    fetched: { bytes: 1, elapsedMs: () => 0 },
    datasetId,
    version: 1,
    publishedAt: null,
    schema: schema(datasetId, { firstVersion: null, columns, keyColumns, envelopeColumns }),
    files: files.map((path) => ({
      path,
      name: path.split('/').at(-1) ?? path,
      bytes: 1_000,
      rowCount: null,
    })),
    digest: 'digest-1',
    digestKind: 'stated',
    loadedThrough: null,
    loadedAt: null,
    expectedRowCounts: [],
    reloads: new Map(),
    plannedFrom: null,
    ...rest,
  };
}

/** Writes the result of `select` as a Parquet file of the folder; gives its path. */
export async function parquet(folder: string, name: string, select: string, options = ''): Promise<string> {
  const path = join(folder, name);
  await duckdb(`COPY (${select}) TO '${path.replaceAll("'", "''")}' (FORMAT parquet${options})`);
  return path;
}

/** Validates and commits the write jobs together. A write job that fails validation has the outcome `failed`. */
export async function load(
  mirror: Destination,
  ...jobs: readonly SnapshotJob[]
): Promise<readonly JobResult[]> {
  const prepared = [];
  for (const job of jobs) prepared.push(await mirror.validate(job));
  return await commitAll(mirror, prepared);
}

/** The error of the only unit, however it came. */
export async function loadError(mirror: Destination, job: SnapshotJob): Promise<Error> {
  try {
    const [outcome] = await load(mirror, job);
    if (outcome?.kind === 'failed') return outcome.error;
    throw new TypeError(`The load should have failed, but was ${outcome?.kind}`);
  } catch (error) {
    if (error instanceof Error && !(error instanceof TypeError)) return error;
    throw error;
  }
}
