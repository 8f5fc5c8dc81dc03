/** The program in memory: the real catch-up on a model of the service, of the mirror and of the checkpoint. */

import pLimit from 'p-limit';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Log } from '../../src/lib/log.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { type GateLimits, NO_LIMITS } from '../../src/model/gate.ts';
import { isPinned, type WriteJob } from '../../src/model/write-jobs.ts';
import { catchUpMendingDamage } from '../../src/sync/catch-up.ts';
import { execute, type MakeExecutor } from '../../src/sync/execute/executor.ts';
import { fetchContent, findContent } from '../../src/sync/execute/fetch-content.ts';
import type { Staging } from '../../src/sync/execute/staging-folder.ts';
import { startWriter } from '../../src/sync/execute/writer.ts';
import { KeptManifests } from '../../src/sync/manifest-cache.ts';
import type { Choices, Parts } from '../../src/sync/parts.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import type { RepairParameters } from '../../src/sync/repair.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import type { RequestKind, Step, StepKind } from './history.ts';
import { copyOf, emptyStored, modelCheckpoint, type Stored } from './model-checkpoint.ts';
import { modelFeed } from './model-feed.ts';
import { type MirrorState, ModelMirror, type Table, textOf } from './model-mirror.ts';
import { DATASET, MINUTE_MS, type Service } from './service.ts';

const CHOICES: Omit<Choices, 'limitsOf'> = {
  subscriptions: null,
  include: [],
  exclude: [],
  schemaChanges: 'reload',
  removedDatasets: 'drop',
  stagingDirectory: '',
  manifestLagMs: 15 * MINUTE_MS,
  maxStagedBytes: 8e9,
  commitsEveryVersion: () => false,
  keepCandidatesBytes: 10_000_000_000,
  keyHash: 'key',
};

/** Every commit that changes a table removes its rows. */
const NO_REMOVALS: GateLimits = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };

const ignore = (): void => {};
const SILENT: Log = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

/** Nothing is staged: contents are texts. */
const STAGING: Staging = {
  folderOf: async () => '',
  folderOfChanges: async () => '',
  discardChanges: async () => {},
  keepCandidate: async () => {},
  candidatePath: () => '',
  discardCandidate: async () => {},
  discard: async () => {},
  keepOnly: async () => {},
};

/** What the program has stored. */
export interface Stores {
  readonly checkpoint: Stored;
  readonly mirror: MirrorState;
}

export interface Operator {
  readonly isGated: boolean;
  readonly approved: ReadonlySet<string>;
}

export interface Watcher {
  /** Before a request is answered. */
  readonly asked: (request: RequestKind) => void;
  readonly committed: (job: WriteJob, before: Table | null, after: Table | null) => void;
}

export class Client {
  readonly service: Service;
  readonly #watcher: Watcher;
  readonly #mirror: ModelMirror;
  #stored: Stored = emptyStored();
  /** In place of the one in memory. */
  readonly #checkpoint: Checkpoint | null;
  #isGated = false;
  /** A command that waits asks again and again: its request is none of an earlier catch-up. */
  #repair: RepairParameters | null = null;
  readonly #approved = new Set<string>();
  #asked = 0;
  #killed: { readonly stores: Stores; readonly controller: AbortController } | null = null;
  #controller = new AbortController();

  constructor(service: Service, watcher: Watcher, checkpoint: Checkpoint | null = null) {
    this.service = service;
    this.#watcher = watcher;
    this.#checkpoint = checkpoint;
    this.#mirror = new ModelMirror((...commit) => {
      if (this.#killed === null) watcher.committed(...commit);
    });
  }

  get table(): Table | null {
    return this.#mirror.state.table;
  }

  get checkpoint(): Checkpoint {
    return this.#checkpoint ?? modelCheckpoint(this.#stored, () => this.service.nowMs);
  }

  /** What is stored now. */
  stores(): Stores {
    return { checkpoint: copyOf(this.#stored), mirror: this.#mirror.state };
  }

  loseCheckpoint(): void {
    this.#stored = emptyStored();
  }

  /**
   * `verify --deep --repair`: compares the table with the content that the service has for its version, and asks for a repair once the
   * next catch-up begins, which performs it. A damaged table is marked. Returns a content that differs; null where none does, or nothing can be compared.
   */
  async verify(): Promise<string | null> {
    const { table, checkpoint } = this;
    const desired = checkpoint.desired(DATASET);
    const isSuspended = checkpoint.suspensions().length + checkpoint.candidates().length > 0;
    if (table === null || desired === null || desired.members.size === 0) return null;
    if (isSuspended || isPinned(table.observed)) return null;
    if (table.isDamaged) {
      checkpoint.requestResync([DATASET]);
      return null;
    }
    const parts = { ...this.#parts(), feed: modelFeed(this.service, ignore) };
    const source = new KeptManifests(parts).sourceSince(this.service.nowMs, () => true);
    const tools = { parts, staging: STAGING, fetching: pLimit(1), signal: new AbortController().signal };
    const found = await findContent(table.observed, desired, source, tools);
    if (found.kind !== 'content') return null;
    const content = await fetchContent(table.observed, found, source, tools);
    if (typeof content === 'string' || (textOf(content) === table.content && !table.isAltered)) return null;
    const { version: snapshotVersion, digest: snapshotDigest } = content.snapshot;
    const { commitNumber } = table.observed;
    this.#repair = { commitNumber, snapshotVersion, snapshotDigest };
    return textOf(content);
  }

  /** The service has refused the dataset, and nobody has resumed it. */
  get isRefused(): boolean {
    return this.checkpoint.suspensions().length > 0;
  }

  /** What the operator has decided; what was approved, by its digest. */
  get operator(): Operator {
    return { isGated: this.#isGated, approved: this.#approved };
  }

  /** Takes a step that concerns the table or the operator, and returns true; false where it is another one. */
  take({ kind }: Step): boolean {
    const effects: Readonly<Partial<Record<StepKind, () => void>>> = {
      D: () => this.#mirror.damage(),
      V: () => this.#findDamage(),
      H: () => this.#mirror.alter(),
      G: () => {
        this.#isGated = true;
      },
      Y: () => this.#approve(),
      B: () => this.#rollBack(),
      U: () => this.#letGoOn(),
    };
    effects[kind]?.();
    return effects[kind] !== undefined;
  }

  /** `verify` reads the table whole, and marks it. */
  #findDamage(): void {
    this.#mirror.damage();
    if (this.table !== null) this.checkpoint.requestResync([DATASET]);
  }

  #approve(): void {
    for (const { datasetId, version, judged } of this.checkpoint.candidates()) {
      this.#approved.add(judged.digest);
      this.#ask('approve', datasetId, { version, content: judged.digest });
    }
  }

  #rollBack(): void {
    const before = this.#mirror.state.past.at(-2)?.observed;
    if (before === undefined) return;
    const { datasetId, version, commitNumber } = before;
    this.#ask('rollback', datasetId, { commitNumber, version });
  }

  #letGoOn(): void {
    this.#liftRefusal();
    if (this.table !== null) this.#ask('resume', DATASET, null);
  }

  #liftRefusal(): void {
    this.service.isRefusing = false;
    this.checkpoint.lift({ kind: 'dataset', datasetId: DATASET });
  }

  /** The operator lifts the limit, the refusal and the pin, and asks for nothing more. */
  endOperator(): void {
    this.#liftRefusal();
    this.#repair = null;
    this.#isGated = false;
    this.#mirror.unpin();
    this.#stored.requests.clear();
  }

  #ask(command: string, datasetId: string, parameters: unknown): void {
    this.#asked += 1;
    const requestId = String(this.#asked);
    // In memory it is stored at once.
    void this.checkpoint.requests.ask({ requestId, datasetId, command, parameters }, this.#now());
  }

  #now(): Date {
    return new Date(this.service.nowMs);
  }

  restoreCheckpoint({ checkpoint }: Stores): void {
    this.#stored = copyOf(checkpoint);
  }

  restoreMirror({ mirror }: Stores): void {
    this.#mirror.state = mirror;
  }

  /** Nothing that the catch-up does from now on has an effect. */
  kill(): void {
    this.#killed ??= { stores: this.stores(), controller: this.#controller };
    this.#controller.abort(new InterruptedError('The program was killed.'));
  }

  /** One `once`. Null: it was killed. */
  async catchUp(): Promise<CatchUpResult | null> {
    this.#controller = new AbortController();
    if (this.#repair !== null) this.#ask('repair', DATASET, this.#repair);
    this.#repair = null;
    const parts = this.#parts();
    const result = await catchUpMendingDamage(parts, this.#controller.signal, undefined, makeExecutor);
    if (this.#killed !== null) {
      const { stores } = this.#killed;
      this.#killed = null;
      this.restoreCheckpoint(stores);
      this.restoreMirror(stores);
      return null;
    }
    return result;
  }

  #parts(): Parts {
    const clock: Clock = {
      now: () => new Date(this.service.nowMs),
      monotonicMs: () => this.service.nowMs,
      sleep: async () => {},
    };
    const feed = modelFeed(this.service, (request) => {
      this.#controller.signal.throwIfAborted();
      this.#watcher.asked(request);
      this.#controller.signal.throwIfAborted();
    });
    return {
      feed,
      destination: this.#mirror.destination,
      checkpoint: this.checkpoint,
      clock,
      log: SILENT,
      progress: silentProgress,
      choices: { ...CHOICES, limitsOf: () => (this.#isGated ? NO_REMOVALS : NO_LIMITS) },
      process: { command: 'once', pid: 1, host: 'model' },
    };
  }
}

const makeExecutor: MakeExecutor = (parts, signal, onError) => {
  const writer = startWriter({ ...parts, onError });
  const tools = { parts, staging: STAGING, writer, fetching: pLimit(1), signal };
  return {
    async open(known) {
      await parts.destination.enroll({
        origin: parts.feed.origin,
        subscriptionIds: [...parts.checkpoint.followed().keys()],
        forgottenSubscriptionIds: [],
        datasetIds: known.map(({ desired }) => desired.datasetId),
      });
    },
    execute: (work, dependencies) => execute(work, dependencies, tools),
    forRequests: { commit: async (job) => writer.commit(await parts.destination.validate(job)), tools },
    async discard() {},
    async discardCandidate() {},
    ended: () => writer.ended(),
    async storeProgress(progress) {
      await parts.destination.storeProgress(progress, 'if-free');
    },
  };
};
