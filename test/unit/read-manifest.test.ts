/** Reading a manifest: its watermark, by its own statement or by service time, and the log that it belongs to. */

import { describe, expect, it } from 'vitest';
import {
  isOfOldLog,
  readingOfEntries,
  readingOfManifest,
  readManifest,
} from '../../src/sync/manifest-cache.ts';
import { commit, position } from '../support/checkpoint-files.ts';
import { LAG_MS } from '../support/planning.ts';
import { oneSubscription, type World } from '../support/small-world.ts';
import { entry, id, NOW, subscription } from '../support/sync-values.ts';

const { signal } = new AbortController();

function read({ parts }: World, isListed = false) {
  return readManifest('sub_1', isListed, parts, signal);
}

describe('readManifest', () => {
  it('takes the watermark that the manifest states, and the log that is followed at the time', async () => {
    const world = await oneSubscription('parcels');
    expect(await read(world)).toMatchObject({
      logNumber: 1,
      watermark: { kind: 'number', through: 100n },
    });
    const step = { subscriptionId: 'sub_1', subscriptionName: null, changes: [] };
    world.checkpoint.commitFollowStep({ ...step, position: position(id(100), { logNumber: 2 }) });
    const reading = await read(world);
    expect(reading.logNumber).toBe(2);
    expect(readingOfManifest(reading, world.parts).of('parcels')).toMatchObject({
      subscriptionId: 'sub_1',
      logNumber: 2,
      through: 'sub_1',
      watermark: { kind: 'number', through: 100n },
      readAt: reading.manifest.readAt,
    });
  });

  it('F47 takes for a manifest without a watermark the time fifteen minutes before it was read', async () => {
    const world = await oneSubscription('parcels');
    world.service.watermarkCovers.delete('sub_1');
    const { watermark, manifest, listedAfter } = await read(world);
    expect(watermark).toEqual({ kind: 'time', through: new Date(manifest.readAt.getTime() - LAG_MS) });
    expect(listedAfter).toBeNull();
    expect(world.calls).toEqual(['manifest sub_1']);
  });

  it('takes the lag of manifests from the configuration', async () => {
    const world = await oneSubscription('parcels');
    world.service.watermarkCovers.delete('sub_1');
    Object.assign(world.parts.choices, { manifestLagMs: 1 });
    const { watermark, manifest } = await read(world);
    expect(watermark).toEqual({ kind: 'time', through: new Date(manifest.readAt.getTime() - 1) });
  });

  it('F81 takes a manifest ahead of the subscription record for one of an old log, without entries and events', async () => {
    const world = await oneSubscription('parcels');
    world.service.subscriptions = [subscription({ lastEventId: id(5) })];
    const reading = await read(world);
    expect(isOfOldLog(reading)).toBe(true);
    expect(reading).toMatchObject({
      manifest: { datasets: [] },
      watermark: { kind: 'number', through: -1n },
    });
    expect(readingOfManifest(reading, world.parts).of('parcels')).toBeNull();
    expect(world.calls).toEqual(['manifest sub_1', 'subscriptions']);
  });

  it.each([
    ['names the same event', [subscription({ lastEventId: id(100) })]],
    ['names no event', [subscription({ lastEventId: null })]],
    ['is not listed', []],
  ])('F81 takes a manifest for one of the current log where the record %s', async (_, subscriptions) => {
    const world = await oneSubscription('parcels');
    world.service.subscriptions = subscriptions;
    const reading = await read(world);
    expect(isOfOldLog(reading)).toBe(false);
    expect(readingOfManifest(reading, world.parts).of('parcels')).not.toBeNull();
  });

  it('reads the list of subscriptions after a manifest without a watermark where its reader asks for it', async () => {
    const world = await oneSubscription('parcels');
    world.service.watermarkCovers.delete('sub_1');
    const { listedAfter } = await read(world, true);
    expect(listedAfter?.subscriptions.map((one) => one.id)).toEqual(['sub_1']);
  });

  it('takes the new watermark of a manifest that is read again for an expired link', async () => {
    const world = await oneSubscription('parcels');
    const listedEntries = readingOfManifest(await read(world), world.parts);
    const [before] = [listedEntries.of('parcels')];
    world.service.snapshots.set('parcels', entry('parcels', 2));
    world.service.logs.set('sub_1', []);
    world.service.subscriptions = [subscription({ lastEventId: id(107) })];
    world.service.watermarkCovers.set('sub_1', id(107));
    await listedEntries.refresh(before?.entry ?? entry('parcels', 1), signal);
    expect(listedEntries.of('parcels')).toMatchObject({
      entry: { version: 2 },
      watermark: { kind: 'number', through: 107n },
    });
  });
});

it('takes for the manifest of a dataset the time fifteen minutes before it was read', async () => {
  const world = await oneSubscription('parcels');
  commit(world.checkpoint, 'sub_1');
  const read = new Map([['parcels', { entry: entry('parcels', 3), readAt: NOW }]]);
  expect(readingOfEntries('sub_1', read, world.parts).of('parcels')).toEqual({
    subscriptionId: 'sub_1',
    logNumber: 1,
    through: null,
    watermark: { kind: 'time', through: new Date(NOW.getTime() - LAG_MS) },
    readAt: NOW,
    entry: entry('parcels', 3),
  });
});
