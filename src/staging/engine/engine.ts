/**
 * A locked-down DuckDB instance in memory with one working connection. Files are attached to it and detached again; the
 * instance itself stores nothing.
 *
 * Invariant: a statement in it cannot read or write outside the given folders, change settings, load an extension or reach the
 * network. After a FATAL or INTERNAL error DuckDB refuses everything until `reopen`.
 */

import { join } from 'node:path';
import {
  type DuckDBConnection,
  DuckDBInstance,
  type JS,
  JSDuckDBValueConverter,
  version,
} from '@duckdb/node-api';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import {
  DiskFilledError,
  type FreeSpaceGuard,
  refuseIfFilled,
  whileSpaceIsFree,
} from '../../lib/free-space.ts';
import { DuckDbError, diagnose } from './errors.ts';
import { identifier, literalPattern, text, textList } from './sql.ts';

/** DuckDB ignores an interruption that arrives before the statement has begun, so it is repeated until the call ends. */
const INTERRUPT_AGAIN_MS = 50;
const MAX_INTERRUPTIONS = 200;

/**
 * This long after its call a statement has nearly always begun its first task. Without the wait another thread often took that
 * task.
 */
export const BEGUN_AFTER_MS = 40;

/**
 * DuckDB returns freed memory to the system once an idle thread has used this much, or before a single request of the next limit.
 * By DuckDB's defaults (128 MB and 512 MB) a process with a small limit stays far above it: loading 12 million polygons with a
 * limit of 512 MB took 917 MB instead of 711. With 2 MB instead of 16 loading 30 million took 656 MB instead of 687.
 */
const GIVE_BACK_AFTER_USING = '8MB';
const GIVE_BACK_BEFORE_REQUESTS = '2MB';

/**
 * The same where memory is ample. Nearly every statement requests more than 2 MB at least once, and each time all freed memory is
 * returned and then faulted in again, page by page: a tenth of the processor time of a large load, a quarter of that of a small update.
 */
const GIVE_BACK_BEFORE_LARGE_REQUESTS = '16MB';

/** The least memory limit of the program with which it does not matter that freed memory is kept a moment longer. */
const AMPLE_MEMORY_BYTES = 2_000_000_000;

/** Returns whether engines may keep freed memory where the program has this limit. */
export function isAmpleMemory(memoryLimitBytes: number): boolean {
  return memoryLimitBytes >= AMPLE_MEMORY_BYTES;
}

/**
 * The full row groups that a thread gathers before it writes them. By DuckDB's default of five, a load ends with one thread
 * that writes its remaining groups while the others wait: 2 million polygons took 3.0 s instead of 2.5, and 300 MB more.
 */
const ROW_GROUPS_GATHERED = 1;

/**
 * Tables are not compressed by FSST, unless an operator asks for it (`feed-sync compact --compress`). Trying it takes a third of
 * the checkpoint of a small table, and using it takes a quarter of the load of 2 million polygons, which are then slower to read,
 * too. It saves 30 % of the space.
 */
const SLOW_COMPRESSION = 'fsst';

export interface EngineOptions {
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** DuckDB spills into it what exceeds the memory. */
  readonly temporaryDirectory: string;
  /** The folders whose files may be read and written; null allows none after `readOnlyDatabase` is attached. */
  readonly directories: readonly string[] | null;
  /** A database that is attached read-only under this name before access is locked, and becomes the default database. */
  readonly readOnlyDatabase?: { readonly path: string; readonly name: string };
  /** Extensions that are installed for DuckDB on this machine, and that are loaded before access is locked; none by default. */
  readonly extensions?: readonly string[];
  /**
   * When aborted, interrupts the running statement and every later one that takes long, except for a statement run by `finish`.
   */
  readonly signal?: AbortSignal;
  /**
   * Without a clock an interruption is not repeated, and `finishWithAll` does not control which thread takes the first task.
   */
  readonly clock?: Clock;
  /**
   * True when rows written by several threads may change their order. To keep the order, DuckDB leaves a short row group at the
   * end of each file, and writes everything again to join them.
   */
  readonly inAnyOrder?: boolean;
  /** The log size from which on DuckDB does a checkpoint at COMMIT; 16 MiB by default. */
  readonly maxLogBytes?: number;
  /** True when texts and geometries are written compressed, by FSST. They are read in either case. */
  readonly compressesTexts?: boolean;
  /** True when freed memory may be kept a moment longer, for which see `isAmpleMemory`; false by default. */
  readonly keepsMemory?: boolean;
  /** Guards the free space of the disks during large writes; none by default. */
  readonly guard?: FreeSpaceGuard;
}

export type Row = readonly JS[];

/** Returns the version of the library: `1.5.5`. */
export function duckDbVersion(): string {
  return version().replace(/^v/, '');
}

export class Engine {
  readonly #options: EngineOptions;
  #instance: DuckDBInstance | null = null;
  #connection: DuckDBConnection | null = null;
  /** Null until the first statement, and after an attempt to open that failed. */
  #opened: Promise<void> | null = null;
  #invalidated = false;
  #ended = 0;

  /** Opens the instance at the first statement, which throws what `open` would. */
  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** Opens the instance at once. @throws DuckDbError */
  static async open(options: EngineOptions): Promise<Engine> {
    const engine = new Engine(options);
    await engine.#openOnce();
    return engine;
  }

  /** The most threads that work on one statement. */
  get threads(): number {
    return this.#options.threads;
  }

  /** True when the instance needs `reopen`. */
  get invalidated(): boolean {
    return this.#invalidated;
  }

  /** A number that changes whenever a statement ends, or the running one has read further rows. */
  get progress(): number {
    return this.#ended + this.rowsRead;
  }

  /** The rows read by the running statement, else by the last one. */
  get rowsRead(): number {
    return Number(this.#connection?.progress.rows_processed ?? 0n);
  }

  /** Closes the instance and opens a new one, without any attached database. */
  async reopen(): Promise<void> {
    this.close();
    this.#opened = null;
    await this.#openOnce();
  }

  /** Closes connections first, then the instance: a file stays locked as long as one connection lives. */
  close(): void {
    this.#connection?.closeSync();
    this.#connection = null;
    this.#instance?.closeSync();
    this.#instance = null;
  }

  /** @throws DuckDbError */
  async run(sql: string): Promise<void> {
    await this.use((connection) => connection.run(sql));
  }

  /**
   * Runs a statement that may write an unknown amount, and stops it when the disk runs out of space.
   * @throws DuckDbError, with the fault `no-space` when it was stopped for that.
   */
  async runWhileSpaceIsFree(sql: string): Promise<void> {
    await this.#guarded(sql, async () => {});
  }

  /**
   * `runWhileSpaceIsFree` for a statement that is the work of one thread. DuckDB's threads are stopped meanwhile: when one of them took
   * the work, the calling thread would spin until its end.
   * @throws DuckDbError
   */
  async runByOneThread(sql: string): Promise<void> {
    if (this.threads === 1) return await this.runWhileSpaceIsFree(sql);
    await this.finish(`SET external_threads = ${this.threads}`);
    const [ran] = await Promise.allSettled([this.runWhileSpaceIsFree(sql)]);
    const [back] = await Promise.allSettled([this.finish('SET external_threads = 1')]);
    if (ran.status === 'rejected') throw ran.reason;
    if (back.status === 'rejected') throw back.reason;
  }

  /** Runs statements that write what can be done without: only where the reserve is free, and while it is. @throws DuckDbError */
  async runWithinReserve(statements: readonly string[]): Promise<void> {
    if (statements.length > 0) await this.#guarded(statements.join(';\n'), refuseIfFilled);
  }

  async #guarded(sql: string, before: (guard: FreeSpaceGuard) => Promise<void>): Promise<void> {
    const { guard } = this.#options;
    if (guard === undefined) return await this.run(sql);
    try {
      await before(guard);
      await whileSpaceIsFree(guard, (signal) => this.use((connection) => connection.run(sql), signal));
    } catch (error) {
      throw error instanceof DiskFilledError
        ? new DuckDbError('no-space', false, error.message, error)
        : error;
    }
  }

  /**
   * Runs a short statement without interruptions, because an interruption would leave its outcome unknown.
   * @throws DuckDbError
   */
  async finish(sql: string): Promise<void> {
    await this.#call((connection) => connection.run(sql));
  }

  /**
   * `finish` for a statement whose first task creates all others, such as CHECKPOINT. When one of DuckDB's own threads takes
   * the first task, the calling thread only spins, and one thread less does the work: the statement takes up to twice as long,
   * and up to three times the processor time. So DuckDB's threads are stopped, and started again after the first task had time
   * to begin.
   * @throws DuckDbError
   */
  async finishWithAll(sql: string): Promise<void> {
    if (this.threads === 1) return await this.finish(sql);
    await this.finish(`SET external_threads = ${this.threads}`);
    const finishing = this.finish(sql);
    const begun = Promise.race([finishing.catch(() => {}), this.#options.clock?.sleep(BEGUN_AFTER_MS)]);
    const [finished, back] = await Promise.allSettled([
      finishing,
      begun.then(() => this.#bringBackThreads()),
    ]);
    if (finished.status === 'rejected') throw finished.reason;
    if (back.status === 'rejected') throw back.reason;
  }

  /** DuckDB follows a change of the number of threads when the next statement begins. */
  async #bringBackThreads(): Promise<void> {
    assert(this.#instance !== null, 'the instance is open');
    let beside: DuckDBConnection | null = null;
    try {
      beside = await this.#instance.connect();
      await beside.run('SET external_threads = 1');
      await beside.run('SELECT 1');
    } catch (error) {
      throw this.#noted(error);
    } finally {
      beside?.closeSync();
    }
  }

  /** Returns the rows of a small result: 64-bit integers as bigint, lists as arrays. @throws DuckDbError */
  async rows(sql: string): Promise<readonly Row[]> {
    return await this.use(async (connection) => {
      const result = await connection.run(sql);
      // All of the result is in memory by now. Fetching it would be two more calls to another thread for each statement.
      const chunks = Array.from({ length: result.chunkCount }, (_, index) => result.getChunk(index));
      return chunks.flatMap((chunk) => chunk.convertRows(JSDuckDBValueConverter));
    });
  }

  /**
   * Appends the rows that a statement returns to a temporary table with the same columns. The rows pass in DuckDB's own chunks: no
   * value becomes a value of JavaScript.
   * @throws DuckDbError
   */
  async moveRows(sql: string, tableName: string): Promise<void> {
    await this.use(async (connection) => {
      const result = await connection.stream(sql);
      const appender = await connection.createAppender(tableName, 'main', 'temp');
      for (;;) {
        const chunk = await result.fetchChunk();
        if (chunk === null || chunk.rowCount === 0) break;
        appender.appendDataChunk(chunk);
      }
      appender.closeSync();
    });
  }

  /** Calls DuckDB and diagnoses its errors. `stop` interrupts the call as well. @throws DuckDbError */
  async use<T>(call: (connection: DuckDBConnection) => Promise<T>, stop?: AbortSignal): Promise<T> {
    const signals = [this.#options.signal, stop].filter((signal) => signal !== undefined);
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    const ended = new AbortController();
    const interrupt = () => void this.#interruptUntil(ended.signal);
    if (signal?.aborted) void this.#patience(ended.signal).then(interrupt);
    signal?.addEventListener('abort', interrupt);
    try {
      return await this.#call(call);
    } finally {
      signal?.removeEventListener('abort', interrupt);
      ended.abort();
    }
  }

  async #interruptUntil(ended: AbortSignal): Promise<void> {
    const times = this.#options.clock === undefined ? 1 : MAX_INTERRUPTIONS;
    for (let time = 0; time < times && !ended.aborted; time += 1) {
      this.#connection?.interrupt();
      await this.#patience(ended);
    }
  }

  /** The end of the call also ends the wait. */
  async #patience(ended: AbortSignal): Promise<void> {
    await this.#options.clock?.sleep(INTERRUPT_AGAIN_MS, ended).catch(() => {});
  }

  async #call<T>(call: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
    await this.#openOnce();
    assert(this.#connection !== null, 'a closed instance is not used');
    try {
      return await call(this.#connection);
    } catch (error) {
      throw this.#noted(error);
    } finally {
      this.#ended += 1;
    }
  }

  #noted(error: unknown): DuckDbError {
    const diagnosed = diagnose(error);
    if (diagnosed.endsInstance) this.#invalidated = true;
    return diagnosed;
  }

  async #openOnce(): Promise<void> {
    this.#opened ??= this.#open();
    await this.#opened;
  }

  async #open(): Promise<void> {
    this.#invalidated = false;
    try {
      this.#instance = await DuckDBInstance.create(':memory:', creationOptions(this.#options));
      this.#connection = await this.#instance.connect();
      await this.#connection.run(lockDown(this.#options).join(';\n'));
    } catch (error) {
      this.close();
      this.#opened = null;
      throw diagnose(error);
    }
  }
}

function creationOptions(options: EngineOptions): Record<string, string> {
  return {
    memory_limit: `${Math.floor(options.memoryLimitBytes)}B`,
    threads: String(options.threads),
    allocator_flush_threshold: GIVE_BACK_AFTER_USING,
    allocator_bulk_deallocation_flush_threshold:
      options.keepsMemory === true ? GIVE_BACK_BEFORE_LARGE_REQUESTS : GIVE_BACK_BEFORE_REQUESTS,
    ...(options.maxLogBytes === undefined ? {} : { checkpoint_threshold: `${options.maxLogBytes}B` }),
    preserve_insertion_order: String(options.inAnyOrder !== true),
    write_buffer_row_group_count: String(ROW_GROUPS_GATHERED),
    temp_directory: options.temporaryDirectory,
    errors_as_json: 'true',
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  };
}

/** The order matters: locked settings cannot be changed, and external access cannot be restored. */
function lockDown(options: EngineOptions): readonly string[] {
  const database = options.readOnlyDatabase;
  const attach =
    database === undefined
      ? []
      : [
          `ATTACH ${text(database.path)} AS ${identifier(database.name)} (READ_ONLY)`,
          `USE ${identifier(database.name)}`,
        ];
  return [
    "SET GLOBAL TimeZone = 'UTC'",
    // Without the progress bar DuckDB does not count the rows of a running statement.
    'SET enable_progress_bar = true',
    'SET enable_progress_bar_print = false',
    // Returns geometries as the bytes in the file, without interpreting the writer's metadata. A reader of the mirror reads no
    // such file, and its own files get that metadata.
    `SET GLOBAL enable_geoparquet_conversion = ${database !== undefined}`,
    'SET GLOBAL ignore_unknown_crs = true',
    ...(options.compressesTexts === true
      ? []
      : [`SET GLOBAL disabled_compression_methods = ${text(SLOW_COMPRESSION)}`]),
    ...attach,
    ...(options.extensions ?? []).map((name) => `LOAD ${identifier(name)}`),
    ...(options.directories === null ? [] : [`SET allowed_directories = ${textList(options.directories)}`]),
    'SET enable_external_access = false',
    "SET allowed_configs = ['external_threads']",
    'SET lock_configuration = true',
  ];
}

const PURPOSES = ['large', 'small', 'validating', 'reading-ahead', 'inspecting', 'compacting'] as const;

/** The purpose of an instance. */
type Purpose = (typeof PURPOSES)[number];

export function temporaryDirectory(dataDirectory: string, purpose: Purpose): string {
  return join(dataDirectory, `duckdb-temporary-${purpose}`);
}

/** Returns the folders of all purposes. */
export function temporaryDirectories(dataDirectory: string): readonly string[] {
  return PURPOSES.map((purpose) => temporaryDirectory(dataDirectory, purpose));
}

/** Returns the folder of downloads on their way, and of content that waits. */
export function stagingFolder(dataDirectory: string): string {
  return join(dataDirectory, 'staging');
}

/**
 * Returns the directories of an engine that reads what is staged. DuckDB follows a link only where it is allowed itself, as where the
 * staging folder is on another disk. The reader of files takes glob patterns, and DuckDB checks patterns against the allowed directories.
 */
export function stagedDirectories(dataDirectory: string): readonly string[] {
  return [dataDirectory, stagingFolder(dataDirectory)].flatMap((path) => [path, literalPattern(path)]);
}

/** Does nothing for an empty list. @throws DuckDbError */
export async function runTogether(engine: Engine, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await engine.run(statements.join(';\n'));
}
