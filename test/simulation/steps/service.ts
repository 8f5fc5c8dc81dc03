/** A manifest that lags, and a network that fails for a while. */

import type { PlainAct } from '../../../fixtures/feed/faults.ts';
import type { Operation } from '../../../fixtures/feed/operations.ts';
import { catchUp } from '../catch-up.ts';
import { beginAnyAgain, canBeginAgain, hasMembers, reissueAny, remove } from '../feed-changes.ts';
import { faultAtAnyTime, type Step } from '../step.ts';
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
  lag('manifest: it lags behind versions', 3, hasMembers, (world) => world.publish(world.anyMember())),
  lag('manifest: it lags behind other content at the same version', 3, mayReissue, reissueAny),
  lag('manifest: it lags behind a removal', 2, hasMembers, (world) => remove(world, world.anyMember())),
  lag('manifest: it lags behind versions that begin again', 2, mayBeginAgain, beginAnyAgain),
  {
    name: 'manifest: it lags no more',
    weight: 14,
    applies: ({ isFrozen }) => isFrozen,
    act: (world) => {
      world.thaw();
      return '';
    },
  },
  fault('incident: 503, for a short time', FEW, () => ({ kind: 'respond', status: 503 })),
  fault('incident: 503, for long', MANY, () => ({ kind: 'respond', status: 503 })),
  fault('incident: a body that is cut', FEW, ({ random }) => ({
    kind: 'truncate',
    afterBytes: random.integer(0, 200),
  })),
  fault('incident: a body that is cut, for long', MANY, ({ random }) => ({
    kind: 'truncate',
    afterBytes: random.integer(0, 200),
  })),
  fault('incident: the connection is reset', FEW, () => ({ kind: 'reset' })),
];

/** The manifest stays as it is, something happens, and a catch-up meets the two. */
function lag(
  name: string,
  weight: number,
  applies: (world: World) => boolean,
  behind: (world: World) => string,
): Step {
  return {
    name,
    isFault: true,
    weight,
    applies: (world) => !world.isFrozen && applies(world),
    act: async (world) => {
      world.freeze();
      const what = behind(world);
      await catchUp(world);
      return what;
    },
  };
}

function mayReissue(world: World): boolean {
  return hasMembers(world) && saysHowFarItGoes(world);
}

function mayBeginAgain(world: World): boolean {
  return canBeginAgain(world).length > 0 && saysHowFarItGoes(world);
}

/** One that does not may be taken for the answer to a reload. */
function saysHowFarItGoes({ settings }: World): boolean {
  return settings.manifestLastEventId;
}

function fault(name: string, times: number, act: (world: World) => PlainAct): Step {
  return faultAtAnyTime(name, (world) => {
    const operation = world.random.pick(OPERATIONS);
    const nth = world.random.integer(1, 3);
    world.feed.faults.add({ match: { operation, nth, times }, act: act(world) });
    return `${operation}, from request ${nth} on`;
  });
}
