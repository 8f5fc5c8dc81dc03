/** The entries of manifests for plans: when one is read, shared, or too old. */

import { describe, expect, it } from 'vitest';
import { KeptManifests, readingOfManifest } from '../../src/sync/manifest-cache.ts';
import { oneSubscription, subscribe } from '../support/small-world.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { desired, entry, membersAt, NOW, subscription } from '../support/sync-values.ts';

const NEVER_ABORTED = new AbortController().signal;

async function kept(...datasetIds: string[]) {
  const world = await oneSubscription(...datasetIds);
  const clock = new SteppedClock();
  const manifests = new KeptManifests({ ...world.parts, clock });
  const asked = () => world.calls.filter((call) => call.startsWith('manifest') || call.startsWith('entry'));
  return { world, clock, manifests, asked };
}

describe('ManifestCache', () => {
  it('has no entries before a reading, and then those of the subscriptions that contain the dataset', async () => {
    const { world, manifests, asked } = await kept('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    const source = manifests.sourceSince(0, () => true);
    const state = desired({ members: membersAt('sub_1', 'sub_2') });
    expect(source.of(state)).toBeNull();
    await source.read(state, NEVER_ABORTED);
    expect(source.of(state)?.map(({ subscriptionId }) => subscriptionId)).toEqual(['sub_1', 'sub_2']);
    expect(asked()).toEqual(['manifest sub_1', 'manifest sub_2']);
  });

  it('shares one reading among all requests at about the same time', async () => {
    const { manifests, asked } = await kept('parcels', 'permits');
    const desiredStates = ['parcels', 'permits'].map((datasetId) => desired({ datasetId }));
    await Promise.all(
      desiredStates.map((each) => manifests.sourceSince(0, () => true).read(each, NEVER_ABORTED)),
    );
    expect(manifests.sourceSince(0, () => true).of(desired())).toHaveLength(1);
    expect(asked()).toEqual(['manifest sub_1']);
  });

  it('rejects entries that were read before the desired state changed', async () => {
    const { clock, manifests, asked } = await kept('parcels');
    const source = manifests.sourceSince(0, () => true);
    await source.read(desired(), NEVER_ABORTED);
    clock.pass(1_000);
    expect(manifests.sourceSince(500, () => true).of(desired())).toBeNull();
    expect(source.of(desired())).toHaveLength(1);
    source.renew();
    expect(source.of(desired())).toBeNull();
    await source.read(desired(), NEVER_ABORTED);
    expect(source.of(desired())).toHaveLength(1);
    expect(asked()).toHaveLength(2);
  });

  it('does not wait for a reading that began too early', async () => {
    const { clock, manifests, asked } = await kept('parcels');
    const early = manifests.sourceSince(0, () => true).read(desired(), NEVER_ABORTED);
    clock.pass(1_000);
    const late = manifests.sourceSince(1_000, () => true);
    await Promise.all([early, late.read(desired(), NEVER_ABORTED)]);
    expect(late.of(desired())).toHaveLength(1);
    expect(asked()).toHaveLength(2);
  });

  it('does not read the manifest of a suspended subscription', async () => {
    const { world, manifests, asked } = await kept('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    const source = manifests.sourceSince(0, (subscriptionId) => subscriptionId !== 'sub_1');
    const state = desired({ members: membersAt('sub_1', 'sub_2') });
    await source.read(state, NEVER_ABORTED);
    expect(source.of(state)?.map(({ subscriptionId }) => subscriptionId)).toEqual(['sub_2']);
    expect(asked()).toEqual(['manifest sub_2']);
  });

  it('takes the manifest that an audit has read', async () => {
    const { world, manifests, asked } = await kept('parcels');
    const manifest = {
      subscriptionId: 'sub_1',
      lastEventId: null,
      datasets: [entry('parcels', 7)],
      readAt: NOW,
    };
    const watermark = { kind: 'time', through: NOW } as const;
    const reading = { manifest, logNumber: 1, watermark, listedAfter: null };
    manifests.keep(readingOfManifest(reading, world.parts), 10);
    expect(manifests.sourceSince(10, () => true).of(desired())?.[0]?.entry.version).toBe(7);
    expect(asked()).toEqual([]);
  });

  it('reads the manifest of a dataset once for all subscriptions that contain it', async () => {
    const { world, manifests, asked } = await kept('parcels', 'permits');
    world.service.shape = 'dataset';
    const source = manifests.sourceSince(0, () => true);
    const state = desired({ members: membersAt('sub_1', 'sub_2') });
    expect(source.of(state)).toBeNull();
    await source.read(state, NEVER_ABORTED);
    expect(source.of(state)).toHaveLength(2);
    expect(asked()).toEqual(['entry parcels']);
    source.renew();
    expect(source.of(state)).toBeNull();
  });
});
