/**
 * Reads the mirror beside the daemon, for `query`, `status` and `verify`. The instance opens the file read-only and can reach
 * no other file, so a query can change nothing and read nothing else.
 */

import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  DuckDBArrayValue,
  DuckDBBlobValue,
  type DuckDBConnection,
  DuckDBDateValue,
  DuckDBListValue,
  DuckDBMapValue,
  type DuckDBResult,
  DuckDBStructValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { PastCommit, PastState } from '../../model/past-states.ts';
import { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, mirrorFailure } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import type { ObservedState } from '../destination.ts';
import { showAsOf } from './as-of.ts';
import { readFormat, readObservedState } from './catalog/observed-state.ts';
import { MIRROR } from './catalog/schema.ts';
import { spaceOf } from './copy-content.ts';
import { type CountedDataset, countDatasets } from './count-tables.ts';
import { compareStates, foreseeRollback, type RollbackForeseen, selectDiff } from './diff.ts';
import type { LoggedColumn } from './history.ts';
import { mirrorFileState, waitForFile } from './mirror-file.ts';
import { readPastCommits } from './past-logs.ts';

export interface ReaderOptions {
  readonly path: string;
  /** How long to wait for a writer that has the file open. */
  readonly waitMs: number;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  readonly clock: Clock;
  readonly random: Random;
  /** Ends the wait and the running query when aborted. */
  readonly signal?: AbortSignal;
}

export interface QueryResult {
  readonly columnNames: readonly string[];
  /** The types as DuckDB names them. */
  readonly columnTypes: readonly string[];
  /** The rows, streamed; `renderValue` renders each value. Iterable once. @throws UsageError */
  readonly rows: AsyncIterable<readonly Rendered[]>;
}

/** The rows that lead from one state of a table to another. */
export interface DiffResult {
  readonly from: PastCommit;
  readonly to: PastCommit;
  /** The names of the columns, and their types as DuckDB names them. */
  readonly keys: readonly (readonly [name: string, type: string])[];
  readonly values: readonly (readonly [name: string, type: string])[];
  /** In the order of the keys, streamed. Iterable once. */
  readonly rows: AsyncIterable<DiffRow>;
}

export interface DiffRow {
  readonly change: 'added' | 'changed' | 'removed';
  readonly key: readonly Rendered[];
  /** Null where the row was not there. */
  readonly before: readonly Rendered[] | null;
  readonly after: readonly Rendered[] | null;
}

export interface MirrorReader {
  /** Returns the contents of the mirror. */
  observed(): Promise<ObservedState>;
  /** Returns the format of the catalog; null when the mirror has none yet. */
  format(): Promise<number | null>;
  /** Returns the number of free bytes in the file. New data reuses them; only `compactMirror` returns them to the disk. */
  freeBytes(): Promise<number>;
  /**
   * Counts those of the given datasets that the mirror contains, in one transaction, and returns the recorded and the actual
   * numbers. Asks `isEnough` after each; counts at least one. After an error the reader can only be closed.
   */
  count(datasetIds: readonly string[], isEnough: () => boolean): Promise<readonly CountedDataset[]>;
  /**
   * Runs one statement that reads; with a time, the tables with history are as they were then, and the reader can only be closed
   * afterwards.
   * @throws UsageError with DuckDB's message when the statement fails, or when it names a table that has no state of that time.
   */
  query(sql: string, asOf?: Date): Promise<QueryResult>;
  /**
   * Compares two states of a table with history; `to` is the newest where it is null.
   * @throws UsageError where the history does not know one of them, or where they have other columns.
   */
  diff(
    datasetId: string,
    states: { readonly from: PastState; readonly to: PastState | null },
  ): Promise<DiffResult>;
  /** Foresees a rollback to a state. @throws UsageError where it is not known, or is the one that the table has. */
  foreseeRollback(datasetId: string, state: PastState): Promise<RollbackForeseen>;
  /** Returns the commits of a dataset, oldest first. */
  commits(datasetId: string): Promise<readonly PastCommit[]>;
  close(): Promise<void>;
}

/**
 * Returns null when there is no mirror; reading never creates it.
 * @throws BusyError when a writer keeps the file, StorageError when it cannot be read, ConfigurationError when the file is not
 * a DuckDB database, or belongs to another version of DuckDB.
 */
export async function openReader(options: ReaderOptions): Promise<MirrorReader | null> {
  // A killed writer leaves its log beside the real file. A missing file means that there is nothing to read.
  const path = await realpath(options.path).catch(() => resolve(options.path));
  if ((await mirrorFileState(path)) !== 'database') return null;
  // DuckDB creates and removes this folder beside the mirror. Two readers that shared it would overwrite each other's files.
  const spilled = `${path}.reading-${options.random.next().toString(36).slice(2)}`;
  const open = () =>
    Engine.open({
      memoryLimitBytes: options.memoryLimitBytes,
      threads: options.threads,
      temporaryDirectory: spilled,
      directories: null,
      readOnlyDatabase: { path, name: MIRROR },
      ...(options.signal === undefined ? {} : { signal: options.signal, clock: options.clock }),
    });
  try {
    return new Reader(await waitForFile({ ...options, path, lockWaitMs: options.waitMs }, open), path);
  } catch (error) {
    throw error instanceof DuckDbError ? await mirrorFailure(error, { path }) : error;
  }
}

class Reader implements MirrorReader {
  readonly #engine: Engine;
  readonly #path: string;

  constructor(engine: Engine, path: string) {
    this.#engine = engine;
    this.#path = path;
  }

  observed(): Promise<ObservedState> {
    return this.#reading(readObservedState(this.#engine, this.#path));
  }

  format(): Promise<number | null> {
    return this.#reading(readFormat(this.#engine, this.#path));
  }

  async freeBytes(): Promise<number> {
    return (await this.#reading(spaceOf(this.#engine, MIRROR))).freeBytes;
  }

  count(datasetIds: readonly string[], isEnough: () => boolean): Promise<readonly CountedDataset[]> {
    return this.#reading(countDatasets(this.#engine, this.#path, datasetIds, isEnough));
  }

  async query(sql: string, asOf?: Date): Promise<QueryResult> {
    if (sql.includes('\0')) throw new UsageError('A statement cannot hold a NUL character.');
    if (asOf !== undefined) {
      const format = await this.format();
      await this.#explained(showAsOf(this.#engine, format, sql, asOf));
    }
    const result = await this.#call((connection) => streamText(connection, sql));
    return {
      columnNames: result.shown.columnNames(),
      columnTypes: result.types.map((type) => type.alias ?? String(type)),
      rows: this.#rows(result.shown),
    };
  }

  async diff(
    datasetId: string,
    states: { readonly from: PastState; readonly to: PastState | null },
  ): Promise<DiffResult> {
    const format = await this.#formatOfTables();
    const compared = await this.#reading(compareStates(this.#engine, format, datasetId, states));
    const { columns, from, to } = compared;
    const { columnTypes, rows } = await this.query(selectDiff(compared));
    const isKey = ({ role }: LoggedColumn): boolean => role === 'key';
    const keys = columns.filter(isKey).map(({ columnName }) => columnName);
    const values = columns.filter((column) => !isKey(column)).map(({ columnName }) => columnName);
    const typed = (names: readonly string[], first: number): DiffResult['keys'] =>
      names.map((name, index) => [name, columnTypes[first + index] ?? '']);
    return {
      from,
      to,
      keys: typed(keys, 1),
      values: typed(values, 1 + keys.length),
      rows: diffRows(rows, keys.length, values.length),
    };
  }

  async foreseeRollback(datasetId: string, state: PastState): Promise<RollbackForeseen> {
    return this.#reading(foreseeRollback(this.#engine, await this.#formatOfTables(), datasetId, state));
  }

  async commits(datasetId: string): Promise<readonly PastCommit[]> {
    return this.#reading(readPastCommits(this.#engine, await this.#formatOfTables(), datasetId));
  }

  /** @throws UsageError */
  async #formatOfTables(): Promise<number> {
    const format = await this.format();
    if (format === null) throw new UsageError('The mirror has no tables yet.', { hint: 'feed-sync once' });
    return format;
  }

  async close(): Promise<void> {
    this.#engine.close();
  }

  async #reading<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      throw error instanceof DuckDbError ? await mirrorFailure(error, { path: this.#path }) : error;
    }
  }

  async *#rows(result: DuckDBResult): AsyncGenerator<readonly Rendered[]> {
    for (;;) {
      const chunk = await this.#call(() => result.fetchChunk());
      if (chunk === null || chunk.rowCount === 0) return;
      for (const row of chunk.getRows()) yield row.map(renderValue);
    }
  }

  #call<T>(call: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
    return this.#explained(this.#engine.use(call));
  }

  async #explained<T>(running: Promise<T>): Promise<T> {
    try {
      return await running;
    } catch (error) {
      if (!(error instanceof DuckDbError)) throw error;
      if (error.fault === 'statement') throw notRun(error);
      if (error.fault === 'gave-up')
        throw new StorageError(`DuckDB gave up: ${error.message}`, { cause: error });
      throw await mirrorFailure(error, { path: this.#path });
    }
  }
}

async function* diffRows(
  rows: AsyncIterable<readonly Rendered[]>,
  keys: number,
  values: number,
): AsyncGenerator<DiffRow> {
  for await (const [change, ...cells] of rows) {
    if (change !== 'added' && change !== 'changed' && change !== 'removed') continue;
    const [before, after] = [cells.slice(keys, keys + values), cells.slice(keys + values)];
    yield {
      change,
      key: cells.slice(0, keys),
      before: change === 'added' ? null : before,
      after: change === 'removed' ? null : after,
    };
  }
}

/** Runs the statement. DuckDB itself renders geometries as text. */
async function streamText(
  connection: DuckDBConnection,
  sql: string,
): Promise<{ readonly shown: DuckDBResult; readonly types: readonly DuckDBType[] }> {
  const statements = await connection.extractStatements(sql);
  if (statements.count !== 1)
    throw new UsageError(`One statement is run at a time; these are ${statements.count}.`);
  const prepared = await connection.prepare(sql);
  const types = Array.from({ length: prepared.columnCount }, (_, index) => prepared.columnType(index));
  const names = types.map((_, index) => prepared.columnName(index));
  if (!types.some(hasGeometry)) return { shown: await prepared.stream(), types };
  const aliases = types.map((_, index) => `c${index}`);
  const values = types.map((type, index) => {
    const name = identifier(names[index] || '_');
    if (type.typeId === DuckDBTypeId.GEOMETRY) return `ST_AsText(c${index}) AS ${name}`;
    return hasGeometry(type) ? `to_json(c${index}) AS ${name}` : `c${index} AS ${name}`;
  });
  const wrapped = `SELECT ${values.join(', ')} FROM query(${text(sql)}) AS shown(${aliases.join(', ')})`;
  return { shown: await connection.stream(wrapped), types };
}

function hasGeometry(type: DuckDBType): boolean {
  return String(type).includes('GEOMETRY');
}

/** DuckDB's message says what is wrong with a statement, but seldom which tables exist. */
function notRun(error: Error): UsageError {
  return new UsageError(`The SQL does not run: ${error.message}`, {
    hint: 'It is read-only. The tables: feed-sync query "SELECT table_name FROM feed_sync.datasets"',
    cause: error,
  });
}

/** A rendered value. Numbers are doubles and small integers; larger integers are text. */
export type Rendered = string | number | boolean | null;

const MICROS_PER_SECOND = 1_000_000n;
const POSITIVE_INFINITY = 2n ** 63n - 1n;

/** Renders a value for display, CSV or JSON. The query has already turned GEOMETRY into text. */
function renderValue(value: DuckDBValue): Rendered {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint') return String(value);
  if (value instanceof DuckDBTimestampTZValue) return `${isoTime(value.micros)}${zone(value.micros)}`;
  if (value instanceof DuckDBTimestampValue) return isoTime(value.micros);
  if (value instanceof DuckDBTimestampNanosecondsValue) return String(value).replace(' ', 'T');
  if (value instanceof DuckDBDateValue) return String(value);
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes).toString('hex');
  const nested = renderNested(value);
  return nested === undefined ? String(value) : JSON.stringify(nested);
}

/** Renders lists and structures as JSON values; returns undefined for any other value. */
function renderNested(value: DuckDBValue): unknown {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue)
    return value.items.map(renderInside);
  if (value instanceof DuckDBStructValue) {
    return Object.fromEntries(Object.entries(value.entries).map(([key, item]) => [key, renderInside(item)]));
  }
  if (value instanceof DuckDBMapValue) {
    return value.entries.map(({ key, value: item }) => ({
      key: renderInside(key),
      value: renderInside(item),
    }));
  }
  if (value instanceof DuckDBUnionValue) return renderInside(value.value);
  return undefined;
}

function renderInside(value: DuckDBValue): unknown {
  const nested = renderNested(value);
  return nested === undefined ? renderValue(value) : nested;
}

/** Returns `2026-01-31T23:59:59.123456`; years outside 0000 to 9999 have a sign and six digits, as in ISO 8601. */
function isoTime(micros: bigint): string {
  if (micros === POSITIVE_INFINITY) return 'infinity';
  if (micros === -POSITIVE_INFINITY) return '-infinity';
  const fraction = ((micros % MICROS_PER_SECOND) + MICROS_PER_SECOND) % MICROS_PER_SECOND;
  const date = new Date(Number((micros - fraction) / 1_000n));
  // DuckDB's range of years exceeds that of Date.
  if (Number.isNaN(date.getTime())) return `${micros} microseconds since 1970`;
  return `${date.toISOString().slice(0, -'.000Z'.length)}.${String(fraction).padStart(6, '0')}`;
}

function zone(micros: bigint): string {
  return micros === POSITIVE_INFINITY || micros === -POSITIVE_INFINITY ? '' : 'Z';
}
