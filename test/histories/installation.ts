/**
 * An installation of feed-sync that a history works with: a data directory, the real parts opened on it inside this
 * process, and the real program started on it. One of the two has it at a time, as the instance lock wants it.
 */

import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { type OpenOptions, openParts } from '../../src/cli/open-parts.ts';
import { loadConfiguration } from '../../src/configuration/load.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { Parts } from '../../src/sync/parts.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import { scriptPath } from '../support/child.ts';
import { inputOf } from '../support/configuration.ts';
import { IDLE_PROCESS } from '../support/idle-process.ts';
import { type Program, program, type Running } from '../support/program.ts';

export type Store = 'mirror' | 'checkpoint';

const PRELUDE = pathToFileURL(scriptPath('steered-process-child.ts')).href;

export interface InstallationOptions {
  readonly feed: FixtureFeed;
  readonly clock: Clock;
  readonly schemaChanges: 'reload' | 'alter';
  readonly removedDatasets: 'archive' | 'drop' | 'keep';
}

export class Installation {
  readonly program: Program;
  readonly #clock: Clock;
  readonly #environment: Readonly<Record<string, string>>;
  #opened: Awaited<ReturnType<typeof openParts>> | null = null;
  #copies = 0;

  static async create(options: InstallationOptions): Promise<Installation> {
    const environment = {
      FEED_SYNC_SCHEMA_CHANGES: options.schemaChanges,
      FEED_SYNC_REMOVED_DATASETS: options.removedDatasets,
      FEED_SYNC_DUCKDB_MEMORY_LIMIT: '256MB',
      FEED_SYNC_DUCKDB_THREADS: '1',
      FEED_SYNC_RETRY_BASE_DELAY: '1ms',
      FEED_SYNC_RETRY_MAX_ATTEMPTS: '3',
      FEED_SYNC_DISK_RESERVE: '1MB',
    };
    const { feed } = options;
    return new Installation(options, await program({ feed, environment }), environment);
  }

  private constructor(
    { feed, clock }: InstallationOptions,
    installed: Program,
    environment: Record<string, string>,
  ) {
    this.program = installed;
    this.#clock = clock;
    this.#environment = {
      ...environment,
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DATA_DIR: installed.dataDirectory,
    };
  }

  /** The parts, opened where they are closed. */
  async parts(): Promise<Parts> {
    this.#opened ??= await openParts(this.#openOptions());
    return this.#opened.parts;
  }

  async close(): Promise<void> {
    await this.#opened?.close();
    this.#opened = null;
  }

  /** Starts `feed-sync once`, with its clock at the time of this installation's. */
  async startOnce(steering: Readonly<Record<string, string>> = {}): Promise<Running> {
    await this.close();
    const environment = { STEERED_NOW_MS: String(this.#clock.now().getTime()), ...steering };
    return this.program.startWith({ NODE_OPTIONS: `--import=${PRELUDE}`, ...environment }, 'once');
  }

  async lose(store: Store): Promise<void> {
    await this.close();
    for (const path of this.#filesOf(store)) rmSync(path, { force: true });
  }

  /** Copies the files of a store, which are whole between two catch-ups; gives the folder of the copy. */
  copy(store: Store): string {
    this.#copies += 1;
    const folder = join(this.program.home, `copy-${this.#copies}`);
    mkdirSync(folder);
    for (const path of this.#filesOf(store)) {
      if (existsSync(path)) copyFileSync(path, join(folder, basename(path)));
    }
    return folder;
  }

  /** Puts the files of a copy in the place of those of the store. */
  async restore(store: Store, folder: string): Promise<void> {
    await this.lose(store);
    for (const path of this.#filesOf(store)) {
      const copied = join(folder, basename(path));
      if (existsSync(copied)) copyFileSync(copied, path);
    }
  }

  #filesOf(store: Store): readonly string[] {
    const { mirrorPath, checkpointPath } = this.program;
    return store === 'mirror'
      ? [mirrorPath, `${mirrorPath}.wal`]
      : [checkpointPath, `${checkpointPath}-wal`, `${checkpointPath}-shm`];
  }

  #openOptions(): OpenOptions {
    const { configuration } = loadConfiguration(inputOf({ environment: this.#environment }));
    const context = {
      terminal: {
        stdout: process.stdout,
        stderr: process.stderr,
        isWatched: false,
        hasColor: false,
        height: null,
        width: 80,
      },
      environment: {},
      workingDirectory: this.program.home,
      machine: { memoryBytes: 16e9, constrainedMemoryBytes: 0, cores: 2 },
      identity: { pid: process.pid, host: 'here', uid: process.getuid?.() ?? null },
      runtime: { nodeVersion: '24', leastNodeVersion: '24.0.0', operatingSystem: 'none' },
      readFile: () => '',
      readStandardInput: async () => '',
      clock: this.#clock,
      random: { next: () => 0.5 },
      signal: new AbortController().signal,
      ...IDLE_PROCESS,
    };
    const { signal } = context;
    return { configuration, context, log: silentLog, progress: silentProgress, command: 'once', signal };
  }
}
