/** Absences without an event are checked again with every poll until they are confirmed, and no more often. */

import { describe, expect, it } from 'vitest';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { smallDaemon } from '../support/small-daemon.ts';
import {
  calm,
  oneSubscription,
  publishWithSnapshot,
  smallWorld,
  subscribe,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, id, subscription, version } from '../support/sync-values.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const STEP_MS = 10 * SECOND_MS;

const callsOf = ({ calls }: World, name: string): number => calls.filter((call) => call === name).length;

async function started(world: World) {
  const daemon = smallDaemon(world);
  await daemon.pass(SECOND_MS);
  calm(world);
  return { world, ...daemon };
}

describe('F51 F55 a member that the manifest lacks', () => {
  it('checks an absent member with every poll, retires it after ten minutes, and reads no further manifest', async () => {
    const { world, pass } = await started(await oneSubscription('parcels', 'permits'));
    world.service.members.set('sub_1', ['parcels']);
    await pass(HOUR_MS + 9 * MINUTE_MS, STEP_MS);
    expect(world.retired).toEqual([]);
    await pass(3 * MINUTE_MS, STEP_MS);
    expect(world.retired).toMatchObject([{ datasetId: 'permits' }]);
    expect(callsOf(world, 'manifest sub_1')).toBeGreaterThanOrEqual(10);
    expect(callsOf(world, 'manifest sub_1')).toBeLessThanOrEqual(14);
    calm(world);
    await pass(20 * MINUTE_MS, STEP_MS);
    expect(callsOf(world, 'manifest sub_1')).toBe(0);
  });

  it('keeps a table whose dataset is back in the manifest at the next poll', async () => {
    const { world, pass } = await started(await oneSubscription('parcels', 'permits'));
    world.service.members.set('sub_1', ['parcels']);
    world.intervene = (call) => {
      if (call === 'versions parcels') throw new Error('nothing is behind');
    };
    await pass(HOUR_MS + 30 * SECOND_MS, STEP_MS);
    expect(world.checkpoint.absences()).toHaveLength(1);
    world.service.members.set('sub_1', ['parcels', 'permits']);
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(world.checkpoint.absences()).toEqual([]);
    calm(world);
    await pass(30 * MINUTE_MS, STEP_MS);
    expect(callsOf(world, 'manifest sub_1')).toBe(0);
    expect(world.retired).toEqual([]);
  });
});

describe('F54 a log restart', () => {
  it('finds a log restart below the position by an audit, and reads the new log from its start ten minutes later', async () => {
    const { world, pass } = await started(await oneSubscription('parcels'));
    world.service.subscriptions = [subscription({ lastEventId: id(1) })];
    world.service.logs.set('sub_1', [event(1, 'dataset.updated', { version: 2 })]);
    world.service.watermarkCovers.set('sub_1', id(1));
    world.service.snapshots.set('parcels', entry('parcels', 2));
    await pass(HOUR_MS + 12 * MINUTE_MS, STEP_MS);
    expect(world.checkpoint.followed().get('sub_1')).toMatchObject({ logNumber: 2, cursor: id(1) });
    expect(versions(world)).toEqual({ parcels: 2 });
  });
});

describe('a state that the list of versions leaves open', () => {
  it('F50 reads the list of versions once a poll until the withdrawal of a version is confirmed', async () => {
    const { world, pass } = await started(await oneSubscription('parcels'));
    for (const _ of [2, 3]) publishWithSnapshot(world, 'parcels');
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(versions(world)).toEqual({ parcels: 3 });
    world.service.versions.set('parcels', [version('parcels', 2), version('parcels', 1)]);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    calm(world);
    // The next audit finds the withdrawal.
    await pass(2 * HOUR_MS, STEP_MS);
    expect(callsOf(world, 'versions parcels')).toBeGreaterThan(40);
    expect(callsOf(world, 'versions parcels')).toBeLessThan(140);
    await pass(10 * MINUTE_MS, STEP_MS);
    expect(versions(world)).toEqual({ parcels: 2 });
    calm(world);
    await pass(30 * MINUTE_MS, STEP_MS);
    expect(callsOf(world, 'versions parcels')).toBe(0);
  });

  it('does not repeat a metadata refresh at once while another subscription of the dataset cannot be read', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    await world.catchUp();
    world.intervene = (call) => {
      if (call === 'events sub_2') throw new ServiceUnavailableError('unreachable');
    };
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    world.service.logs.get('sub_1')?.push(event(101, 'dataset.schema_changed'));
    world.calls.length = 0;
    await pass(10 * MINUTE_MS, STEP_MS);
    expect(callsOf(world, 'versions parcels')).toBeGreaterThan(5);
    expect(callsOf(world, 'versions parcels')).toBeLessThan(30);
    expect(world.checkpoint.desired('parcels')).toMatchObject({ refreshesRequested: 1, refreshesDone: 0 });
    calm(world);
    await pass(15 * MINUTE_MS, STEP_MS);
    expect(world.checkpoint.desired('parcels')).toMatchObject({ refreshesDone: 1 });
  });
});

describe('F84 a dataset that joins a subscription by its record alone, without an event', () => {
  it('keeps the table of a dataset that moved to a subscription whose record alone names it', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels', 'permits');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    const { pass } = await started(world);
    world.service.subscriptions = world.service.subscriptions.map((record) =>
      record.id === 'sub_2' ? { ...record, datasetIds: ['zoning', 'permits'] } : record,
    );
    world.service.logs.get('sub_1')?.push(event(101, 'dataset.removed', { datasetId: 'permits' }));
    world.service.members.set('sub_1', ['parcels']);
    world.service.watermarkCovers.set('sub_1', id(101));
    await pass(HOUR_MS, STEP_MS);
    expect(world.retired).toEqual([]);
    world.service.members.set('sub_2', ['zoning', 'permits']);
    await pass(2 * HOUR_MS, STEP_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, zoning: 1 });
    expect(world.retired).toEqual([]);
  });
});
