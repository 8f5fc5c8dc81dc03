/**
 * What a hostile service does between any two requests: each move is one small thing, done at once. Whatever it draws it draws
 * when the step is drawn, so that it is the same at whichever request it is done.
 */

import { DAY_MS } from '../../fixtures/feed/clock.ts';
import type { FreezeTarget } from '../../fixtures/feed/manifest-view.ts';
import { RESTART_ANNOUNCEMENTS } from '../../fixtures/feed/publish.ts';
import { hasMembers, remove } from './feed-changes.ts';
import type { World } from './world.ts';

export interface Move {
  readonly name: string;
  /** Decided by the feed's side of the world alone. */
  readonly applies: (world: World) => boolean;
  /** Says what exactly. Does nothing where it is possible no more. */
  readonly act: (world: World) => string;
  /** Left to the steps between catch-ups: it takes the machine, or more time than a request does. */
  readonly isBetween?: boolean;
}

const MINUTE_MS = 60_000;
const EXPIRED_MS = 91 * DAY_MS;
const JUMPS_MS = [-DAY_MS, -60 * MINUTE_MS, 60 * MINUTE_MS, DAY_MS];
/** Longer than an absence takes to be believed, and than a manifest lags. */
const LONGEST_PASSING_MINUTES = 25;
const HIGHEST_FIRST_NUMBER = 30;

export const moves: readonly Move[] = [
  { name: 'a version', applies: hasMembers, act: (world) => world.publish(world.anyMember()) },
  {
    name: 'a version and its withdrawal',
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      return `${world.publish(datasetId)}; ${world.withdraw(datasetId)}`;
    },
  },
  {
    name: 'a withdrawal',
    applies: (world) => world.withdrawable.length > 0,
    act: (world) => world.withdraw(world.random.pick(world.withdrawable)),
  },
  {
    name: 'a withdrawal, and a version under its number',
    applies: (world) => world.withdrawable.length > 0,
    act: (world) => {
      const datasetId = world.random.pick(world.withdrawable);
      return `${world.withdraw(datasetId)}; ${world.publish(datasetId)}`;
    },
  },
  {
    name: 'other content under the same number',
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      return world.resync(datasetId, world.contentOfNext(datasetId, 'most'));
    },
  },
  ...RESTART_ANNOUNCEMENTS.map(
    (announce): Move => ({
      name: `versions that begin again, announced by ${announce}`,
      applies: hasMembers,
      act: (world) => world.restart(world.anyMember(), announce),
    }),
  ),
  {
    name: 'versions that begin again, without an event',
    // Without digests nothing shows at once that the same number has other content.
    applies: (world) => hasMembers(world) && world.settings.sha256,
    act: (world) => world.restartSilently(world.anyMember()),
  },
  {
    name: 'a dataset joins',
    applies: (world) => world.joinable.length > 0,
    act: (world) => world.join(true),
  },
  {
    name: 'a dataset joins, without an event',
    applies: (world) => world.joinable.length > 0,
    act: (world) => world.join(false),
  },
  {
    name: 'a dataset leaves',
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      const { subscriptionId } = world.random.pick(world.feed.store.subscriptionsOf(datasetId));
      return remove(world, datasetId, subscriptionId);
    },
  },
  {
    name: 'a dataset leaves, without an event',
    applies: hasMembers,
    act: (world) => world.leaveSilently(world.anyMember()),
  },
  {
    name: 'a dataset moves from one subscription to the other',
    applies: (world) =>
      world.joinable.some(({ datasetId }) => world.feed.store.subscriptionsOf(datasetId).length > 0),
    act: (world) => world.moveOver(),
  },
  {
    name: 'a manifest is frozen',
    applies: ({ isFrozen }) => !isFrozen,
    act: (world) => {
      const target = anyTarget(world);
      world.freeze(target);
      return target === undefined ? 'all' : JSON.stringify(target);
    },
  },
  {
    name: 'manifests go on',
    applies: ({ isFrozen }) => isFrozen,
    act: (world) => {
      world.thaw();
      return '';
    },
  },
  {
    name: 'a log restarts',
    applies: ({ mayRestartLogs }) => mayRestartLogs,
    act: (world) => {
      const subscriptionId = world.random.pick([...world.feed.store.subscriptions.keys()]);
      const firstNumber = world.random.chance(0.5) ? 1 : world.random.integer(1, HIGHEST_FIRST_NUMBER);
      const announce = world.random.chance(0.3);
      world.restartLog(subscriptionId, firstNumber, announce);
      return `${subscriptionId}, from evt_${firstNumber}${announce ? ', with all it has' : ''}`;
    },
  },
  {
    name: 'positions expire',
    applies: () => true,
    act: (world) => {
      world.noteLostTrack();
      world.passMonths(EXPIRED_MS);
      return '';
    },
  },
  {
    name: 'minutes pass',
    applies: () => true,
    act: (world) => {
      const minutes = world.random.integer(1, LONGEST_PASSING_MINUTES);
      world.pass(minutes * MINUTE_MS);
      return String(minutes);
    },
  },
  {
    name: 'the clock of the machine is set',
    applies: ({ stage }) => stage.machine !== null,
    isBetween: true,
    act: (world) => {
      const byMs = world.random.pick(JUMPS_MS);
      world.stage.machine?.setClock(byMs);
      return `by ${byMs / MINUTE_MS} minutes`;
    },
  },
  {
    name: 'a reading skips something',
    applies: hasMembers,
    act: skipAnything,
  },
];

/** A manifest that says how far it goes lags as a whole: with one old entry beside a new number it would say what is not so. */
function anyTarget({ random, feed, datasetIds, settings }: World): FreezeTarget | undefined {
  const isNumbered = settings.manifest === 'subscription' && settings.manifestLastEventId;
  switch (random.integer(0, 3)) {
    case 0:
      return undefined;
    case 1:
      return isNumbered ? undefined : { datasetId: random.pick(datasetIds) };
    default:
      return { subscriptionId: random.pick([...feed.store.subscriptions.keys()]) };
  }
}

function skipAnything(world: World): string {
  const { random, feed } = world;
  const datasetId = world.anyMember();
  const { subscriptionId } = random.pick(feed.store.subscriptionsOf(datasetId));
  const reads = random.integer(1, 2);
  const list = random.pick(['subscriptions', 'record', 'manifest', 'versions'] as const);
  switch (list) {
    case 'subscriptions':
      world.skip({ list, subscriptionId }, reads);
      break;
    case 'versions':
      world.skip({ list, datasetId, version: world.current(datasetId).version }, reads);
      break;
    default:
      world.skip({ list, subscriptionId, datasetId }, reads);
  }
  return `${datasetId} or ${subscriptionId} in ${reads} readings of ${list}`;
}
