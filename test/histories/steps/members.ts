/** Datasets that leave and come back, subscriptions that come and go, and reloads that the service or a person asks for. */

import type { Reason } from '../../../fixtures/feed/model.ts';
import { catchUp } from '../catch-up.ts';
import type { Step } from '../step.ts';
import type { World } from '../world.ts';

/** At once, they are retired only where a person agrees. */
const MANY_DATASETS = 10;
const REASONS: readonly Reason[] = ['left_coverage', 'subscription_changed', 'source_retired'];

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
    act: (world) => {
      const datasetId = world.anyMember();
      return world.resync(datasetId, world.contentOfNext(datasetId, 'most'));
    },
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
    name: 'resync: a person asks',
    weight: 2,
    applies: hasMembers,
    act: async (world) => {
      const datasetId = world.anyMember();
      const { checkpoint } = await world.installation.parts();
      const asked = checkpoint.askResync([datasetId]);
      return asked.length === 0 ? `${datasetId} is not wanted yet` : datasetId;
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
      const holder = world.random.pick(world.feed.store.holders(datasetId));
      return remove(world, datasetId, holder.subscriptionId);
    },
  },
  {
    name: 'removal: of all at once',
    weight: 1,
    applies: hasMembers,
    act: (world) => world.members.map((datasetId) => remove(world, datasetId)).join('; '),
  },
  {
    name: 'removal: of so many at once that a person has to agree',
    weight: 60,
    applies: ({ members }) => members.length >= MANY_DATASETS,
    act: async (world) => {
      await catchUp(world);
      return world.members.map((datasetId) => remove(world, datasetId)).join('; ');
    },
  },
  {
    name: 'removal: its events are lost',
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
    weight: 2,
    // A manifest that does not say how far it goes is not believed against the removal that was read.
    applies: (world) => absent(world).length > 0 && world.settings.manifestLastEventId,
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
    weight: 4,
    applies: (world) => mayReissue(world) && readable(world).length > 0,
    act: (world) => beginAgain(world, world.random.pick(readable(world))),
  },
  {
    name: 'subscription: a second one begins',
    weight: 3,
    applies: ({ feed }) => feed.store.subscriptions.size < 2,
    act: (world) => world.subscribeToSome(),
  },
  {
    name: 'subscription: it ends',
    weight: 2,
    applies: ({ feed }) => feed.store.subscriptions.size === 2,
    act: ({ feed, random }) => {
      const subscriptionId = random.pick([...feed.store.subscriptions.keys()]);
      feed.publisher.unsubscribe(subscriptionId);
      return subscriptionId;
    },
  },
  {
    name: 'subscription: it is not listed for a while',
    weight: 2,
    applies: ({ feed, hidden }) => feed.store.subscriptions.size === 2 && hidden === null,
    act: (world) => world.hide(world.random.pick([...world.feed.store.subscriptions.keys()])),
  },
];

function remove(world: World, datasetId: string, subscriptionId?: string): string {
  const reason = world.random.pick(REASONS);
  world.feed.publisher.remove(datasetId, reason, subscriptionId === undefined ? {} : { subscriptionId });
  world.unreadRemovals.add(datasetId);
  return `${datasetId} leaves ${subscriptionId ?? 'all'}, ${reason}`;
}

function restore({ feed }: World, datasetId: string): string {
  feed.publisher.restore(datasetId);
  return `${datasetId} is in all`;
}

/** The dataset leaves, is forgotten, and comes back with a first version. */
function beginAgain(world: World, datasetId: string): string {
  const { feed, random } = world;
  const left = remove(world, datasetId);
  feed.publisher.dropHistory(datasetId);
  world.line(datasetId).startAgain(random);
  const published = world.publish(datasetId, 'the same', { version: random.integer(1, 2) });
  feed.publisher.restore(datasetId);
  world.wentBack.add(datasetId);
  return `${left}; it comes back: ${published}`;
}

function hasMembers({ members }: World): boolean {
  return members.length > 0;
}

function shared(world: World): readonly string[] {
  return world.datasetIds.filter((datasetId) => world.feed.store.holders(datasetId).length === 2);
}

/** Those that a subscription lacks. */
function absent({ feed, datasetIds }: World): readonly string[] {
  return datasetIds.filter((id) => feed.store.holders(id).length < feed.store.subscriptions.size);
}

/** A removal that was lost can be told from none only where the versions go on. */
function readable({ datasetIds, lostRemovals }: World): readonly string[] {
  return datasetIds.filter((datasetId) => !lostRemovals.has(datasetId));
}

/** A frozen manifest that does not say how far it goes may be taken for the answer to a reload. */
function mayReissue({ isFrozen, settings }: World): boolean {
  return !isFrozen || settings.manifestLastEventId;
}
