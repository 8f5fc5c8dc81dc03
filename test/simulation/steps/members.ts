/** Datasets that leave and come back, subscriptions that come and go, and reloads that the service or an operator requests. */

import { catchUp } from '../catch-up.ts';
import {
  beginAnyAgain,
  canBeginAgain,
  hasMembers,
  mayLoseTrack,
  reissueAny,
  remove,
  restore,
} from '../feed-changes.ts';
import { settleSuspensions } from '../operator.ts';
import type { Step } from '../step.ts';
import type { World } from '../world.ts';

/** At once, they are retired only if an operator approves. */
const MANY_DATASETS = 10;

export const memberSteps: readonly Step[] = [
  {
    name: 'resync: nothing is new',
    weight: 3,
    applies: hasMembers,
    act: (world) => world.resync(world.anyMember(), undefined),
  },
  {
    name: 'resync: other content at the same version',
    weight: 4,
    applies: (world) => hasMembers(world) && mayReissue(world),
    act: reissueAny,
  },
  {
    name: 'resync: other content, and a version after it',
    weight: 3,
    applies: (world) => hasMembers(world) && mayReissue(world),
    act: (world) => {
      const datasetId = world.anyMember();
      const anew = world.resync(datasetId, world.contentOfNext(datasetId, 'most'));
      return `${anew}; ${world.publish(datasetId)}`;
    },
  },
  {
    name: 'resync: an operator asks',
    weight: 2,
    applies: hasMembers,
    act: async (world) => {
      const datasetId = world.anyMember();
      const { checkpoint } = await world.installation.parts();
      const asked = checkpoint.requestResync([datasetId]);
      return asked.length === 0 ? `${datasetId} is not desired yet` : datasetId;
    },
  },
  {
    name: 'removal: from every subscription',
    weight: 4,
    applies: hasMembers,
    act: (world) => remove(world, world.anyMember()),
  },
  {
    name: 'removal: from one of two subscriptions',
    weight: 4,
    applies: (world) => shared(world).length > 0,
    act: (world) => {
      const datasetId = world.random.pick(shared(world));
      const from = world.random.pick(world.feed.store.subscriptionsOf(datasetId));
      return remove(world, datasetId, from.subscriptionId);
    },
  },
  {
    name: 'removal: of all at once',
    weight: 1,
    applies: hasMembers,
    act: (world) => world.members.map((datasetId) => remove(world, datasetId)).join('; '),
  },
  {
    name: 'removal: of so many at once that an operator has to approve',
    weight: 400,
    applies: ({ members }) => members.length >= MANY_DATASETS,
    act: async (world) => {
      await catchUp(world);
      const removed = world.members.map((datasetId) => remove(world, datasetId)).join('; ');
      await catchUp(world);
      if (!world.random.chance(0.5)) return removed;
      const settled = await settleSuspensions(world);
      await catchUp(world);
      return `${removed}; an operator settled ${settled} suspensions`;
    },
  },
  {
    name: 'removal: its events are lost',
    isFault: true,
    weight: 2,
    applies: (world) => hasMembers(world) && world.settings.manifest === 'subscription',
    act: (world) => {
      const datasetId = world.anyMember();
      world.lostRemovals.add(datasetId);
      return world.logs.losing(() => remove(world, datasetId));
    },
  },
  {
    name: 'return: of a dataset',
    weight: 6,
    applies: (world) => absent(world).length > 0,
    act: (world) => restore(world, world.random.pick(absent(world))),
  },
  {
    name: 'return: its events are lost',
    isFault: true,
    weight: 2,
    // Until its log is quiet, a manifest that does not say how far it goes is not believed against the removal that was read.
    // Until the manifest reflects it, nobody can know of it.
    applies: (world) => absent(world).length > 0 && world.settings.manifestLastEventId && !world.isFrozen,
    act: (world) => world.logs.losing(() => restore(world, world.random.pick(absent(world)))),
  },
  {
    name: 'return: in the page of its removal',
    weight: 3,
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      return `${remove(world, datasetId)}; ${restore(world, datasetId)}`;
    },
  },
  {
    name: 'return: with versions that begin again',
    isFault: true,
    weight: 4,
    applies: (world) => mayReissue(world) && canBeginAgain(world).length > 0,
    act: beginAnyAgain,
  },
  {
    name: 'subscription: a second one begins',
    weight: 3,
    // A manifest that was made before there was such a subscription is none of it.
    applies: ({ feed, isFrozen }) => feed.store.subscriptions.size < 2 && !isFrozen,
    act: (world) => world.subscribeToSome(),
  },
  {
    name: 'subscription: it ends',
    weight: 2,
    applies: (world) => world.feed.store.subscriptions.size === 2 && mayLoseTrack(world),
    act: (world) => world.end(world.random.pick([...world.feed.store.subscriptions.keys()])),
  },
  {
    name: 'subscription: it is not listed for a while',
    isFault: true,
    weight: 2,
    applies: (world) =>
      world.feed.store.subscriptions.size === 2 && world.hidden === null && mayLoseTrack(world),
    act: (world) => world.hide(world.random.pick([...world.feed.store.subscriptions.keys()])),
  },
];

function shared(world: World): readonly string[] {
  return world.datasetIds.filter((datasetId) => world.feed.store.subscriptionsOf(datasetId).length === 2);
}

/** Those that a subscription lacks. */
function absent({ feed, datasetIds }: World): readonly string[] {
  return datasetIds.filter((id) => feed.store.subscriptionsOf(id).length < feed.store.subscriptions.size);
}

/** A frozen manifest that does not say how far it goes may be taken for the answer to a reload. */
function mayReissue({ isFrozen, settings }: World): boolean {
  return !isFrozen || settings.manifestLastEventId;
}
