/** A manifest that lags, and a network that fails for a while. */

import type { PlainAct } from '../../../fixtures/feed/faults.ts';
import type { Operation } from '../../../fixtures/feed/operations.ts';
import { always, type Step } from '../step.ts';
import type { World } from '../world.ts';

const OPERATIONS: readonly Operation[] = [
  'subscriptions',
  'events',
  'manifest',
  'versions',
  'schemas',
  'changes',
  'file',
];
/** Fewer than the program tries, so that it gets over them. */
const FEW = 2;
/** More than it tries. */
const MANY = 8;

export const serviceSteps: readonly Step[] = [
  freeze('manifest: it lags, and says how far it goes', true),
  freeze('manifest: it lags, and does not say how far it goes', false),
  {
    name: 'manifest: it lags no more',
    weight: 14,
    applies: ({ isFrozen }) => isFrozen,
    act: (world) => {
      world.thaw();
      return '';
    },
  },
  fault('trouble: 503, for a moment', FEW, () => ({ kind: 'respond', status: 503 })),
  fault('trouble: 503, for long', MANY, () => ({ kind: 'respond', status: 503 })),
  fault('trouble: a body that is cut', FEW, ({ random }) => ({
    kind: 'truncate',
    afterBytes: random.integer(0, 200),
  })),
  fault('trouble: a body that is cut, for long', MANY, ({ random }) => ({
    kind: 'truncate',
    afterBytes: random.integer(0, 200),
  })),
  fault('trouble: the connection is reset', FEW, () => ({ kind: 'reset' })),
];

function freeze(name: string, tells: boolean): Step {
  return {
    name,
    weight: 3,
    applies: ({ isFrozen, settings }) => !isFrozen && settings.manifestLastEventId === tells,
    act: (world) => {
      world.freeze();
      return '';
    },
  };
}

function fault(name: string, times: number, act: (world: World) => PlainAct): Step {
  return {
    name,
    weight: 2,
    applies: always,
    act: (world) => {
      const operation = world.random.pick(OPERATIONS);
      const nth = world.random.integer(1, 3);
      world.feed.faults.add({ match: { operation, nth, times }, act: act(world) });
      return `${operation}, from request ${nth} on`;
    },
  };
}
