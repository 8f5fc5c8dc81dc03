/**
 * A DuckDB instance in memory, locked down, with one connection that works. Files are attached to it and detached again; the
 * instance itself holds none.
 *
 * Invariant: nothing that runs in it can read or write outside the folders it was given, change its settings, load an
 * extension or reach the network. A FATAL or INTERNAL error makes DuckDB refuse everything until `reopen`.
 */

import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance, type JS, version } from '@duckdb/node-api';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import { DiskFilledError, type FreeSpaceGuard, whileSpaceIsFree } from '../../lib/free-space.ts';
import { DuckDbError, diagnose } from './errors.ts';
import { identifier, text, textList } from './sql.ts';

/** DuckDB forgets an interruption of what it has not begun in earnest, so it is repeated until the call has ended. */
const INTERRUPT_AGAIN_MS = 50;
const MAX_INTERRUPTIONS = 200;

/** By so long after its call a statement has nearly always begun its first task. Without the wait another thread often took it. */
export const BEGUN_AFTER_MS = 40;

/**
 * Memory that was freed goes back to the system as soon as a task of DuckDB has used so much, or freed so much. By its own
 * defaults (128 MB and 512 MB) a process with a small limit stays far above it: loading 12 million polygons with 512 MB took
 * 917 MB instead of 711.
 */
const GIVE_BACK_AFTER_USING = '8MB';
const GIVE_BACK_AFTER_FREEING = '16MB';

/**
 * So many row groups are gathered by a thread, and then written. By DuckDB's own five a load ends with one thread that writes those it has
 * left while the others wait: 2 million polygons took 3.0 s instead of 2.5, and 300 MB more.
 */
const ROW_GROUPS_GATHERED = 1;

/**
 * What tables are not compressed by. To find out whether FSST would help takes a third of the checkpoint of a small table, and to use
 * it a quarter of the load of 2 million polygons, which are then read more slowly, too: for 30 % less space.
 */
const SLOW_COMPRESSION = 'fsst';

export interface EngineOptions {
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** Where DuckDB puts what does not fit into memory. */
  readonly temporaryDirectory: string;
  /** The folders whose files may be read and written; null: none after the attaching of `readOnlyDatabase`. */
  readonly directories: readonly string[] | null;
  /** A database to be attached for reading before the doors close, under the name given, and to be the default one. */
  readonly readOnlyDatabase?: { readonly path: string; readonly name: string };
  /** Interrupts the running statement when aborted, but for one that is to finish, and then each that takes long. */
  readonly signal?: AbortSignal;
  /** Without it an interruption is not repeated, and `finishWithAll` leaves it to chance who takes the first task. */
  readonly clock?: Clock;
  /**
   * Whether rows that are written by several threads may be in another order than they are read: to keep it DuckDB leaves a short
   * row group for the end of each file, and writes all again to join them.
   */
  readonly inAnyOrder?: boolean;
  /** From so much in the log of a file on, DuckDB does a checkpoint at COMMIT; from 16 MiB on by default. */
  readonly maxLogBytes?: number;
  /** What is kept free while much is written; nothing without it. */
  readonly guard?: FreeSpaceGuard;
}

export type Row = readonly JS[];

/** The version of the library: `1.5.5`. */
export function duckDbVersion(): string {
  return version().replace(/^v/, '');
}

export class Engine {
  readonly #options: EngineOptions;
  #instance: DuckDBInstance | null = null;
  #connection: DuckDBConnection | null = null;
  #invalidated = false;
  #ended = 0;

  private constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** @throws DuckDbError */
  static async open(options: EngineOptions): Promise<Engine> {
    const engine = new Engine(options);
    await engine.#open();
    return engine;
  }

  /** So many work on one statement at the most. */
  get threads(): number {
    return this.#options.threads;
  }

  /** Whether only `reopen` helps. */
  get invalidated(): boolean {
    return this.#invalidated;
  }

  /** Another number whenever a statement has ended, or the one that runs has got on with the rows it reads. */
  get progress(): number {
    return this.#ended + this.rowsRead;
  }

  /** By the statement that runs, else by the last one. */
  get rowsRead(): number {
    return Number(this.#connection?.progress.rows_processed ?? 0n);
  }

  /** Closes what is left of the instance and makes a new one. Whatever was attached is attached no more. */
  async reopen(): Promise<void> {
    this.close();
    await this.#open();
  }

  /** Connections first, then the instance: a file stays locked as long as one connection lives. */
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
   * Runs a statement that may write more than can be known, and no more than there is room for.
   * @throws DuckDbError, with the failure `no-room` where it was stopped for that.
   */
  async runWhileSpaceIsFree(sql: string): Promise<void> {
    const { guard } = this.#options;
    if (guard === undefined) return await this.run(sql);
    try {
      await whileSpaceIsFree(guard, (signal) => this.use((connection) => connection.run(sql), signal));
    } catch (error) {
      throw error instanceof DiskFilledError
        ? new DuckDbError('no-space', false, error.message, error)
        : error;
    }
  }

  /**
   * Runs a statement that is not interrupted: what is short, and leaves a doubt behind where it is cut off.
   * @throws DuckDbError
   */
  async finish(sql: string): Promise<void> {
    await this.#call((connection) => connection.run(sql));
  }

  /**
   * `finish` for a statement whose first task makes all others, as CHECKPOINT does. Where a thread of DuckDB's own takes that one,
   * the calling thread only waits for it, at full speed, and nobody is left to take the others: it lasts up to twice as
   * long, and costs up to three times as much. So they go, and come back when it had time to begin, to take the others.
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

  /** A setting of threads is followed when the next statement begins. */
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

  /** The rows of a small result: 64-bit integers as bigint, lists as arrays. @throws DuckDbError */
  async rows(sql: string): Promise<readonly Row[]> {
    const reader = await this.use((connection) => connection.runAndReadAll(sql));
    return reader.getRowsJS();
  }

  /** Calls DuckDB, and says of its errors what they mean. `stop` interrupts it as well. @throws DuckDbError */
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

  /** The end of the call ends the wait as well. */
  async #patience(ended: AbortSignal): Promise<void> {
    await this.#options.clock?.sleep(INTERRUPT_AGAIN_MS, ended).catch(() => {});
  }

  async #call<T>(call: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
    assert(this.#connection !== null, 'the instance is open');
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

  async #open(): Promise<void> {
    this.#invalidated = false;
    try {
      this.#instance = await DuckDBInstance.create(':memory:', creationOptions(this.#options));
      this.#connection = await this.#instance.connect();
      for (const statement of lockDown(this.#options)) await this.#connection.run(statement);
    } catch (error) {
      this.close();
      throw diagnose(error);
    }
  }
}

function creationOptions(options: EngineOptions): Record<string, string> {
  return {
    memory_limit: `${Math.floor(options.memoryLimitBytes)}B`,
    threads: String(options.threads),
    allocator_flush_threshold: GIVE_BACK_AFTER_USING,
    allocator_bulk_deallocation_flush_threshold: GIVE_BACK_AFTER_FREEING,
    ...(options.maxLogBytes === undefined ? {} : { checkpoint_threshold: `${options.maxLogBytes}B` }),
    preserve_insertion_order: String(options.inAnyOrder !== true),
    write_buffer_row_group_count: String(ROW_GROUPS_GATHERED),
    temp_directory: options.temporaryDirectory,
    errors_as_json: 'true',
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  };
}

/** In this order: settings that were locked cannot be changed, and external access cannot be given back. */
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
    // Without the bar nothing is counted of a statement that runs.
    'SET enable_progress_bar = true',
    'SET enable_progress_bar_print = false',
    // Geometry arrives as the bytes in the file, whatever a writer said about coordinate systems.
    'SET GLOBAL enable_geoparquet_conversion = false',
    'SET GLOBAL ignore_unknown_crs = true',
    `SET GLOBAL disabled_compression_methods = ${text(SLOW_COMPRESSION)}`,
    ...attach,
    ...(options.directories === null ? [] : [`SET allowed_directories = ${textList(options.directories)}`]),
    'SET enable_external_access = false',
    "SET allowed_configs = ['external_threads']",
    'SET lock_configuration = true',
  ];
}

const PURPOSES = ['large', 'small', 'validating', 'reading-ahead', 'inspecting', 'compacting'] as const;

/** What the instance is for. */
type Purpose = (typeof PURPOSES)[number];

export function temporaryDirectory(dataDirectory: string, purpose: Purpose): string {
  return join(dataDirectory, `duckdb-temporary-${purpose}`);
}

/** All that there may be. */
export function temporaryDirectories(dataDirectory: string): readonly string[] {
  return PURPOSES.map((purpose) => temporaryDirectory(dataDirectory, purpose));
}

/** Does nothing where there are none. @throws DuckDbError */
export async function runTogether(engine: Engine, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await engine.run(statements.join(';\n'));
}
