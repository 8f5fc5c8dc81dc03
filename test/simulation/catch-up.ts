/**
 * One catch-up of an installation inside this process, watched: nothing is requested about whatever is suspended, nothing ends in a
 * bug, and what was done is counted.
 */

import { FeedSyncError, InapplicableChangesError } from '../../src/model/errors.ts';
import { catchUpMendingDamage } from '../../src/sync/catch-up.ts';
import type { Parts } from '../../src/sync/parts.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { type DatasetEffort, refuseTooManyCalls } from './bounds.ts';
import { BrokenRule, refuseBroken, refuseCallsAboutSuspended, refuseMovedPins } from './rules.ts';
import type { MirrorView } from './stage.ts';
import type { World } from './world.ts';

const LINES_OF_A_CATCH_UP = 200;

/** @throws BrokenRule */
export async function catchUp(world: World): Promise<CatchUpResult> {
  const { feed, installation, counters } = world;
  world.tick();
  world.catchUps += 1;
  const parts = await installation.parts();
  const observedBefore = parts.checkpoint.suspensions();
  noteUnreadable(world, parts);
  const startedAt = parts.clock.now();
  feed.requests.clear();
  const { pinned } = await seenBy(world);
  const watched = observed(parts, world);
  const result = await catchUpMendingDamage(watched.parts, new AbortController().signal);
  world.reported.push(`  caught up: ${describe(result)}`);
  refuseBugs(result);
  refuseBroken(world);
  refuseCallsAboutSuspended(observedBefore, parts.checkpoint.suspensions(), feed.requests.entries());
  const after = await seenBy(world);
  refuseMovedPins(pinned, after.pinned);
  refuseMissing(result, after.missing);
  const efforts = effortsOf(result, startedAt, parts);
  refuseTooManyCalls(feed.requests.entries(), efforts, world, 1 + watched.searches());
  counters.add('requests', feed.requests.entries().length);
  for (const { kind } of result.datasets) counters.add(`result: ${kind}`);
  if (feed.requests.entries('events').some(({ status }) => status === 410))
    counters.add('seen: 410 on a log');
  return result;
}

/**
 * Nothing is requested about a suspended subscription, and nothing waits for its possible members: what was not known of it may
 * leave the mirror where all others have dropped it.
 */
function noteUnreadable(world: World, { checkpoint }: Parts): void {
  const observed = checkpoint.suspensions().flatMap(({ refusal: { scope } }) => {
    return scope.kind === 'subscription' ? [scope.subscriptionId] : [];
  });
  const desiredStates = checkpoint.desiredStates();
  for (const datasetId of world.datasetIds) {
    const containing = world.feed.store.subscriptionsOf(datasetId);
    const isUnreadable = containing.every(
      ({ subscriptionId }) =>
        observed.includes(subscriptionId) &&
        desiredStates.get(datasetId)?.members.has(subscriptionId) !== true,
    );
    if (isUnreadable) world.mayLeave.add(datasetId);
  }
}

/** As the sync runs of the checkpoint record it. */
function effortsOf(
  { datasets }: CatchUpResult,
  startedAt: Date,
  { checkpoint }: Parts,
): ReadonlyMap<string, DatasetEffort> {
  const fellBack = checkpoint
    .recentSyncRuns(LINES_OF_A_CATCH_UP)
    .filter(({ kind, at }) => kind === 'fell back' && at >= startedAt);
  return new Map(
    datasets.map(({ datasetId, commits }) => [
      datasetId,
      {
        commits: commits.length,
        fellBack: fellBack.filter((line) => line.datasetId === datasetId).length,
      },
    ]),
  );
}

type Seen = Pick<MirrorView, 'pinned' | 'missing'>;

/** Nothing of a mirror that is not there. */
async function seenBy({ installation }: World): Promise<Seen> {
  const seen = await installation.readMirror<Seen>(async ({ pinned, missing }) => ({ pinned, missing }));
  return seen ?? { pinned: new Map(), missing: [] };
}

/** A table that was dropped is loaded again, or something is said of its dataset. */
function refuseMissing({ datasets }: CatchUpResult, missing: readonly string[]): void {
  const silent = datasets.filter(
    ({ datasetId, kind }) => missing.includes(datasetId) && (kind === 'current' || kind === 'updated'),
  );
  if (silent.length > 0) throw new BrokenRule('dropped', silent.map(({ datasetId }) => datasetId).join(', '));
}

interface Observed {
  readonly parts: Parts;
  /** How often damage was searched for: each time the catch-up may begin again. */
  readonly searches: () => number;
}

/** The same parts, with every write job counted. */
function observed(parts: Parts, { counters }: World): Observed {
  let searches = 0;
  const { destination } = parts;
  const counted: Parts = {
    ...parts,
    destination: {
      has: () => destination.has(),
      enroll: (enrolment) => destination.enroll(enrolment),
      async validate(job) {
        try {
          return await destination.validate(job);
        } catch (error) {
          if (error instanceof InapplicableChangesError)
            counters.add('write job: changes, fell back to the snapshot');
          throw error;
        }
      },
      unpin: (datasetId) => destination.unpin(datasetId),
      readAhead: (job) => destination.readAhead(job),
      findDamage: () => {
        searches += 1;
        counters.add('damage: a table is found');
        return destination.findDamage();
      },
      forgetPast: () => destination.forgetPast(),
      storeChecksum: (checksum) => destination.storeChecksum(checksum),
      renewChecksums: (renewal) => destination.renewChecksums(renewal),
      commit: (queue) =>
        destination.commit({
          take: () => queue.take(),
          arrival: () => queue.arrival(),
          report(prepared, outcome) {
            const { job } = prepared;
            counters.add(`write job: ${job.kind}, ${outcome.kind}`);
            if (job.kind === 'changes' && outcome.kind === 'committed') {
              if (job.versions.length > 1) counters.add('write job: changes of several versions');
              if (job.addsColumns) counters.add('write job: changes that add columns');
            }
            queue.report(prepared, outcome);
          },
          progressToStore: async () => (await queue.progressToStore?.()) ?? null,
        }),
      storeProgress: (progress, mode) => destination.storeProgress(progress, mode),
      progress: () => destination.progress(),
      close: () => destination.close(),
    },
  };
  return { parts: counted, searches: () => searches };
}

/** All that goes wrong has a class that says what to do about it. */
function refuseBugs({ datasets, incidents }: CatchUpResult): void {
  const errors = [
    ...incidents.map(({ error }) => error),
    ...datasets.flatMap((dataset) => (dataset.kind === 'failed' ? [dataset.error] : [])),
  ];
  for (const error of errors) {
    if (!(error instanceof FeedSyncError)) throw new BrokenRule('bug', error.stack ?? error.message);
  }
}

export function describe({ datasets, incidents, suspensions }: CatchUpResult): string {
  const reported = datasets.map((dataset) => {
    switch (dataset.kind) {
      case 'waiting':
        return `${dataset.datasetId} waits: ${dataset.why}`;
      case 'failed':
        return `${dataset.datasetId} failed: ${dataset.error.message}`;
      case 'suspended':
        return `${dataset.datasetId} is suspended: ${dataset.suspension.refusal.code}`;
      default:
        return `${dataset.datasetId} ${dataset.kind}${dataset.commits
          .map((commit) => ` ${commit.kind} v${commit.fromVersion}→v${commit.toVersion}`)
          .join(',')}`;
    }
  });
  return [
    ...reported,
    ...incidents.map(({ subscriptionId, error }) => `incident of ${subscriptionId}: ${error.message}`),
    ...suspensions.map(({ refusal }) => `suspended: ${JSON.stringify(refusal.scope)} ${refusal.code}`),
  ].join('; ');
}
