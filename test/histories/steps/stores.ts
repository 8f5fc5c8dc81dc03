/** Stores that are lost or restored from a copy, and processes that end: on their own, or killed at work. */

import type { Operation } from '../../../fixtures/feed/operations.ts';
import { hasMembers } from '../happenings.ts';
import type { Store } from '../installation.ts';
import { killAtDurableMoment, killAtRequest } from '../kill.ts';
import { always, type Step } from '../step.ts';
import type { World } from '../world.ts';

const KILLED_AT: readonly Operation[] = ['events', 'manifest', 'versions', 'schemas', 'changes', 'file'];
const LAST_DURABLE_MOMENT = 40;

export const storeSteps: readonly Step[] = [
  ...(['mirror', 'checkpoint'] as const).flatMap((store) => [lost(store), copied(store), restored(store)]),
  {
    name: 'stores: both are lost',
    weight: 1,
    applies: always,
    act: async ({ installation }) => {
      await installation.lose('mirror');
      await installation.lose('checkpoint');
      return '';
    },
  },
  {
    name: 'process: it starts again',
    weight: 3,
    applies: always,
    act: async ({ installation }) => {
      await installation.close();
      return '';
    },
  },
  {
    name: 'process: killed at a request',
    weight: 1.3,
    applies: always,
    act: async (world) => {
      const published = publishSome(world);
      return `${published}${await killAtRequest(world, world.random.pick(KILLED_AT), world.random.integer(1, 2))}`;
    },
  },
  {
    name: 'process: killed at a durable effect',
    weight: 1.8,
    applies: always,
    act: async (world) => {
      const published = publishSome(world);
      return `${published}${await killAtDurableMoment(world, world.random.integer(1, LAST_DURABLE_MOMENT))}`;
    },
  },
];

/** So that there is work in which it can be killed. */
function publishSome(world: World): string {
  return hasMembers(world) ? `${world.publish(world.anyMember())}; ` : '';
}

function lost(store: Store): Step {
  return {
    name: `stores: the ${store} is lost`,
    weight: 2,
    applies: always,
    act: async ({ installation }) => {
      await installation.lose(store);
      return '';
    },
  };
}

function copied(store: Store): Step {
  return {
    name: `stores: the ${store} is copied`,
    weight: 3,
    applies: always,
    act: async (world) => {
      world.copies.set(store, world.installation.copy(store));
      return '';
    },
  };
}

function restored(store: Store): Step {
  return {
    name: `stores: an older ${store} is restored`,
    weight: 16,
    applies: ({ copies }) => copies.has(store),
    act: async ({ installation, copies }) => {
      await installation.restore(store, copies.get(store) ?? '');
      return '';
    },
  };
}
