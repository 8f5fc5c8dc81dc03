/**
 * One catch-up: settle the contract, read the subscriptions, turn logs and manifests into wants, and reconcile every
 * dataset that is wanted or has a table that is wanted no more, several side by side. Ends when nothing more can be done
 * now; never throws for the trouble of the service, of a dataset or of the disk, but tells it in the result.
 */

import pLimit from 'p-limit';
import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Held } from '../destination/destination.ts';
import type { Subscription } from '../model/subscription.ts';
import { type Connected, connect } from './follow/connect.ts';
import { follow } from './follow/follow.ts';
import { warnOfOldPosition } from './follow/position-age.ts';
import { standingHolds } from './holds.ts';
import { judgeRetirements } from './judge-retirements.ts';
import { knownDatasets } from './known-datasets.ts';
import { bookOfRead } from './offer-book.ts';
import type { Offers } from './offers.ts';
import type { Parts } from './parts.ts';
import { type Reconciliation, reconcile } from './reconcile.ts';
import type { CatchUpResult, DatasetResult } from './result.ts';
import { type Troubles, watchTroubles } from './trouble.ts';
import { inEarnest, type MakeWorkshop } from './work/workshop.ts';

/**
 * Datasets reconciled side by side: so many that small ones fill the windows they share, of which each costs the more the
 * more tables there are.
 */
export const DATASETS_AT_ONCE = 128;

/** `signal` is aborted with an `InterruptedError` to stop it early; what was committed by then is kept. */
export async function catchUp(
  parts: Parts,
  signal: AbortSignal,
  makeWorkshop: MakeWorkshop = inEarnest,
): Promise<CatchUpResult> {
  const startedMs = parts.clock.monotonicMs();
  const troubles = watchTroubles(parts, signal);
  const { subscriptions, datasets } = await carryOut(parts, troubles, makeWorkshop);
  return {
    subscriptions: subscriptions.length,
    datasets,
    holds: holdsAtTheEnd(parts, troubles),
    troubles: troubles.troubles,
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
async function carryOut(parts: Parts, troubles: Troubles, makeWorkshop: MakeWorkshop): Promise<Work> {
  let subscriptions: readonly Subscription[] = [];
  try {
    if (standingHolds(parts).workspace !== null) return NO_WORK;
    const connected = await connect(parts, () => parts.destination.has(), troubles.signal);
    subscriptions = connected.subscriptions;
    const followed = await followAll(connected, parts, troubles);
    const datasets = await reconcileAll(connected.held, followed, parts, troubles, makeWorkshop);
    return { subscriptions, datasets };
  } catch (error) {
    troubles.record(error, null);
    return { subscriptions, datasets: [] };
  }
}

/** But for those of single datasets. */
function holdsAtTheEnd(parts: Parts, troubles: Troubles): readonly Hold[] {
  try {
    const { workspace, subscriptions, retirement } = standingHolds(parts);
    return [workspace, ...subscriptions.values(), retirement].filter((hold) => hold !== null);
  } catch (error) {
    troubles.record(error, null);
    return [];
  }
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
      warnOfOldPosition(subscription.id, parts);
    } catch (error) {
      troubles.record(error, subscription.id);
    }
    troubles.signal.throwIfAborted();
  }
  return offers;
}

/** `offers`: of every subscription whose log was read to its head. */
async function reconcileAll(
  held: Held,
  offers: readonly Offers[],
  parts: Parts,
  troubles: Troubles,
  makeWorkshop: MakeWorkshop,
): Promise<readonly DatasetResult[]> {
  const { progress } = parts;
  const readToHead = new Set(offers.map(({ subscriptionId }) => subscriptionId));
  const verdictOf = judgeRetirements(held, readToHead, parts);
  const known = knownDatasets(parts, held);
  progress.started(known.length);
  const workshop = makeWorkshop(parts, troubles.signal, (error) => troubles.record(error, null));
  await workshop.open(known);
  const run: Reconciliation = {
    parts,
    workshop,
    signal: troubles.signal,
    bookFor: () => bookOfRead(offers),
    isAtHead: (subscriptionId) => readToHead.has(subscriptionId),
    lookAgain: (dataset) => dataset,
    verdictOf,
    record: (error, dataset) => troubles.recordForDataset(error, dataset),
  };
  const results = await pLimit(DATASETS_AT_ONCE).map(known, async (dataset) => {
    const result = await reconcile(dataset, run);
    progress.settled(result);
    return result;
  });
  await workshop.ended();
  return results;
}
