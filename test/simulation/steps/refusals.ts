/** Refusals of the service that last until an operator has acted, and the operator's actions. */

import type { RefusalTarget } from '../../../fixtures/feed/access.ts';
import { SCOPES } from '../../../fixtures/feed/keys.ts';
import { resumeAll } from '../operator.ts';
import { always, type Step } from '../step.ts';
import type { World } from '../world.ts';

const CODES = ['outside_coverage', 'not_distributable', 'not_found'] as const;

export const refusalSteps: readonly Step[] = [
  {
    name: 'refusal: of a dataset',
    isFault: true,
    weight: 4,
    applies: always,
    act: (world) => refuse(world, { kind: 'dataset', datasetId: world.random.pick(world.datasetIds) }),
  },
  {
    name: 'refusal: of a subscription',
    isFault: true,
    weight: 2,
    applies: always,
    act: (world) => {
      const subscriptionId = world.random.pick([...world.feed.store.subscriptions.keys()]);
      return refuse(world, { kind: 'subscription', subscriptionId });
    },
  },
  {
    name: 'refusal: of the workspace',
    isFault: true,
    weight: 1,
    applies: always,
    act: ({ feed }) => {
      feed.access.refuse({ kind: 'workspace' }, { code: 'insufficient_scope' });
      return 'insufficient_scope';
    },
  },
  {
    name: 'refusal: of the key',
    isFault: true,
    weight: 1,
    applies: always,
    act: ({ feed }) => {
      feed.keys.get(feed.apiKey).revoked = true;
      return 'revoked';
    },
  },
  {
    name: 'refusal: of changes alone',
    isFault: true,
    weight: 1,
    applies: always,
    act: ({ feed }) => {
      feed.keys.get(feed.apiKey).scopes = ['feeds'];
      return 'the key lacks their scope';
    },
  },
  {
    name: 'refusal: over, and an operator resumes',
    weight: 14,
    applies: ({ feed }) => feed.access.refused().length > 0 || feed.keys.get(feed.apiKey).revoked,
    act: async (world) => {
      const { feed, random } = world;
      giveBackKey(world);
      const refused = feed.access.refused();
      const lifted = refused.length === 0 ? [] : [random.pick(refused).target];
      for (const target of lifted) feed.access.lift(target);
      return `${JSON.stringify(lifted)}; ${await resumeAll(world)}`;
    },
  },
  {
    name: 'refusal: an operator resumes too early',
    weight: 10,
    applies: ({ feed }) => feed.access.refused().length > 0,
    act: resumeAll,
  },
];

/** It is good again, for everything. */
export function giveBackKey({ feed }: World): void {
  const key = feed.keys.get(feed.apiKey);
  key.revoked = false;
  key.scopes = SCOPES;
}

function refuse({ feed, random }: World, target: RefusalTarget): string {
  const code = random.pick(CODES);
  feed.access.refuse(target, { code });
  return `${JSON.stringify(target)}, ${code}`;
}
