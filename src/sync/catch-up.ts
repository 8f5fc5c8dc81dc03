/**
 * One catch-up: settle the contract, read the subscriptions, turn logs and manifests into wants, and reconcile every
 * dataset that is wanted, several side by side. Ends when nothing more can be done now; never throws for the
 * trouble of the service, of a dataset or of the disk, but tells it in the result.
 */

import pLimit from 'p-limit';
import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Held } from '../destination/destination.ts';
import type { Subscription } from '../model/subscription.ts';
import { follow } from './follow.ts';
import { standingHolds } from './holds.ts';
import { holdMissing, subscriptionsBefore } from './missing-subscriptions.ts';
import type { Offers } from './offers.ts';
import { refuseForeignMirror } from './ownership.ts';
import type { Parts } from './parts.ts';
import { reconcile } from './reconcile.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';
import { chosenSubscriptions, isChosenDataset } from './selection.ts';
import { openStaging } from './staging.ts';
import type { Known } from './state.ts';
import { type Troubles, watchTroubles } from './trouble.ts';
import { startWriter } from './writer.ts';

/** Datasets reconciled side by side: enough to keep downloads going while others are committed. */
const DATASETS_AT_ONCE = 32;

/** `signal` is aborted with an `InterruptedError` to stop it early; what was committed by then is kept. */
export async function catchUp(parts: Parts, signal: AbortSignal): Promise<CatchUpResult> {
  const startedMs = parts.clock.monotonicMs();
  const troubles = watchTroubles(parts, signal);
  const { subscriptions, datasets } = await carryOut(parts, troubles);
  const holds = holdsAtTheEnd(subscriptions, parts, troubles);
  return {
    subscriptions: subscriptions.length,
    datasets,
    troubles: troubles.troubles,
    holds,
    durationMs: parts.clock.monotonicMs() - startedMs,
  };
}

interface Work {
  readonly subscriptions: readonly Subscription[];
  readonly datasets: readonly DatasetResult[];
}

const NO_WORK: Work = { subscriptions: [], datasets: [] };

/**
 * Each step records its own trouble; trouble of the run as a whole ends it where it is. Where the workspace is refused,
 * not one call is made.
 */
async function carryOut(parts: Parts, troubles: Troubles): Promise<Work> {
  let subscriptions: readonly Subscription[] = [];
  try {
    if (standingHolds(parts).workspace !== null) return NO_WORK;
    const connected = await connect(parts, troubles.signal);
    subscriptions = connected.subscriptions;
    const offers = await followAll(connected, parts, troubles);
    const datasets = await reconcileAll(connected.held, offers, parts, troubles);
    return { subscriptions, datasets };
  } catch (error) {
    troubles.record(error, null);
    return { subscriptions, datasets: [] };
  }
}

/** Of the workspace and of the subscriptions. */
function holdsAtTheEnd(
  subscriptions: readonly Subscription[],
  parts: Parts,
  troubles: Troubles,
): readonly Hold[] {
  try {
    const holds = standingHolds(parts);
    const standing = [holds.workspace, ...subscriptions.map(({ id }) => holds.ofSubscription(id))];
    return standing.filter((hold) => hold !== null);
  } catch (error) {
    troubles.record(error, null);
    return [];
  }
}

interface Connected {
  readonly subscriptions: readonly Subscription[];
  readonly held: Held;
}

async function connect(parts: Parts, signal: AbortSignal): Promise<Connected> {
  const { feed, destination, choices } = parts;
  // Listed first: a key that is refused costs this one call.
  const seen = await feed.subscriptions(signal);
  await feed.discover(signal);
  const held = await destination.has();
  refuseForeignMirror(held, feed.origin, seen);
  const before = subscriptionsBefore(held, parts);
  const subscriptions = chosenSubscriptions(seen, choices.subscriptions, before);
  holdMissing(seen, subscriptions, held, parts);
  return { subscriptions, held };
}

async function followAll(
  { subscriptions, held }: Connected,
  parts: Parts,
  troubles: Troubles,
): Promise<readonly Offers[]> {
  const offers: Offers[] = [];
  for (const subscription of subscriptions) {
    if (standingHolds(parts).ofSubscription(subscription.id) !== null) continue;
    try {
      offers.push(await follow(subscription, held, parts, troubles.signal));
    } catch (error) {
      troubles.record(error, subscription.id);
    }
    troubles.signal.throwIfAborted();
  }
  return offers;
}

async function reconcileAll(
  held: Held,
  offers: readonly Offers[],
  parts: Parts,
  troubles: Troubles,
): Promise<readonly DatasetResult[]> {
  const { checkpoint, destination, feed, progress, choices } = parts;
  const known = knownDatasets(parts, held);
  const datasetIds = known.map(({ want }) => want.datasetId);
  progress.started(known.length);
  const staging = openStaging(choices.stagingDirectory);
  await staging.keepOnly(datasetIds);
  const subscriptionIds = [...checkpoint.followed().keys()];
  await destination.enroll({ origin: feed.origin, subscriptionIds, datasetIds });
  const run = { parts, staging, writer: startWriter(destination), signal: troubles.signal, offers };
  return pLimit(DATASETS_AT_ONCE).map(known, async (dataset) => {
    const result = await reconcile(dataset, run).catch((error: unknown) =>
      troubles.recordForDataset(error, dataset),
    );
    progress.settled(result);
    return result;
  });
}

/** Every chosen dataset that a subscription holds, in order of id: the order in which tables get their names. */
function knownDatasets(parts: Parts, held: Held): readonly Known[] {
  const { checkpoint, choices, log } = parts;
  const holds = standingHolds(parts);
  const failures = checkpoint.failures();
  const members = [...checkpoint.wants().values()].filter((want) => want.members.size > 0);
  const chosen = members.filter(({ datasetId }) =>
    isChosenDataset(datasetId, choices.include, choices.exclude),
  );
  if (chosen.length === 0 && members.length > 0) {
    log.warn({ datasets: members.length }, 'datasets.include and datasets.exclude leave no dataset.');
  }
  return chosen
    .sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1))
    .map((want) => ({
      want,
      held: held.datasets.get(want.datasetId) ?? null,
      hold: holds.ofDataset(want.datasetId),
      failure: failures.get(want.datasetId) ?? null,
    }));
}
