/** Versions of every kind: ordinary, empty, silent, not recorded, and such that say what is not so. */

import { NOT_RECORDED_FORMS } from '../../../fixtures/feed/model.ts';
import type { FalseClaims, PublishOptions } from '../../../fixtures/feed/publish.ts';
import { hasMembers } from '../feed-changes.ts';
import { always, faulty, type Step } from '../step.ts';
import type { World } from '../world.ts';

const MOST_AT_ONCE = 5;
const WIDEST_GAP = 6;

export const publishSteps: readonly Step[] = [
  version('publish: the next version', 5, () => ({})),
  version('publish: after a gap in the numbers', 3, (world, current) => ({
    version: current + world.random.integer(2, WIDEST_GAP),
  })),
  {
    name: 'publish: several at once',
    weight: 4,
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      const count = world.random.integer(2, MOST_AT_ONCE);
      return Array.from({ length: count }, () => world.publish(datasetId)).join('; ');
    },
  },
  {
    name: 'publish: of every dataset',
    weight: 2,
    applies: always,
    act: (world) => world.datasetIds.map((datasetId) => world.publish(datasetId)).join('; '),
  },
  {
    name: 'publish: without a row',
    weight: 2,
    applies: hasMembers,
    act: (world) => world.publish(world.anyMember(), 'none'),
  },
  {
    name: 'publish: with the same rows',
    weight: 2,
    applies: hasMembers,
    act: (world) => world.publish(world.anyMember(), 'the same'),
  },
  faulty(version('publish: the event is lost', 4, () => ({ announce: false }))),
  ...NOT_RECORDED_FORMS.map((form) =>
    faulty(version(`publish: not recorded, ${form}`, 1, () => ({ notRecordedAs: form }))),
  ),
  lie('counts', () => ({ counts: { added: 1, changed: 2, removed: 3 } })),
  lie('rowCount', (rowCount) => ({ rowCount: rowCount + 1 })),
  lie('previousVersion', (_, current) => ({ previousVersion: current + 1_000 })),
  lie('previousVersion missing', () => ({ previousVersion: null })),
  lie('resyncRequired', () => ({ resyncRequired: true })),
];

function version(
  name: string,
  weight: number,
  options: (world: World, current: number) => PublishOptions,
): Step {
  return {
    name,
    weight,
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      return world.publish(datasetId, 'most', options(world, world.current(datasetId).version));
    },
  };
}

function lie(about: string, claims: (rowCount: number, current: number) => FalseClaims): Step {
  return {
    name: `publish: a lie about ${about}`,
    isFault: true,
    weight: 1,
    applies: hasMembers,
    act: (world) => {
      const datasetId = world.anyMember();
      const before = world.current(datasetId);
      const content = world.contentOfNext(datasetId, 'most');
      const options = { claims: claims(content.rowCount, before.version) };
      return world.publishContent(datasetId, content, options, before);
    },
  };
}
