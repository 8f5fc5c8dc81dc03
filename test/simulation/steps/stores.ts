/** Stores that are lost or restored from a copy, and processes that end: on their own, or killed at work. */

import type { Operation } from '../../../fixtures/feed/operations.ts';
import { hasMembers, mayForgetMoves, mayLoseTrack } from '../feed-changes.ts';
import { refuseBroken } from '../rules.ts';
import { CHECKPOINT_TABLES, type DeathPoint, type Store } from '../stage.ts';
import { always, type Step } from '../step.ts';
import type { World } from '../world.ts';

const KILLED_AT: readonly Operation[] = ['events', 'manifest', 'versions', 'schemas', 'changes', 'file'];
/** Of a file, what a disk does to it. */
const STAGED_DAMAGE = ['bit', 'sector', 'cut'] as const;
const LAST_DURABLE_EFFECT = 40;
const LAST_FOLLOW_STEP = 4;

export const storeSteps: readonly Step[] = [
  ...(['mirror', 'checkpoint'] as const).flatMap((store) => [lost(store), copied(store), restored(store)]),
  {
    name: 'stores: a table of the checkpoint is as it was',
    isFault: true,
    weight: 16,
    applies: canRestore('checkpoint'),
    act: async (world) => {
      const table = world.random.pick(CHECKPOINT_TABLES);
      await world.installation.restoreTable(table);
      world.noteRestored('checkpoint');
      return table;
    },
  },
  {
    name: 'stores: both are lost',
    isFault: true,
    weight: 1,
    applies: mayLoseTrack,
    act: async (world) => {
      for (const store of ['mirror', 'checkpoint'] as const) await lose(store, world);
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
    isFault: true,
    weight: 1.3,
    applies: always,
    act: async (world) => {
      const published = publishSome(world);
      const operation = world.random.pick(KILLED_AT);
      return `${published}${await die(world, { kind: 'request', operation, nth: world.random.integer(1, 2) })}`;
    },
  },
  ...(['before', 'after'] as const).map(
    (timestamp): Step => ({
      name: `process: killed ${timestamp} a commit`,
      isFault: true,
      onlyOn: 'model',
      weight: 1.5,
      applies: always,
      act: async (world) => {
        const published = publishSome(world);
        return `${published}${await die(world, { kind: 'commit', timestamp, nth: world.random.integer(1, 2) })}`;
      },
    }),
  ),
  {
    name: 'process: killed before it commits, and what it staged is damaged',
    isFault: true,
    onlyOn: 'real',
    weight: 3,
    applies: hasMembers,
    act: async (world) => {
      const { installation, random } = world;
      const asked = world.resync(world.anyMember(), undefined);
      const published = publishSome(world);
      const died = await die(world, { kind: 'effect', name: 'destination.commit', nth: 1 });
      const done = installation.damageStaged(random.pick(STAGED_DAMAGE), random.fraction);
      if (done !== null) world.counters.add('seen: a staged file was damaged');
      return `${asked}; ${published}${died}; ${done ?? 'nothing is staged'}`;
    },
  },
  {
    name: 'process: killed while it stores what it has read of a log',
    isFault: true,
    onlyOn: 'model',
    weight: 3,
    applies: hasMembers,
    act: async (world) => {
      const asked = world.resync(world.anyMember(), undefined);
      const nth = world.random.integer(1, LAST_FOLLOW_STEP);
      return `${asked}; ${await die(world, { kind: 'effect', nth, name: 'checkpoint.follow-step' })}`;
    },
  },
  {
    name: 'process: killed at a durable effect',
    isFault: true,
    weight: 1.8,
    applies: always,
    act: async (world) => {
      const published = publishSome(world);
      return `${published}${await die(world, { kind: 'effect', nth: world.random.integer(1, LAST_DURABLE_EFFECT) })}`;
    },
  },
];

/** So that there is work in which it can be killed. */
function publishSome(world: World): string {
  return hasMembers(world) ? `${world.publish(world.anyMember())}; ` : '';
}

async function die(world: World, at: DeathPoint): Promise<string> {
  world.tick();
  const { died, reported } = await world.installation.catchUpAndDie(at);
  refuseBroken(world);
  if (died) world.counters.add('seen: the process was killed');
  return `at ${Object.values(at).join(' ')}: ${reported}`;
}

async function lose(store: Store, world: World): Promise<void> {
  await world.installation.lose(store);
  world.noteLost(store);
}

function lost(store: Store): Step {
  return {
    name: `stores: the ${store} is lost`,
    isFault: true,
    weight: 2,
    applies: mayLoseTrack,
    act: async (world) => {
      await lose(store, world);
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
      await world.installation.copy(store);
      world.noteCopied(store);
      return '';
    },
  };
}

function restored(store: Store): Step {
  return {
    name: `stores: an older ${store} is restored`,
    isFault: true,
    weight: 16,
    applies: canRestore(store),
    act: async (world) => {
      await world.installation.restoreCopy(store);
      world.noteRestored(store);
      return '';
    },
  };
}

function canRestore(store: Store): Step['applies'] {
  return (world) =>
    world.installation.hasCopy(store) && mayLoseTrack(world) && (store === 'mirror' || mayForgetMoves(world));
}
