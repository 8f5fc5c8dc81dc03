/**
 * The program in memory: the real catch-up on a model of the service, of the mirror and of the checkpoint. Where instances take over
 * from each other, each has a checkpoint of its own, and they share the mirror.
 */

import pLimit from 'p-limit';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { present } from '../../src/lib/assert.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Log } from '../../src/lib/log.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { type GateLimits, NO_LIMITS } from '../../src/model/gate.ts';
import { isPinned, type WriteJob } from '../../src/model/write-jobs.ts';
import { adoptCandidates } from '../../src/sync/candidates.ts';
import { catchUpMendingDamage } from '../../src/sync/catch-up.ts';
import { execute, type MakeExecutor } from '../../src/sync/execute/executor.ts';
import { fetchContent, findContent } from '../../src/sync/execute/fetch-content.ts';
import type { Staging } from '../../src/sync/execute/staging-folder.ts';
import { startWriter } from '../../src/sync/execute/writer.ts';
import { KeptManifests } from '../../src/sync/manifest-cache.ts';
import { type Choices, type Parts, requestsOf } from '../../src/sync/parts.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import type { RepairParameters } from '../../src/sync/repair.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import type { RequestKind, Step, StepKind } from './history.ts';
import { copyOf, emptyStored, modelCheckpoint, type Stored } from './model-checkpoint.ts';
import { type Asked, modelFeed } from './model-feed.ts';
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
  pagesOfChanges: async () => () => '',
  discardChanges: async () => {},
  keepCandidate: async () => {},
  candidatePath: () => '',
  discardCandidate: async () => {},
  discard: async () => {},
  keepOnly: async () => {},
};

/** What the program has stored. */
export interface Stores {
  /** Of each instance; that of the one that works comes first. */
  readonly checkpoints: readonly Stored[];
  readonly mirror: MirrorState;
}

/** A catch-up that was not killed. */
export interface CaughtUp {
  readonly result: CatchUpResult;
  /** Of the instance that did it. */
  readonly checkpoint: Checkpoint;
}

export interface Asking {
  /** The service has refused the dataset, and nobody has resumed it: the instance that asks knows. */
  readonly isRefused: boolean;
  /** By the instance that has taken over while the other one was stopped. */
  readonly isOfTakeover: boolean;
}

export interface Operator {
  readonly isGated: boolean;
  readonly approved: ReadonlySet<string>;
}

export interface Watcher {
  /** Before a request is answered; resolves where the answer has to wait. */
  readonly asked: (request: RequestKind, asking: Asking) => Promise<void> | null;
  readonly committed: (job: WriteJob, before: Table | null, after: Table | null) => void;
}

export class Client {
  readonly service: Service;
  readonly #watcher: Watcher;
  readonly #mirror: ModelMirror;
  /** The checkpoint of each instance. */
  #instances: Stored[] = [emptyStored()];
  /** The instance that works, or does next. */
  #working = 0;
  /** The instance of the last catch-up, which may have been superseded in it. */
  #caughtUp = 0;
  /** A takeover while the catch-up is stopped. */
  #takeover: { readonly instance: number; readonly done: Promise<unknown> } | null = null;
  /** In place of the first one in memory. */
  readonly #checkpoint: Checkpoint | null;
  #isGated = false;
  /** A command that waits asks again and again: its request is none of an earlier catch-up. */
  #repair: RepairParameters | null = null;
  readonly #approved = new Set<string>();
  #asked = 0;
  #killed: { readonly instances: Stored[]; readonly mirror: MirrorState } | null = null;
  #controller = new AbortController();

  /** `isShared`: several instances have the mirror. */
  constructor(service: Service, watcher: Watcher, isShared: boolean, checkpoint: Checkpoint | null = null) {
    this.service = service;
    this.#watcher = watcher;
    this.#checkpoint = checkpoint;
    this.#mirror = new ModelMirror(isShared, (...commit) => {
      if (this.#killed === null) watcher.committed(...commit);
    });
  }

  get table(): Table | null {
    return this.#mirror.state.table;
  }

  /** Of the instance that works. */
  get checkpoint(): Checkpoint {
    return this.#checkpointOf(this.#working);
  }

  #checkpointOf(instance: number): Checkpoint {
    const stored = present(this.#instances[instance], 'an instance has a checkpoint');
    return this.#checkpoint ?? modelCheckpoint(stored, () => this.service.nowMs);
  }

  /** What is stored now. */
  stores(): Stores {
    const working = this.#instances.slice(this.#working, this.#working + 1);
    const others = this.#instances.filter((_, instance) => instance !== this.#working);
    return { checkpoints: [...working, ...others].map(copyOf), mirror: this.#mirror.state };
  }

  loseCheckpoint(): void {
    this.#instances[this.#caughtUp] = emptyStored();
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
    const parts = { ...this.#parts(this.#working), feed: modelFeed(this.service, () => null) };
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
    const { isShared, shared } = this.#mirror;
    for (const { datasetId, version, judged } of isShared
      ? shared.candidates
      : this.checkpoint.candidates()) {
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
    for (const instance of this.#instances.keys())
      this.#checkpointOf(instance).lift({ kind: 'dataset', datasetId: DATASET });
  }

  /** The operator lifts the limit, the refusal and the pin, and asks for nothing more. */
  endOperator(): void {
    this.#liftRefusal();
    this.#repair = null;
    this.#isGated = false;
    this.#mirror.unpin();
    for (const { requests } of this.#instances) requests.clear();
    this.#mirror.shared = { ...this.#mirror.shared, requests: [] };
  }

  #ask(command: string, datasetId: string, parameters: unknown): void {
    this.#asked += 1;
    const requestId = String(this.#asked);
    const requests = requestsOf({ destination: this.#mirror.destination(), checkpoint: this.checkpoint });
    // In memory it is stored at once.
    void requests.ask({ requestId, datasetId, command, parameters }, this.#now());
  }

  #now(): Date {
    return new Date(this.service.nowMs);
  }

  restoreCheckpoint({ checkpoints: [checkpoint] }: Stores): void {
    this.#instances[this.#caughtUp] = copyOf(present(checkpoint, 'an instance has a checkpoint'));
  }

  restoreMirror({ mirror }: Stores): void {
    this.#mirror.state = mirror;
  }

  /** Nothing that the catch-up does from now on has an effect. */
  kill(): void {
    this.#killed ??= { instances: this.#instances.map(copyOf), mirror: this.#mirror.state };
    this.#controller.abort(new InterruptedError('The program was killed.'));
  }

  /** One `once` of the instance that works. Null: it was killed. */
  async catchUp(): Promise<CaughtUp | null> {
    this.#controller = new AbortController();
    if (this.#repair !== null) this.#ask('repair', DATASET, this.#repair);
    this.#repair = null;
    this.#caughtUp = this.#working;
    const caughtUp = await this.#catchUpAs(this.#working, this.#controller.signal);
    if (this.#killed !== null) {
      const { instances, mirror } = this.#killed;
      this.#killed = null;
      this.#instances = instances;
      this.#mirror.state = mirror;
      return null;
    }
    return caughtUp;
  }

  /** While a catch-up is stopped another instance takes the lease and catches up. The stopped one then goes on. */
  async takeOver(): Promise<CaughtUp> {
    this.#handOver((instance) => instance === this.#working || instance === this.#caughtUp);
    const done = this.#catchUpAs(this.#working, new AbortController().signal);
    this.#takeover = { instance: this.#working, done };
    return await done.finally(() => {
      this.#takeover = null;
    });
  }

  /** Another instance works from now on, while none is at work: a new one, or one that worked before. */
  handOver(to: 'new' | 'superseded'): void {
    this.#handOver((instance) => to === 'new' || instance === this.#working);
  }

  /** To one that is not busy, else to a new one. */
  #handOver(isBusy: (instance: number) => boolean): void {
    const idle = [...this.#instances.keys()].find((instance) => !isBusy(instance));
    this.#working = idle ?? this.#instances.push(emptyStored()) - 1;
  }

  async #catchUpAs(instance: number, signal: AbortSignal): Promise<CaughtUp> {
    this.#mirror.takeLease();
    const parts = this.#parts(instance, signal);
    await adoptCandidates(parts);
    const result = await catchUpMendingDamage(parts, signal, undefined, makeExecutor);
    return { result, checkpoint: parts.checkpoint };
  }

  /** Returns what is asked before each request of an instance. While it is stopped it asks nothing. */
  #askedBy(instance: number, signal: AbortSignal): Asked {
    const isOfTakeover = instance !== this.#caughtUp;
    const ask: Asked = (request) => {
      const isRefused = this.#checkpointOf(instance).suspensions().length > 0;
      const waiting = this.#watcher.asked(request, { isRefused, isOfTakeover });
      if (waiting !== null) return waiting.then(() => signal.throwIfAborted());
      signal.throwIfAborted();
      return null;
    };
    return (request) => {
      signal.throwIfAborted();
      const takeover = this.#takeover;
      const isStopped = takeover !== null && takeover.instance !== instance;
      return isStopped ? takeover.done.then(() => ask(request) ?? undefined) : ask(request);
    };
  }

  #parts(instance: number, signal = new AbortController().signal): Parts {
    const clock: Clock = {
      now: () => new Date(this.service.nowMs),
      monotonicMs: () => this.service.nowMs,
      sleep: async () => {},
    };
    return {
      feed: modelFeed(this.service, this.#askedBy(instance, signal)),
      destination: this.#mirror.destination(),
      checkpoint: this.#checkpointOf(instance),
      clock,
      log: SILENT,
      progress: silentProgress,
      choices: { ...CHOICES, limitsOf: () => (this.#isGated ? NO_REMOVALS : NO_LIMITS) },
      process: { command: 'once', pid: instance + 1, host: 'model' },
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
