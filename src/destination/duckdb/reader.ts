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
  type DuckDBPreparedStatement,
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
import type { Log } from '../../lib/log.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { PastCommit, PastState } from '../../model/past-states.ts';
import { duckDbVersion, Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, mirrorFailure } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import { copyToParquet } from '../../staging/geoparquet.ts';
import {
  type Compared,
  compareStates,
  diffResult,
  type PastCatalog,
  simulateRollback,
} from '../catalog/compare-states.ts';
import type { RecordedUnion } from '../catalog/unions.ts';
import type { ObservedState } from '../destination.ts';
import type { ComparedPast, PastTables } from '../past-tables.ts';
import type {
  CountedDataset,
  DestinationReader,
  DiffResult,
  PastLog,
  QueryResult,
  Rendered,
  SimulatedRollback,
} from '../reader.ts';
import { readFormat } from './catalog/format.ts';
import { readWithMissing } from './catalog/observed-state.ts';
import { MIRROR } from './catalog/schema.ts';
import { spaceOf } from './copy-content.ts';
import { countDatasets } from './count-tables.ts';
import { mirrorFileState, waitForFile } from './mirror-file.ts';
import { showAsOf } from './past/as-of.ts';
import { countDiff, selectDiff } from './past/diff.ts';
import { pastCatalog, readPastCommits, readPastLogs } from './past/past-logs.ts';
import { comparePastTables } from './past/past-tables.ts';
import { readUnions } from './unions.ts';

export interface ReaderOptions {
  readonly path: string;
  /** How long to wait for a writer that has the file open. */
  readonly waitMs: number;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  readonly clock: Clock;
  readonly random: Random;
  /** Extensions of DuckDB that are installed on this machine and loaded for the statements; none by default. */
  readonly extensions?: readonly string[];
  /** The folder that a statement may read and write; none by default. */
  readonly folder?: string;
  /** Ends the wait and the running query when aborted. */
  readonly signal?: AbortSignal;
  /** Called with a wait that an operator may notice. */
  readonly log?: Log;
}

/** Reads a mirror, also as it was before. */
export interface MirrorReader extends DestinationReader {
  /** Returns the number of free bytes in the file. New data reuses them; only `compactMirror` returns them to the disk. */
  freeBytes(): Promise<number>;
  /**
   * Runs one statement that reads, as `query` does, and writes its rows to a new Parquet file in the folder of the options; with
   * columns of geometries as GeoParquet. Returns the number of rows. @throws UsageError also where GeoParquet is requested and no
   * column holds geometries.
   */
  writeParquet(
    sql: string,
    to: { readonly path: string; readonly needsGeometry: boolean },
    asOf?: Date,
  ): Promise<number>;
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
      directories: options.folder === undefined ? null : [options.folder],
      readOnlyDatabase: { path, name: MIRROR },
      extensions: options.extensions ?? [],
      ...(options.signal === undefined ? {} : { signal: options.signal, clock: options.clock }),
    });
  try {
    return new Reader(
      await waitForFile({ ...options, path, lockWaitMs: options.waitMs, isReader: true }, open),
      path,
    );
  } catch (error) {
    if (!(error instanceof DuckDbError)) throw error;
    const [extension] = options.extensions ?? [];
    if (extension !== undefined && error.message.includes('xtension')) throw notLoaded(error, extension);
    throw await mirrorFailure(error, { path });
  }
}

/** An extension is of one version of DuckDB. */
function notLoaded(error: Error, extension: string): UsageError {
  return new UsageError(`The extension cannot be loaded: ${error.message}`, {
    hint: `feed-sync downloads none. With DuckDB ${duckDbVersion()} of this user: duckdb -c "INSTALL ${extension}"`,
    cause: error,
  });
}

class Reader implements MirrorReader {
  readonly #engine: Engine;
  readonly #path: string;
  /** True while the rows of a statement are read. */
  #isInTransaction = false;

  constructor(engine: Engine, path: string) {
    this.#engine = engine;
    this.#path = path;
  }

  observed(): Promise<ObservedState> {
    return this.#reading(readWithMissing(this.#engine, this.#path));
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

  comparePast(tables: PastTables, isEnough: () => boolean): Promise<ComparedPast> {
    return this.#reading(comparePastTables(this.#engine, this.#path, tables, isEnough));
  }

  async query(sql: string, asOf?: Date): Promise<QueryResult> {
    await this.#prepare(sql, asOf);
    await this.#endTransaction();
    await this.#call((connection) => connection.run('BEGIN TRANSACTION'));
    this.#isInTransaction = true;
    try {
      const result = await this.#call((connection) => streamText(connection, sql));
      return {
        columnNames: result.shown.columnNames(),
        columnTypes: result.types.map((type) => type.alias ?? String(type)),
        rows: this.#rows(result.shown, sql),
      };
    } catch (error) {
      await this.#endTransaction();
      throw error;
    }
  }

  async writeParquet(
    sql: string,
    { path, needsGeometry }: { readonly path: string; readonly needsGeometry: boolean },
    asOf?: Date,
  ): Promise<number> {
    await this.#prepare(sql, asOf);
    const types = await this.#call(async (connection) => columnTypesOf(await prepareOne(connection, sql)));
    if (needsGeometry && !types.some(({ typeId }) => typeId === DuckDBTypeId.GEOMETRY)) {
      throw new UsageError('GeoParquet needs a column of geometries, and the statement gives none.', {
        hint: 'feed-sync query --format parquet',
      });
    }
    const copy = copyToParquet(`FROM query(${text(sql)})`, path, { version: 'V1' });
    return (await this.#call((connection) => connection.run(copy))).rowsChanged;
  }

  async #prepare(sql: string, asOf: Date | undefined): Promise<void> {
    if (sql.includes('\0')) throw new UsageError('A statement cannot hold a NUL character.');
    if (asOf === undefined) return;
    const format = await this.format();
    await this.#explained(showAsOf(this.#engine, format, sql, asOf));
  }

  async diff(
    datasetId: string,
    states: { readonly from: PastState; readonly to: PastState | null },
  ): Promise<DiffResult> {
    const past = await this.#past();
    const compared = await this.#reading(compareStates(past, datasetId, states));
    return diffResult(compared, await this.query(selectDiff(compared)));
  }

  async simulateRollback(datasetId: string, state: PastState): Promise<SimulatedRollback> {
    const count = (compared: Compared) => countDiff(this.#engine, compared);
    return this.#reading(simulateRollback(await this.#past(), datasetId, state, count));
  }

  async #past(): Promise<PastCatalog> {
    return pastCatalog(this.#engine, await this.#formatOfTables());
  }

  unions(): Promise<readonly RecordedUnion[]> {
    return this.#reading(readUnions(this.#engine));
  }

  async pastLogs(): Promise<readonly PastLog[]> {
    return this.#reading(readPastLogs(this.#engine, await this.format()));
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

  async *#rows(result: DuckDBResult, sql: string): AsyncGenerator<readonly Rendered[]> {
    try {
      for (;;) {
        const chunk = await this.#call(() => result.fetchChunk());
        if (chunk === null || chunk.rowCount === 0) break;
        for (const row of chunk.getRows()) yield row.map(renderValue);
      }
      await this.#requireAllRows(sql);
    } finally {
      await this.#endTransaction();
    }
  }

  /**
   * A statement that fails or is interrupted after its first rows ends like one that has no more: the library reports no error. The
   * transaction takes no further statement then, and the statement, run again, says why.
   */
  async #requireAllRows(sql: string): Promise<void> {
    try {
      await this.#engine.use((connection) => connection.run('SELECT 1'));
      return;
    } catch (error) {
      if (!(error instanceof DuckDbError)) throw error;
    }
    await this.#endTransaction();
    await this.#call((connection) => connection.run(sql));
    throw new StorageError('The statement failed before all of its rows were read.', {
      hint: 'Run it again.',
    });
  }

  async #endTransaction(): Promise<void> {
    if (!this.#isInTransaction) return;
    this.#isInTransaction = false;
    await this.#engine.use((connection) => connection.run('ROLLBACK')).catch(() => {});
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

/** Runs the statement. DuckDB itself renders geometries as text. */
async function streamText(
  connection: DuckDBConnection,
  sql: string,
): Promise<{ readonly shown: DuckDBResult; readonly types: readonly DuckDBType[] }> {
  const prepared = await prepareOne(connection, sql);
  const types = columnTypesOf(prepared);
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

/** @throws UsageError for anything but one statement. */
async function prepareOne(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  const { count } = await connection.extractStatements(sql);
  if (count !== 1) throw new UsageError(`One statement is run at a time; these are ${count}.`);
  return connection.prepare(sql);
}

function columnTypesOf(prepared: DuckDBPreparedStatement): readonly DuckDBType[] {
  return Array.from({ length: prepared.columnCount }, (_, index) => prepared.columnType(index));
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
