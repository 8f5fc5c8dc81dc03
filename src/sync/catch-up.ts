/**
 * One catch-up: settle the contract, read the subscriptions, turn logs and manifests into wants, and reconcile every
 * dataset that is wanted or has a table that is wanted no more, several side by side. Ends when nothing more can be done
 * now; never throws for the trouble of the service, of a dataset or of the disk, but tells it in the result.
 */

import pLimit from 'p-limit';
import type { Suspension } from '../checkpoint/checkpoint.ts';
import { confirmedAt } from '../model/absence.ts';
import type { Subscription } from '../model/records.ts';
import { datasetStates, MirrorView } from './dataset-states.ts';
import { liveExecutor, type MakeExecutor, type StepExecutor } from './execute/executor.ts';
import { follow } from './follow/follow.ts';
import { type Connected, connect, warnOfOldPosition } from './follow/position.ts';
import { readLogsOf } from './follow/read-log.ts';
import { askReload } from './follow/reload-requests.ts';
import { type Incidents, watchIncidents } from './incidents.ts';
import { KeptManifests } from './manifest-cache.ts';
import type { Parts } from './parts.ts';
import { type Reconciliation, reconcile } from './reconcile.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';
import { judgeRetirements } from './retirements.ts';
import { isSameProgress, progressToStore } from './stored-progress.ts';
import { currentSuspensions } from './suspensions.ts';

/**
 * Datasets reconciled side by side: so many that small ones fill the windows they share, of which each costs the more the
 * more tables there are.
 */
export const DATASETS_AT_ONCE = 128;

/**
 * Times that all subscriptions are read at the most: where one has dropped a dataset, what was read of the others before
 * may not know yet that it has come back there.
 */
const MAX_ROUNDS = 3;

/** `signal` is aborted with an `InterruptedError` to stop it early; what was committed by then is kept. */
export async function catchUp(
  given: Parts,
  signal: AbortSignal,
  makeExecutor: MakeExecutor = liveExecutor,
): Promise<CatchUpResult> {
  const startedMs = given.clock.monotonicMs();
  const mirror = new MirrorView(given.destination, (observed) =>
    progressToStore(observed, given, 'with-commits'),
  );
  const parts = { ...given, destination: mirror.destination };
  const incidents = watchIncidents(parts, signal);
  const { subscriptions, datasets, readAt } = await new CatchUp(
    parts,
    mirror,
    incidents,
    makeExecutor,
  ).execute();
  return {
    subscriptions: subscriptions.length,
    datasets,
    suspensions: suspensionsAtTheEnd(parts, incidents),
    incidents: incidents.incidents,
    again: attempt(incidents, () => againAfter(datasets, parts, readAt)),
    durationMs: parts.clock.monotonicMs() - startedMs,
  };
}

interface Work {
  readonly subscriptions: readonly Subscription[];
  readonly datasets: readonly DatasetResult[];
  /** When the subscriptions were listed last, in service time; null: they were not. */
  readonly readAt: Date | null;
}

/**
 * When running again helps at the earliest, as far as a rule says so. What passed before the subscriptions were listed was
 * waited for in vain, or is not all that is waited for.
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

/** But for those of single datasets. */
function suspensionsAtTheEnd(parts: Parts, incidents: Incidents): readonly Suspension[] {
  const suspensions = attempt(incidents, () => {
    const { workspace, subscriptions, retirement } = currentSuspensions(parts);
    return [workspace, ...subscriptions.values(), retirement].filter((suspension) => suspension !== null);
  });
  return suspensions ?? [];
}

/** What a store says at the end is trouble of the run. */
function attempt<T>(incidents: Incidents, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    incidents.record(error, null);
    return null;
  }
}

class CatchUp {
  readonly #parts: Parts;
  readonly #mirror: MirrorView;
  readonly #incidents: Incidents;
  readonly #makeExecutor: MakeExecutor;
  readonly #manifests: KeptManifests;
  /** The subscriptions whose logs and manifests were read in the last round. */
  #readToHead: ReadonlySet<string> = new Set();
  /** As they were listed for it, and when that was, in service time. */
  #records: readonly Subscription[] = [];
  #readAt = new Date(0);

  constructor(parts: Parts, mirror: MirrorView, incidents: Incidents, makeExecutor: MakeExecutor) {
    this.#parts = parts;
    this.#mirror = mirror;
    this.#incidents = incidents;
    this.#makeExecutor = makeExecutor;
    this.#manifests = new KeptManifests(parts);
  }

  /**
   * Each step records its own trouble; trouble of the run as a whole ends it where it is. Where the workspace is refused,
   * not one call is made.
   */
  async execute(): Promise<Work> {
    let subscriptions: readonly Subscription[] = [];
    try {
      if (currentSuspensions(this.#parts).workspace !== null)
        return { subscriptions, datasets: [], readAt: null };
      const connected = await connect(this.#parts, () => this.#mirror.look(true), this.#incidents.signal);
      subscriptions = connected.subscriptions;
      await this.#followRounds(connected);
      const datasets = await this.#reconcileAll();
      return { subscriptions, datasets, readAt: this.#readAt };
    } catch (error) {
      this.#incidents.record(error, null);
      return { subscriptions, datasets: [], readAt: null };
    }
  }

  /** A drop that was read counts once everything was read after it. */
  async #followRounds(connected: Connected): Promise<void> {
    let round = connected;
    for (let rounds = 1; ; rounds += 1) {
      const before = this.#leaving();
      await this.#followAll(round);
      const isNew = this.#leaving().some((drop) => !before.includes(drop));
      if (!isNew) return;
      if (rounds === MAX_ROUNDS) {
        // What was dropped in the last round waits for the next catch-up.
        this.#readToHead = new Set();
        return;
      }
      round = await connect(this.#parts, async () => this.#mirror.observed, this.#incidents.signal);
    }
  }

  /** Each drop of a dataset that has a table and is in no subscription, as a text that tells one from another. */
  #leaving(): readonly string[] {
    const desiredStates = this.#parts.checkpoint.desiredStates();
    const left = [...this.#mirror.observed.datasets.keys()]
      .flatMap((datasetId) => desiredStates.get(datasetId) ?? [])
      .filter(({ members }) => members.size === 0);
    return left.flatMap(({ datasetId, formerMembers }) => [
      datasetId,
      ...[...formerMembers].map(([id, { eventNumber, at }]) =>
        [datasetId, id, eventNumber, at.toISOString()].join(' '),
      ),
    ]);
  }

  async #followAll({ subscriptions, readAt }: Connected): Promise<void> {
    const parts = this.#parts;
    const read = new Set<string>();
    this.#records = subscriptions;
    this.#readAt = readAt;
    for (const record of subscriptions) {
      if (currentSuspensions(parts).ofSubscription(record.id) !== null) continue;
      const startedMs = parts.clock.monotonicMs();
      try {
        const listedEntries = await follow(
          { record, readAt },
          this.#mirror.observed,
          parts,
          this.#incidents.signal,
        );
        this.#manifests.keep(listedEntries, startedMs);
        read.add(record.id);
        warnOfOldPosition(record.id, readAt, parts);
      } catch (error) {
        this.#incidents.record(error, record.id);
      }
      this.#incidents.signal.throwIfAborted();
    }
    this.#readToHead = read;
  }

  /** What no commit has taken along. That the mirror is not free is no trouble: the next catch-up stores it. */
  async #storeProgress(executor: StepExecutor): Promise<void> {
    const { observed } = this.#mirror;
    const progress = progressToStore(observed, this.#parts, 'alone');
    if (progress === null || isSameProgress(observed.progress, progress)) return;
    await executor.storeProgress(progress);
  }

  async #reconcileAll(): Promise<readonly DatasetResult[]> {
    const parts = this.#parts;
    const { signal } = this.#incidents;
    const { observed } = this.#mirror;
    const readToHead = this.#readToHead;
    const judging = { observed, records: this.#records, readToHead, readAt: this.#readAt };
    const verdictOf = judgeRetirements(judging, parts);
    const known = datasetStates(parts, observed);
    parts.progress.started(known.length);
    const executor = this.#makeExecutor(parts, signal, (error) => this.#incidents.record(error, null));
    await executor.open(known);
    const run: Reconciliation = {
      parts,
      executor,
      signal,
      entriesFor: () =>
        this.#manifests.sourceSince(
          Number.NEGATIVE_INFINITY,
          (subscriptionId) => readToHead.has(subscriptionId),
          true,
        ),
      isAtHead: (subscriptionId) => readToHead.has(subscriptionId),
      askReload: (request) =>
        askReload(request, (datasetId) => observed.datasets.get(datasetId) ?? null, parts, signal),
      readLogs: (datasetId) =>
        readLogsOf(datasetId, (id) => observed.datasets.get(id) ?? null, parts, signal),
      readAgain: (dataset) => dataset,
      verdictOf,
      record: (error, dataset) => this.#incidents.recordForDataset(error, dataset),
    };
    const results = await pLimit(DATASETS_AT_ONCE).map(known, async (dataset) => {
      const result = await reconcile(dataset, run);
      parts.progress.settled(result);
      return result;
    });
    await executor.ended();
    await this.#storeProgress(executor);
    return results;
  }
}
