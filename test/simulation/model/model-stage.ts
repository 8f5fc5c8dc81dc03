/** The stage on which everything is a model but `src/sync`, `src/daemon` and the checkpoint: no waits, no processes. */

import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Access } from '../../../fixtures/feed/access.ts';
import { stillClock } from '../../../fixtures/feed/clock.ts';
import { FaultScript } from '../../../fixtures/feed/faults.ts';
import { KeyRing } from '../../../fixtures/feed/keys.ts';
import { ManifestView } from '../../../fixtures/feed/manifest-view.ts';
import { Omissions } from '../../../fixtures/feed/omissions.ts';
import { Publisher } from '../../../fixtures/feed/publish.ts';
import { RequestListeners } from '../../../fixtures/feed/request-listeners.ts';
import { RequestLog } from '../../../fixtures/feed/request-log.ts';
import { settingsOf } from '../../../fixtures/feed/settings.ts';
import { Store as FeedStore } from '../../../fixtures/feed/store.ts';
import { SubscriptionRecords } from '../../../fixtures/feed/subscription-records.ts';
import { randomFrom } from '../../../fixtures/source/random.ts';
import type { Checkpoint } from '../../../src/checkpoint/checkpoint.ts';
import { openCheckpoint } from '../../../src/checkpoint/sqlite/open.ts';
import type { ContentComparison } from '../../../src/destination/comparer.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { observeDurableEffects } from '../../../src/lib/files.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { type GateLimits, NO_LIMITS } from '../../../src/model/gate.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import { catchUp } from '../../../src/sync/catch-up.ts';
import type { Parts } from '../../../src/sync/parts.ts';
import { silentProgress } from '../../../src/sync/progress.ts';
import { restoreTable } from '../../support/checkpoint-dump.ts';
import { memoryFolder } from '../../support/memory-folder.ts';
import type { Settings } from '../settings.ts';
import type {
  Alteration,
  CheckpointTable,
  DeathPoint,
  FeedSide,
  Installation,
  MirrorView,
  Stage,
  Store,
  TableChange,
} from '../stage.ts';
import { feedOptionsOf, START } from '../stage-options.ts';
import { alteredRows } from './altered-rows.ts';
import { changeFilesAtOnce } from './files-at-once.ts';
import { Life, mortal, mortalStore } from './life.ts';
import { ModelMachine } from './machine.ts';
import type { MirrorState, Table } from './mirror-state.ts';
import { type Disk, ModelDestination } from './model-destination.ts';
import { ModelFeed } from './model-feed.ts';
import { mirrorView } from './model-mirror.ts';
import { Requests } from './requests.ts';
import { Snapshots } from './snapshots.ts';
import { Spool } from './spool.ts';
import { textsOf } from './texts.ts';
import { compareTable, contentRows } from './version-content.ts';

/** What of it is free, at least, where the files of a history are to lie in memory. */
const ENOUGH_MEMORY_BYTES = 2e8;

export async function modelStage(seed: number, settings: Settings): Promise<Stage> {
  const restoreFiles = changeFilesAtOnce();
  const listeners = new RequestListeners();
  const feed = modelFeedSide(settings, listeners);
  const machine = new ModelMachine();
  const clock = virtualClock(feed, machine);
  const watchers: ((change: TableChange) => void)[] = [];
  const installation = new ModelInstallation({
    feed,
    listeners,
    machine,
    clock,
    settings,
    seed,
    onCommit: (change) => {
      for (const watch of watchers) watch(change);
    },
  });
  return {
    name: 'model',
    feed,
    clock,
    installation,
    machine,
    watchCommits: (watch) => void watchers.push(watch),
    digestOf: ({ content }) => textsOf(content).digest,
    async close() {
      await installation.close();
      installation.remove();
      observeDurableEffects(() => {});
      restoreFiles();
    },
  };
}

function modelFeedSide(settings: Settings, listeners: RequestListeners): FeedSide {
  const clock = stillClock(START);
  const store = new FeedStore();
  const keys = new KeyRing();
  const options = feedOptionsOf(settings);
  const { secret } = keys.add(options.apiKey);
  const feedSettings = settingsOf(options);
  const omissions = new Omissions();
  return {
    baseUrl: 'https://feed.example',
    apiKey: secret,
    keys,
    clock,
    store,
    publisher: new Publisher(store, clock),
    access: new Access(store),
    manifest: new ManifestView(store),
    records: new SubscriptionRecords(store, feedSettings, omissions),
    omissions,
    onRequest: (listener) => listeners.add(listener),
    faults: new FaultScript(),
    requests: new RequestLog(),
    settings: feedSettings,
  };
}

/**
 * The feed's time, as the clock of the machine shows it, on which nobody waits. No timestamp comes twice: events
 * before and after each other can be told apart.
 */
function virtualClock({ clock }: FeedSide, machine: ModelMachine): Clock {
  let readings = 0;
  return {
    now: () => machine.shown(clock.now()),
    monotonicMs() {
      readings += 1;
      return clock.now().getTime() + readings / 1e6;
    },
    async sleep(durationMs, signal) {
      signal?.throwIfAborted();
      clock.advance(durationMs);
    },
  };
}

interface ModelInstallationParts {
  readonly feed: FeedSide;
  readonly listeners: RequestListeners;
  readonly machine: ModelMachine;
  readonly clock: Clock;
  readonly settings: Settings;
  readonly seed: number;
  readonly onCommit: (change: TableChange) => void;
}

class ModelInstallation implements Installation {
  readonly #parts: ModelInstallationParts;
  readonly #directory = mkdtempSync(join(memoryFolder(ENOUGH_MEMORY_BYTES), 'feed-sync-simulation-'));
  readonly #disk: Disk = { mirror: null };
  readonly #spool = new Spool();
  readonly #snapshots: Snapshots;
  #opened: { readonly parts: Parts; readonly life: Life; readonly checkpoint: Checkpoint } | null = null;
  #mirrorCopy: MirrorState | null | undefined;
  #lives = 0;
  #keepsHistory: boolean;

  constructor(parts: ModelInstallationParts) {
    this.#parts = parts;
    this.#keepsHistory = parts.settings.keepsHistory;
    this.#snapshots = new Snapshots(parts.feed.settings.files);
  }

  async parts(): Promise<Parts> {
    this.#opened ??= await this.#open();
    return this.#opened.parts;
  }

  async close(): Promise<void> {
    // It has to be closed for the dead as well: the next process opens the same file.
    this.#opened?.checkpoint.close();
    this.#opened = null;
  }

  async lose(store: Store): Promise<void> {
    await this.close();
    if (store === 'mirror') this.#disk.mirror = null;
    else for (const path of this.#checkpointFiles()) rmSync(path, { force: true });
  }

  async copy(store: Store): Promise<void> {
    if (store === 'mirror') {
      this.#mirrorCopy = this.#disk.mirror;
      return;
    }
    rmSync(this.#copies, { recursive: true, force: true });
    mkdirSync(this.#copies);
    for (const path of this.#checkpointFiles()) {
      if (existsSync(path)) copyFileSync(path, path.replace(this.#directory, this.#copies));
    }
  }

  hasCopy(store: Store): boolean {
    return store === 'mirror' ? this.#mirrorCopy !== undefined : existsSync(this.#copies);
  }

  async restoreCopy(store: Store): Promise<void> {
    await this.lose(store);
    if (store === 'mirror') {
      this.#disk.mirror = this.#mirrorCopy ?? null;
      return;
    }
    for (const path of this.#checkpointFiles()) {
      const copied = path.replace(this.#directory, this.#copies);
      if (existsSync(copied)) copyFileSync(copied, path);
    }
  }

  async restoreTable(table: CheckpointTable): Promise<void> {
    await this.close();
    restoreTable(table, join(this.#copies, 'checkpoint.sqlite'), join(this.#directory, 'checkpoint.sqlite'));
  }

  async catchUpAndDie(at: DeathPoint) {
    await this.close();
    const { parts, life } = await this.#openAnew();
    life.doom(at);
    const done = await Promise.race([life.died, catchUp(parts, new AbortController().signal)]);
    life.doom(null);
    // What is under way of the dead ends in nothing; then the next life may begin.
    await new Promise((resolve) => setImmediate(resolve));
    if (done !== 'died') return { died: false, reported: 'it was done before' };
    await this.close();
    return { died: true, reported: 'killed' };
  }

  async keepHistory(isKept: boolean): Promise<void> {
    this.#keepsHistory = isKept;
  }

  async alter({ datasetId }: ObservedTable, how: Alteration): Promise<string | null> {
    const { mirror } = this.#disk;
    const table = mirror?.tables.get(datasetId);
    const rows = table === undefined ? null : alteredRows(table, how);
    if (mirror === null || table === undefined || rows === null) return null;
    this.#disk.mirror = { ...mirror, tables: new Map(mirror.tables).set(datasetId, { ...table, rows }) };
    return `${datasetId}: ${how}`;
  }

  async drop({ datasetId }: ObservedTable): Promise<void> {
    this.#spoil(datasetId, { rows: new Map(), isDamaged: true, isDropped: true });
  }

  breakPipe(): void {}

  mendPipe(): void {}

  damage(datasetId: string): void {
    this.#spoil(datasetId, { isDamaged: true });
  }

  damageStaged(): string | null {
    throw new Error('the model stage stages no files of its own');
  }

  #spoil(datasetId: string, spoilt: Pick<Table, 'isDamaged'> & Partial<Table>): void {
    const { mirror } = this.#disk;
    const table = mirror?.tables.get(datasetId);
    if (mirror === null || table === undefined) return;
    this.#disk.mirror = { ...mirror, tables: new Map(mirror.tables).set(datasetId, { ...table, ...spoilt }) };
  }

  async compare(table: ObservedTable, content: VersionContent): Promise<ContentComparison> {
    const rows = contentRows(content, table, this.#spool);
    return compareTable(this.#disk.mirror?.tables.get(table.datasetId), table, rows);
  }

  async readMirror<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null> {
    const { mirror } = this.#disk;
    return mirror === null ? null : read(mirrorView(mirror));
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  get #copies(): string {
    return join(this.#directory, 'copies');
  }

  #checkpointFiles(): readonly string[] {
    return ['', '-wal', '-shm'].map((end) => join(this.#directory, `checkpoint.sqlite${end}`));
  }

  async #openAnew() {
    const opened = await this.#open();
    this.#opened = opened;
    return opened;
  }

  async #open() {
    const { feed, listeners, machine, clock, settings, seed, onCommit } = this.#parts;
    this.#lives += 1;
    const life = new Life();
    observeDurableEffects((name, timestamp) => {
      if (timestamp === 'before' && name.startsWith('checkpoint.')) machine.useDisk('checkpoint');
      life.passEffect(name);
    });
    const checkpoint = await openCheckpoint({
      path: join(this.#directory, 'checkpoint.sqlite'),
      uid: null,
      clock,
      log: silentLog,
    });
    const random = randomFrom(seed, 5, this.#lives);
    const requests = new Requests({ feed, listeners, life, random });
    const snapshots = this.#snapshots;
    const spool = this.#spool;
    const parts: Parts = {
      feed: mortal(new ModelFeed({ feed, requests, snapshots, spool, machine }), life),
      destination: mortal(
        new ModelDestination({
          disk: this.#disk,
          spool,
          life,
          machine,
          clock,
          keepsHistory: () => this.#keepsHistory,
          onCommit,
        }),
        life,
      ),
      checkpoint: mortalStore(checkpoint, life),
      clock,
      log: silentLog,
      progress: silentProgress,
      choices: {
        subscriptions: null,
        include: [],
        exclude: [],
        schemaChanges: settings.schemaChanges,
        removedDatasets: settings.removedDatasets,
        stagingDirectory: join(this.#directory, 'staging'),
        manifestLagMs: 15 * 60_000,
        maxStagedBytes: 8e9,
        commitsEveryVersion: () => settings.commitsEveryVersion && this.#keepsHistory,
        limitsOf: () => (settings.isGated ? NO_REMOVALS : NO_LIMITS),
        keepCandidatesBytes: 10_000_000_000,
        keyHash: 'of the one key',
      },
      process: { command: 'once', pid: 1, host: 'model' },
    };
    return { parts, life, checkpoint };
  }
}

const NO_REMOVALS: GateLimits = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };
