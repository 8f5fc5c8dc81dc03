/**
 * One catch-up of an installation inside this process, watched: nothing is asked about what is held, nothing ends in a
 * bug, and what was done is counted.
 */

import { FeedSyncError, UnusableChangesError } from '../../src/model/errors.ts';
import { catchUp as catchUpParts } from '../../src/sync/catch-up.ts';
import type { Parts } from '../../src/sync/parts.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { type DatasetEffort, refuseTooManyCalls } from './bounds.ts';
import { BrokenRule, refuseBroken, refuseCallsAboutHeld } from './rules.ts';
import type { World } from './world.ts';

const LINES_OF_A_CATCH_UP = 200;

/** @throws BrokenRule */
export async function catchUp(world: World): Promise<CatchUpResult> {
  const { feed, installation, tally } = world;
  world.tick();
  world.catchUps += 1;
  const parts = await installation.parts();
  const heldBefore = parts.checkpoint.holds();
  noteUnreadable(world, parts);
  const startedAt = parts.clock.now();
  feed.requests.clear();
  const result = await catchUpParts(observed(parts, world), new AbortController().signal);
  world.told.push(`  caught up: ${describe(result)}`);
  refuseBugs(result);
  refuseBroken(world);
  refuseCallsAboutHeld(heldBefore, parts.checkpoint.holds(), feed.requests.entries());
  refuseTooManyCalls(feed.requests.entries(), effortsOf(result, startedAt, parts), world);
  tally.add('requests', feed.requests.entries().length);
  for (const { kind } of result.datasets) tally.add(`result: ${kind}`);
  if (feed.requests.entries('events').some(({ status }) => status === 410)) tally.add('seen: 410 on a log');
  return result;
}

/**
 * Nothing is asked of a subscription that is held, and nobody waits for what it may hold: what was not known of it may
 * leave the mirror where all others have dropped it.
 */
function noteUnreadable(world: World, { checkpoint }: Parts): void {
  const held = checkpoint.holds().flatMap(({ refusal: { scope } }) => {
    return scope.kind === 'subscription' ? [scope.subscriptionId] : [];
  });
  const wants = checkpoint.wants();
  for (const datasetId of world.datasetIds) {
    const holders = world.feed.store.holders(datasetId);
    const isUnreadable = holders.every(
      ({ subscriptionId }) =>
        held.includes(subscriptionId) && wants.get(datasetId)?.members.has(subscriptionId) !== true,
    );
    if (isUnreadable) world.mayLeave.add(datasetId);
  }
}

/** As the journal of the checkpoint tells it. */
function effortsOf(
  { datasets }: CatchUpResult,
  startedAt: Date,
  { checkpoint }: Parts,
): ReadonlyMap<string, DatasetEffort> {
  const gaveWay = checkpoint
    .recentJournal(LINES_OF_A_CATCH_UP)
    .filter(({ kind, at }) => kind === 'gave way' && at >= startedAt);
  return new Map(
    datasets.map(({ datasetId, commits }) => [
      datasetId,
      {
        commits: commits.length,
        gaveWay: gaveWay.filter((line) => line.datasetId === datasetId).length,
      },
    ]),
  );
}

/** The same parts, of which every unit of work is counted. */
function observed(parts: Parts, { tally }: World): Parts {
  const { destination } = parts;
  return {
    ...parts,
    destination: {
      has: () => destination.has(),
      enroll: (enrolment) => destination.enroll(enrolment),
      async prepare(unit) {
        try {
          return await destination.prepare(unit);
        } catch (error) {
          if (error instanceof UnusableChangesError) tally.add('unit: changes, given up for a snapshot');
          throw error;
        }
      },
      readAhead: (unit) => destination.readAhead(unit),
      commit: (queue) =>
        destination.commit({
          take: () => queue.take(),
          arrival: () => queue.arrival(),
          tell(prepared, outcome) {
            const { unit } = prepared;
            tally.add(`unit: ${unit.kind}, ${outcome.kind}`);
            if (unit.kind === 'changes' && outcome.kind === 'committed') {
              if (unit.versions.length > 1) tally.add('unit: changes of several versions');
              if (unit.addsColumns) tally.add('unit: changes that add columns');
            }
            queue.tell(prepared, outcome);
          },
          progressToStore: async () => (await queue.progressToStore?.()) ?? null,
        }),
      storeProgress: (progress, mode) => destination.storeProgress(progress, mode),
      progress: () => destination.progress(),
      close: () => destination.close(),
    },
  };
}

/** All that goes wrong has a class that says what to do about it. */
function refuseBugs({ datasets, troubles }: CatchUpResult): void {
  const errors = [
    ...troubles.map(({ error }) => error),
    ...datasets.flatMap((dataset) => (dataset.kind === 'failed' ? [dataset.error] : [])),
  ];
  for (const error of errors) {
    if (!(error instanceof FeedSyncError)) throw new BrokenRule('bug', error.stack ?? error.message);
  }
}

export function describe({ datasets, troubles, holds }: CatchUpResult): string {
  const told = datasets.map((dataset) => {
    switch (dataset.kind) {
      case 'waiting':
        return `${dataset.datasetId} waits: ${dataset.why}`;
      case 'failed':
        return `${dataset.datasetId} failed: ${dataset.error.message}`;
      case 'held':
        return `${dataset.datasetId} is held: ${dataset.hold.refusal.code}`;
      default:
        return `${dataset.datasetId} ${dataset.kind}${dataset.commits
          .map((commit) => ` ${commit.kind} v${commit.fromVersion}→v${commit.toVersion}`)
          .join(',')}`;
    }
  });
  return [
    ...told,
    ...troubles.map(({ subscriptionId, error }) => `trouble of ${subscriptionId}: ${error.message}`),
    ...holds.map(({ refusal }) => `held: ${JSON.stringify(refusal.scope)} ${refusal.code}`),
  ].join('; ');
}
