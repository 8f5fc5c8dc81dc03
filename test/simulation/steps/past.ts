/** What operators do with the past of tables, what somebody does to rows by hand, and what a disk does to a table. */

import type { ObservedState } from '../../../src/destination/destination.ts';
import type { PastCommit, PastState } from '../../../src/model/past-states.ts';
import type { ObservedTable } from '../../../src/model/write-jobs.ts';
import { hasMembers } from '../feed-changes.ts';
import { endPins, rollBack, verifyDeep } from '../requests-of-operators.ts';
import { ALTERATIONS, type Alteration } from '../stage.ts';
import { always, faulty, type Step } from '../step.ts';
import type { World } from '../world.ts';

export const pastSteps: readonly Step[] = [
  rollback('a commit', ({ commitNumber }) => ({ by: 'commit', commitNumber })),
  rollback('a version', ({ toVersion: version }) => ({ by: 'version', version })),
  rollback('a time', ({ appliedAt: time }) => ({ by: 'time', time })),
  {
    name: 'operator: ends all pins',
    weight: 3,
    applies: always,
    act: async (world) => `${await endPins(world)} were pinned`,
  },
  ...ALTERATIONS.map(altered),
  faulty({ name: 'by hand: a table is dropped', weight: 4, applies: hasMembers, act: dropAny }),
  faulty({
    name: 'damage: a table that cannot be read',
    onlyOn: 'model',
    weight: 4,
    applies: hasMembers,
    act: async (world) => {
      const datasetId = world.anyMember();
      world.installation.damage(datasetId);
      world.suspects.add(datasetId);
      return datasetId;
    },
  }),
  verify('verify: deep', false),
  verify('verify: deep, and it repairs', true),
  history('history: it is switched off', false),
  history('history: it is switched on', true),
];

function rollback(what: string, stateOf: (commit: PastCommit) => PastState): Step {
  return {
    name: `rollback: to ${what}`,
    weight: 3,
    applies: hasMembers,
    act: (world) => {
      const place = world.random.fraction();
      return rollBack(world, (commits) => {
        // Rarely the state that the table has: there is nothing to roll back to then.
        const commit = commits[Math.floor(place * Math.max(1, commits.length - 0.3))];
        return commit === undefined ? { by: 'version', version: 1 } : stateOf(commit);
      });
    },
  };
}

function altered(how: Alteration): Step {
  return faulty({
    name: `by hand: ${how}`,
    weight: 2.5,
    applies: hasMembers,
    act: (world) => alterAny(world, how),
  });
}

async function alterAny(world: World, how: Alteration): Promise<string> {
  const datasetId = world.anyMember();
  const { destination } = await world.installation.parts();
  const table = tableOf(datasetId, await destination.has());
  const done = table === null ? null : await world.installation.alter(table, how);
  if (done === null) return `${datasetId} has no such row`;
  world.suspects.add(datasetId);
  return done;
}

async function dropAny(world: World): Promise<string> {
  const datasetId = world.anyMember();
  const { destination } = await world.installation.parts();
  const table = tableOf(datasetId, await destination.has());
  if (table === null) return `${datasetId} has no table`;
  await world.installation.drop(table);
  return datasetId;
}

/** Null where there is none, or somebody has dropped it. */
function tableOf(datasetId: string, { datasets, missing = [] }: ObservedState): ObservedTable | null {
  return missing.includes(datasetId) ? null : (datasets.get(datasetId) ?? null);
}

function verify(name: string, repairs: boolean): Step {
  return { name, weight: 4, applies: hasMembers, act: (world) => verifyDeep(world, repairs) };
}

function history(name: string, isKept: boolean): Step {
  return {
    name,
    weight: 1,
    applies: always,
    act: async ({ installation }) => {
      await installation.keepHistory(isKept);
      return '';
    },
  };
}
