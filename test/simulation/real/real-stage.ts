/** The stage on which everything is real: the fixture feed over HTTP, DuckDB and SQLite files, processes that are killed. */

import { copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { stillClock } from '../../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../../fixtures/feed/feed.ts';
import { type OpenOptions, openParts } from '../../../src/cli/open-parts.ts';
import { loadConfiguration } from '../../../src/configuration/configuration.ts';
import type { ContentComparison } from '../../../src/destination/comparer.ts';
import { type Clock, systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import type { Parts } from '../../../src/sync/parts.ts';
import { silentProgress } from '../../../src/sync/progress.ts';
import { type Kind as DamageKind, damageOf, stagedFiles } from '../../faults/fault.ts';
import { restoreTable } from '../../support/checkpoint-dump.ts';
import { scriptPath } from '../../support/child.ts';
import { inputOf } from '../../support/configuration.ts';
import { IDLE_PROCESS } from '../../support/idle-process.ts';
import { type Program, program, type Running } from '../../support/program.ts';
import { digestOfContent } from '../../support/table-digest.ts';
import { unwatchedTerminal } from '../../support/unwatched-terminal.ts';
import type { Settings } from '../settings.ts';
import type {
  Alteration,
  BrokenPipe,
  CheckpointTable,
  DeathPoint,
  Installation,
  MakeStage,
  MirrorView,
  Stage,
  Store,
} from '../stage.ts';
import { feedOptionsOf, START } from '../stage-options.ts';
import type { DestinationKind, MakeDestination, RealDestination } from './destination.ts';
import { killAt } from './kill.ts';

/** A file that drips is large and far away: after its first bytes the rest comes in ranges side by side. */
const RANGES = {
  fromBytes: 0,
  atOnce: 4,
  maxRangeBytes: 300,
  minRangeBytes: 300,
  rangeMs: 3_600_000,
  slowestRangeMs: 60_000,
  measureMs: 0.001,
  worthMs: 0,
};

const PRELUDE = pathToFileURL(scriptPath('steered-process-child.ts')).href;

export function realStage(make: MakeDestination): MakeStage {
  return async (_seed, settings) => await stageOn(await make(), settings);
}

async function stageOn(kind: DestinationKind, settings: Settings): Promise<Stage> {
  const feed = await startFixtureFeed({ ...feedOptionsOf(settings), clock: stillClock(START) });
  const clock = clockOf(feed, kind);
  const installation = await RealInstallation.create(feed, clock, settings, kind);
  return {
    name: 'real',
    feed,
    clock,
    installation,
    machine: null,
    watchCommits() {},
    digestOf: ({ content }) => digestOfContent(content),
    async close() {
      await installation.end();
      await feed.close();
    },
  };
}

/** The feed's time, on which nobody waits. */
function clockOf({ clock }: FixtureFeed, { serverWaitMs }: DestinationKind): Clock {
  return {
    now: clock.now,
    monotonicMs: () => performance.now(),
    async sleep(durationMs, signal) {
      signal?.throwIfAborted();
      if (durationMs === serverWaitMs) return await systemClock.sleep(durationMs, signal);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/**
 * A data directory, the real parts opened on it inside this process, and the real program started on it. One of the two
 * has it at a time, as the instance lock requires.
 */
class RealInstallation implements Installation {
  readonly program: Program;
  readonly #feed: FixtureFeed;
  readonly #destination: RealDestination;
  readonly #clock: Clock;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #copied = new Set<Store>();
  #keepsHistory: boolean;
  #opened: Awaited<ReturnType<typeof openParts>> | null = null;

  static async create(
    feed: FixtureFeed,
    clock: Clock,
    settings: Settings,
    kind: DestinationKind,
  ): Promise<RealInstallation> {
    const environment = {
      ...kind.environment,
      FEED_SYNC_SCHEMA_CHANGES: settings.schemaChanges,
      FEED_SYNC_GATES_REMOVED_ROWS: settings.isGated ? '0' : 'off',
      FEED_SYNC_HISTORY_EVERY_VERSION: settings.commitsEveryVersion ? 'on' : 'off',
      FEED_SYNC_REMOVED_DATASETS: settings.removedDatasets,
      FEED_SYNC_DUCKDB_MEMORY_LIMIT: '256MB',
      FEED_SYNC_DUCKDB_THREADS: '1',
      FEED_SYNC_RETRY_BASE_DELAY: '1ms',
      FEED_SYNC_RETRY_MAX_ATTEMPTS: '3',
      FEED_SYNC_DISK_RESERVE: '1MB',
    };
    const installed = await program({ feed, environment, secrets: kind.secrets });
    const destination = kind.installedBy(installed);
    return new RealInstallation(feed, clock, installed, destination, environment, settings.keepsHistory);
  }

  private constructor(
    feed: FixtureFeed,
    clock: Clock,
    installed: Program,
    destination: RealDestination,
    environment: Record<string, string>,
    keepsHistory: boolean,
  ) {
    this.#destination = destination;
    this.#keepsHistory = keepsHistory;
    this.#feed = feed;
    this.program = installed;
    this.#clock = clock;
    this.#environment = {
      ...environment,
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DATA_DIR: installed.dataDirectory,
    };
  }

  async parts(): Promise<Parts> {
    this.#opened ??= await openParts(this.#openOptions());
    return this.#opened.parts;
  }

  async close(): Promise<void> {
    await this.#opened?.close();
    this.#opened = null;
  }

  async end(): Promise<void> {
    await this.close();
    await this.#destination.close();
  }

  async catchUpAndDie(at: DeathPoint) {
    const killed = await killAt(at, this.#feed, (steering) => this.#startOnce(steering));
    await this.#destination.settleAfterKill();
    return killed;
  }

  async keepHistory(isKept: boolean): Promise<void> {
    await this.close();
    this.#keepsHistory = isKept;
  }

  async alter(table: ObservedTable, how: Alteration): Promise<string | null> {
    const statement = await this.#destination.alter(table, how);
    return statement === null ? null : `${table.datasetId}: ${statement}`;
  }

  drop(table: ObservedTable): Promise<void> {
    return this.#destination.drop(table);
  }

  damage(): void {
    throw new Error('the real stage damages no blocks');
  }

  damageStaged(kind: DamageKind, next: () => number): string | null {
    const { home } = this.program;
    if (stagedFiles(home).length === 0) return null;
    const { name, bytes, done } = damageOf({ file: 'staged', kind, next }, home, home);
    writeFileSync(join(home, name), bytes);
    return done;
  }

  breakPipe(how: BrokenPipe): void {
    if (!existsSync(this.#pipe)) return;
    rmSync(this.#pipe);
    if (how === 'a file') writeFileSync(this.#pipe, '');
    if (how === 'a link') symlinkSync('/nowhere', this.#pipe);
  }

  mendPipe(): void {
    rmSync(this.#pipe, { force: true });
  }

  get #pipe(): string {
    return join(this.program.dataDirectory, 'postgres.pipe');
  }

  async compare(table: ObservedTable, content: VersionContent): Promise<ContentComparison> {
    const directory = join(this.program.home, 'compared');
    mkdirSync(directory, { recursive: true });
    return await this.#destination.compare(table, content, {
      directory,
      downloads: join(this.program.dataDirectory, 'staging'),
      clock: this.#clock,
    });
  }

  readMirror<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null> {
    return this.#destination.read(read);
  }

  async lose(store: Store): Promise<void> {
    await this.close();
    if (store === 'mirror') return await this.#destination.lose();
    for (const path of this.#checkpointFiles) rmSync(path, { force: true });
  }

  /** Of the store, which is whole between two catch-ups. */
  async copy(store: Store): Promise<void> {
    this.#copied.add(store);
    if (store === 'mirror') return await this.#destination.copy(() => this.close());
    rmSync(this.#checkpointCopy, { recursive: true, force: true });
    mkdirSync(this.#checkpointCopy);
    for (const path of this.#checkpointFiles) {
      if (existsSync(path)) copyFileSync(path, join(this.#checkpointCopy, basename(path)));
    }
  }

  hasCopy(store: Store): boolean {
    return this.#copied.has(store);
  }

  async restoreCopy(store: Store): Promise<void> {
    await this.lose(store);
    if (store === 'mirror') return await this.#destination.restoreCopy();
    for (const path of this.#checkpointFiles) {
      const copied = join(this.#checkpointCopy, basename(path));
      if (existsSync(copied)) copyFileSync(copied, path);
    }
  }

  async restoreTable(table: CheckpointTable): Promise<void> {
    await this.close();
    const { checkpointPath } = this.program;
    restoreTable(table, join(this.#checkpointCopy, basename(checkpointPath)), checkpointPath);
  }

  /** Starts `feed-sync once`, with its clock at the time of this installation's. */
  async #startOnce(steering: Readonly<Record<string, string>>): Promise<Running> {
    await this.close();
    const now = String(this.#clock.now().getTime());
    const environment = { STEERED_NOW_MS: now, ...this.#history, ...steering };
    return this.program.startWith({ NODE_OPTIONS: `--import=${PRELUDE}`, ...environment }, 'once');
  }

  get #history(): Readonly<Record<string, string>> {
    return this.#keepsHistory ? { FEED_SYNC_HISTORY_DATASETS: '*' } : {};
  }

  get #checkpointFiles(): readonly string[] {
    const { checkpointPath } = this.program;
    return [checkpointPath, `${checkpointPath}-wal`, `${checkpointPath}-shm`];
  }

  get #checkpointCopy(): string {
    return join(this.program.home, 'copy-of-checkpoint');
  }

  #openOptions(): OpenOptions {
    const environment = { ...this.#environment, ...this.#history };
    const { configuration } = loadConfiguration(inputOf({ environment }));
    const context = {
      terminal: unwatchedTerminal({ stdout: process.stdout, stderr: process.stderr, width: 80 }),
      environment: { PATH: process.env['PATH'] },
      workingDirectory: this.program.home,
      machine: { memoryBytes: 16e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 2 },
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
    const feedLimits = { ranges: RANGES };
    return {
      configuration,
      context,
      log: silentLog,
      progress: silentProgress,
      command: 'once',
      signal,
      feedLimits,
    };
  }
}
