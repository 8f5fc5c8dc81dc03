/** F76 tables that somebody dropped by hand: when their reload is requested, by a catch-up and by a daemon, and what is reported of it. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { performUnpin } from '../../src/sync/rollback.ts';
import { followingDaemon } from '../support/small-daemon.ts';
import { caughtUp, type World } from '../support/small-world.ts';
import { NOW } from '../support/sync-values.ts';

const HOUR_MS = 3_600_000;
const STEP_MS = 10_000;

const REQUESTED = 'A table was dropped: its reload is requested.';
const KEPT = 'A table was dropped, and nothing loads it again.';

function reported({ logged }: World): readonly string[] {
  return logged.map(([, , message]) => message).filter((message) => message.includes('was dropped'));
}

/** How often the table was written since it was loaded. */
function reloads(world: World, datasetId: string): number {
  return (world.tables.get(datasetId)?.commitNumber ?? 0) - 1;
}

function pin(world: World, datasetId: string): void {
  const table = present(world.tables.get(datasetId), 'there is a table');
  world.tables.set(datasetId, { ...table, pinnedSince: NOW });
}

function unpin(world: World, datasetId: string) {
  const request = { requestId: '1', datasetId, command: 'resume', parameters: {} };
  return performUnpin(request, { parts: world.parts });
}

describe('a catch-up', () => {
  it('F76 loads a dropped table again, and no other one', async () => {
    const world = await caughtUp('parcels', 'permits');
    world.dropped.add('parcels');
    await world.catchUp();
    expect([reloads(world, 'parcels'), reloads(world, 'permits')]).toEqual([1, 0]);
    expect(reported(world)).toEqual([REQUESTED]);
    await world.catchUp();
    expect(reloads(world, 'parcels')).toBe(1);
  });

  it('F76 loads a dropped table again if the checkpoint was lost and the mirror stores no progress', async () => {
    const world = await caughtUp('parcels');
    const lost = await caughtUp();
    Object.assign(lost.service, world.service);
    for (const [datasetId, table] of world.tables) lost.tables.set(datasetId, table);
    lost.enrolments.push(...world.enrolments);
    lost.dropped.add('parcels');
    await lost.catchUp();
    expect([reloads(lost, 'parcels'), reported(lost)]).toEqual([1, [REQUESTED]]);
  });

  it('F76 loads a dropped table once if its reload was requested before', async () => {
    const world = await caughtUp('parcels');
    world.dropped.add('parcels');
    world.checkpoint.requestResync(['parcels']);
    const number = world.checkpoint.desired('parcels')?.resyncNumber;
    await world.catchUp();
    expect(world.checkpoint.desired('parcels')?.resyncNumber).toBe(number);
    expect([reloads(world, 'parcels'), reported(world)]).toEqual([1, [REQUESTED]]);
  });
});

describe('a daemon', () => {
  it('F76 finds a dropped table at its next audit, and reports it once', async () => {
    const { world, pass } = await followingDaemon('parcels', 'permits');
    world.dropped.add('parcels');
    await pass(HOUR_MS + STEP_MS, STEP_MS);
    expect([reloads(world, 'parcels'), reloads(world, 'permits')]).toEqual([1, 0]);
    await pass(2 * HOUR_MS, STEP_MS);
    expect([reloads(world, 'parcels'), reported(world)]).toEqual([1, [REQUESTED]]);
  });

  it('F76 loads a table that is dropped a second time a second time', async () => {
    const { world, pass } = await followingDaemon('parcels');
    for (const times of [1, 2]) {
      world.dropped.add('parcels');
      await pass(HOUR_MS + STEP_MS, STEP_MS);
      expect([reloads(world, 'parcels'), reported(world).length]).toEqual([times, times]);
    }
  });

  it('F76 names a dropped table that is pinned once, and loads it again at the first audit after its pin has ended', async () => {
    const { world, pass } = await followingDaemon('parcels');
    pin(world, 'parcels');
    world.dropped.add('parcels');
    await pass(2 * HOUR_MS + STEP_MS, STEP_MS);
    expect([reloads(world, 'parcels'), reported(world)]).toEqual([0, [KEPT]]);
    await world.parts.destination.unpin('parcels');
    await pass(HOUR_MS + STEP_MS, STEP_MS);
    expect([reloads(world, 'parcels'), reported(world)]).toEqual([1, [KEPT, REQUESTED]]);
  });
});

describe('the end of a pin', () => {
  it.each([
    ['of a dropped table requests its reload', true],
    ['of a table that is there requests none', false],
  ])('F76 the end of a pin %s', async (_, isDropped) => {
    const world = await caughtUp('parcels');
    pin(world, 'parcels');
    if (isDropped) world.dropped.add('parcels');
    await unpin(world, 'parcels');
    expect((world.checkpoint.desired('parcels')?.resyncNumber ?? 0) > 0).toBe(isDropped);
  });
});
