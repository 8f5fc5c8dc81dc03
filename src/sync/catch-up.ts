/**
 * One catch-up: takes every step of the engine until nothing more can be done now, and is repeated where damage can be mended.
 * Never throws for an error of the service, of a dataset or of the disk: the result reports it.
 */

import type { Suspension } from '../checkpoint/checkpoint.ts';
import type { Random } from '../lib/backoff.ts';
import { confirmedAt } from '../model/absence.ts';
import { isDamage, markDamaged, withLost } from './damage.ts';
import { Engine } from './engine.ts';
import { liveExecutor, type MakeExecutor } from './execute/executor.ts';
import { warnOfOldPosition } from './follow/subscriptions.ts';
import { type Incidents, watchIncidents } from './incidents.ts';
import { type Parts, requestsOf } from './parts.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';
import { SubscriptionProgress, SubscriptionReader } from './subscription-reader.ts';
import { currentSuspensions } from './suspensions.ts';
import { WorkQueue } from './work-queue.ts';
import { WorkerPool } from './worker-pool.ts';

/**
 * The most rounds over all subscriptions. After a drop the logs are read again, because a log that was read before may lack the addition
 * of the same dataset.
 */
const MAX_ROUNDS = 3;

/** How often in a row a catch-up is repeated because it met damage. */
const MAX_REPEATS = 3;

/** The choice of the datasets that are reconciled. */
export type IsAsked = (datasetId: string) => boolean;

const EVERY_DATASET: IsAsked = () => true;

/**
 * Catches up once. `signal` is aborted with an `InterruptedError` to stop early; earlier commits are kept. Every log is read, also where a
 * few datasets are asked for.
 */
export async function catchUp(
  given: Parts,
  signal: AbortSignal,
  makeExecutor: MakeExecutor = liveExecutor,
  isAsked: IsAsked = EVERY_DATASET,
): Promise<CatchUpResult> {
  const startedMs = given.clock.monotonicMs();
  const engine = new Engine(given);
  const { parts } = engine;
  const incidents = watchIncidents(parts, signal);
  const { subscriptions, datasets, readAt } = await new CatchUp({
    engine,
    incidents,
    makeExecutor,
    isAsked,
  }).execute();
  await forgetPast(parts, incidents, signal);
  return {
    subscriptions,
    datasets,
    suspensions: suspensionsAtTheEnd(parts, incidents),
    incidents: incidents.incidents,
    again: attempt(incidents, () => againAfter(datasets, parts, readAt)),
    durationMs: parts.clock.monotonicMs() - startedMs,
  };
}

/** Catches up, and again where the catch-up met damage that another one mends. Never throws. */
export async function catchUpMendingDamage(
  parts: Parts,
  signal: AbortSignal,
  isAsked?: IsAsked,
  makeExecutor: MakeExecutor = liveExecutor,
): Promise<CatchUpResult> {
  let result = await catchUp(parts, signal, makeExecutor, isAsked);
  const lost: string[] = [];
  for (let repeats = 0; repeats < MAX_REPEATS && !signal.aborted; repeats += 1) {
    if (!result.incidents.some(({ error }) => isDamage(error))) break;
    const found = await markDamaged(parts);
    lost.push(...found.lost);
    if (!found.isMendable) break;
    result = together(result, await catchUp(parts, signal, makeExecutor, isAsked));
  }
  return withLost(result, lost);
}

/** Returns the later of two catch-ups, with the commits of both. */
export function together(earlier: CatchUpResult, later: CatchUpResult): CatchUpResult {
  const before = new Map(earlier.datasets.map((one) => [one.datasetId, one]));
  return {
    ...later,
    datasets: later.datasets.map((one) => withCommits(one, before.get(one.datasetId))),
    durationMs: earlier.durationMs + later.durationMs,
  };
}

function withCommits(later: DatasetResult, earlier: DatasetResult | undefined): DatasetResult {
  if (earlier === undefined || earlier.commits.length === 0) return later;
  const commits = [...earlier.commits, ...later.commits];
  return later.kind === 'current' ? { ...later, kind: 'updated', commits } : { ...later, commits };
}

interface Work {
  /** The number of chosen subscriptions. */
  readonly subscriptions: number;
  readonly datasets: readonly DatasetResult[];
  /** When the subscriptions were listed last, in service time; null: they were not. */
  readonly readAt: Date | null;
}

/**
 * Returns when another catch-up helps at the earliest, as far as a rule says so. A time before the subscriptions were listed
 * does not count: it was waited for in vain, or not alone.
 */
function againAfter(
  datasets: readonly DatasetResult[],
  { checkpoint }: Parts,
  readAt: Date | null,
): CatchUpResult['again'] {
  if (readAt === null) return null;
  const ofDatasets = datasets.flatMap((result) => {
    if (result.kind === 'waiting') return result.until ?? [];
    return 'recheckAt' in result ? (result.recheckAt ?? []) : [];
  });
  const times = [...ofDatasets, ...checkpoint.absences().map(confirmedAt)]
    .map((timestamp) => timestamp.getTime())
    .filter((time) => time > readAt.getTime());
  if (times.length === 0) return null;
  const at = new Date(Math.min(...times));
  return { at, inMs: at.getTime() - readAt.getTime() };
}

/** The past has a limit of its own, also where nothing was committed and where the service may not be asked. */
async function forgetPast({ destination }: Parts, incidents: Incidents, signal: AbortSignal): Promise<void> {
  try {
    for (let isMore = true; isMore && !signal.aborted; ) isMore = (await destination.forgetPast()) === 'part';
  } catch (error) {
    incidents.record(error, null);
  }
}

/** Returns all suspensions but those of single datasets. */
function suspensionsAtTheEnd(parts: Parts, incidents: Incidents): readonly Suspension[] {
  const suspensions = attempt(incidents, () => {
    const { workspace, subscriptions, retirement } = currentSuspensions(parts);
    return [workspace, ...subscriptions.values(), retirement].filter((suspension) => suspension !== null);
  });
  return suspensions ?? [];
}

/** An error of a store at the end is an incident of the run. */
function attempt<T>(incidents: Incidents, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    incidents.record(error, null);
    return null;
  }
}

interface CatchUpOptions {
  readonly engine: Engine;
  readonly incidents: Incidents;
  readonly makeExecutor: MakeExecutor;
  readonly isAsked: IsAsked;
}

class CatchUp {
  readonly #engine: Engine;
  readonly #isAsked: IsAsked;
  readonly #parts: Parts;
  readonly #incidents: Incidents;
  readonly #makeExecutor: MakeExecutor;
  readonly #reader: SubscriptionReader<SubscriptionProgress>;

  constructor({ engine, incidents, makeExecutor, isAsked }: CatchUpOptions) {
    this.#engine = engine;
    this.#isAsked = isAsked;
    this.#parts = engine.parts;
    this.#incidents = incidents;
    this.#makeExecutor = makeExecutor;
    this.#reader = new SubscriptionReader({
      engine,
      signal: incidents.signal,
      atOnce: 1,
      create: (record) => new SubscriptionProgress(record),
      onEnded: ({ id }, _startedMs, error) => {
        if (error === null) warnOfOldPosition(id, this.#reader.listedAt, engine.parts);
        else incidents.record(error, id);
      },
    });
  }

  /**
   * Follows and reconciles. Each step records its own errors; an error of the run as a whole ends the catch-up. Where the workspace is
   * refused, no request is made.
   */
  async execute(): Promise<Work> {
    let subscriptions = 0;
    try {
      if (currentSuspensions(this.#parts).workspace !== null)
        return { subscriptions, datasets: [], readAt: null };
      await this.#reader.connect(true);
      subscriptions = this.#reader.subscriptions.size;
      await this.#followRounds();
      await this.#engine.reloadMissing();
      return { subscriptions, datasets: await this.#reconcileAll(), readAt: this.#reader.listedAt };
    } catch (error) {
      this.#incidents.record(error, null);
      return { subscriptions, datasets: [], readAt: null };
    }
  }

  /** Reads all logs until no drop is new, because a drop counts once every log was read after it. */
  async #followRounds(): Promise<void> {
    for (let rounds = 1; ; rounds += 1) {
      const before = this.#leaving();
      this.#forgetReadings();
      await this.#reader.readOwing();
      this.#incidents.signal.throwIfAborted();
      const isNew = this.#leaving().some((drop) => !before.includes(drop));
      if (!isNew) return;
      // Datasets that were dropped in the last round wait for the next catch-up.
      if (rounds === MAX_ROUNDS) return this.#forgetReadings();
      await this.#reader.connect(false);
    }
  }

  /** Forgets the readings, so that every subscription is read again before its log counts. */
  #forgetReadings(): void {
    for (const subscription of this.#reader.subscriptions.values()) {
      subscription.owesAudit = true;
      subscription.headAtMs = null;
    }
  }

  /** Returns a text for each drop of a dataset that has a table and is in no subscription. */
  #leaving(): readonly string[] {
    const desiredStates = this.#parts.checkpoint.desiredStates();
    const left = [...this.#engine.mirror.observed.datasets.keys()]
      .flatMap((datasetId) => desiredStates.get(datasetId) ?? [])
      .filter(({ members }) => members.size === 0);
    return left.flatMap(({ datasetId, formerMembers }) => [
      datasetId,
      ...[...formerMembers].map(([id, { eventNumber, at }]) =>
        [datasetId, id, eventNumber, at.toISOString()].join(' '),
      ),
    ]);
  }

  async #reconcileAll(): Promise<readonly DatasetResult[]> {
    const engine = this.#engine;
    const { progress } = this.#parts;
    const isAtHead = (subscriptionId: string): boolean => this.#reader.isAtHead(subscriptionId);
    const results: DatasetResult[] = [];
    const queue = new WorkQueue(NO_CHANCE);
    const pool = new WorkerPool({
      engine,
      queue,
      signal: this.#incidents.signal,
      makeExecutor: this.#makeExecutor,
      watch: () => this.#incidents,
      sourceOf: () => engine.entriesSince(Number.NEGATIVE_INFINITY, isAtHead, true),
      isAtHead,
      verdictOf: this.#reader.judge(Number.NEGATIVE_INFINITY),
      onSettled({ result }) {
        results.push(result);
        progress.settled(result);
      },
      onGone() {},
      onPerformed() {},
      onError: (error) => this.#incidents.record(error, null),
    });
    const datasets = engine.datasets().filter(({ desired }) => this.#isAsked(desired.datasetId));
    progress.started(datasets.length);
    for (const { desired } of datasets) queue.ask(desired.datasetId, this.#parts.clock.monotonicMs());
    pool.perform(await requestsOf(this.#parts).waitingDatasets(this.#parts.clock.now()));
    const executor = await pool.drain();
    // A mirror that is not free is no error: the next catch-up stores the progress.
    const unstored = engine.progressToStore();
    if (unstored !== null) await executor.storeProgress(unstored);
    return results.sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1));
  }
}

/** A catch-up puts no work off, so chance has no part in it. */
const NO_CHANCE: Random = { next: () => 0 };
