/** What manifests offer where plans ask for it: what is read, what is shared, and what is too old. */

import { describe, expect, it } from 'vitest';
import { KeptManifests, offersOfManifest } from '../../src/sync/manifest-cache.ts';
import { oneSubscription, subscribe } from '../support/small-world.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { entry, membersAt, NOW, subscription, want } from '../support/sync-values.ts';

const NOBODY = new AbortController().signal;

async function kept(...datasetIds: string[]) {
  const world = await oneSubscription(...datasetIds);
  const clock = new SteppedClock();
  const manifests = new KeptManifests({ ...world.parts, clock });
  const asked = () => world.calls.filter((call) => call.startsWith('manifest') || call.startsWith('entry'));
  return { world, clock, manifests, asked };
}

describe('a book of offers', () => {
  it('has none before they were read, and then those of the subscriptions that hold the dataset', async () => {
    const { world, manifests, asked } = await kept('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    const book = manifests.book(0, () => true);
    const wanted = want({ members: membersAt('sub_1', 'sub_2') });
    expect(book.of(wanted)).toBeNull();
    await book.read(wanted, NOBODY);
    expect(book.of(wanted)?.map(({ subscriptionId }) => subscriptionId)).toEqual(['sub_1', 'sub_2']);
    expect(asked()).toEqual(['manifest sub_1', 'manifest sub_2']);
  });

  it('shares one reading with all that ask at about the same time', async () => {
    const { manifests, asked } = await kept('parcels', 'permits');
    const wants = ['parcels', 'permits'].map((datasetId) => want({ datasetId }));
    await Promise.all(wants.map((each) => manifests.book(0, () => true).read(each, NOBODY)));
    expect(manifests.book(0, () => true).of(want())).toHaveLength(1);
    expect(asked()).toEqual(['manifest sub_1']);
  });

  it('does not take what was read before something else was wanted', async () => {
    const { clock, manifests, asked } = await kept('parcels');
    const book = manifests.book(0, () => true);
    await book.read(want(), NOBODY);
    clock.pass(1_000);
    expect(manifests.book(500, () => true).of(want())).toBeNull();
    expect(book.of(want())).toHaveLength(1);
    book.renew();
    expect(book.of(want())).toBeNull();
    await book.read(want(), NOBODY);
    expect(book.of(want())).toHaveLength(1);
    expect(asked()).toHaveLength(2);
  });

  it('does not wait for a reading that began too early', async () => {
    const { clock, manifests, asked } = await kept('parcels');
    const early = manifests.book(0, () => true).read(want(), NOBODY);
    clock.pass(1_000);
    const late = manifests.book(1_000, () => true);
    await Promise.all([early, late.read(want(), NOBODY)]);
    expect(late.of(want())).toHaveLength(1);
    expect(asked()).toHaveLength(2);
  });

  it('asks nothing of what is held', async () => {
    const { world, manifests, asked } = await kept('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    const book = manifests.book(0, (subscriptionId) => subscriptionId !== 'sub_1');
    const wanted = want({ members: membersAt('sub_1', 'sub_2') });
    await book.read(wanted, NOBODY);
    expect(book.of(wanted)?.map(({ subscriptionId }) => subscriptionId)).toEqual(['sub_2']);
    expect(asked()).toEqual(['manifest sub_2']);
  });

  it('takes what an audit has read', async () => {
    const { world, manifests, asked } = await kept('parcels');
    const manifest = {
      subscriptionId: 'sub_1',
      lastEventId: null,
      datasets: [entry('parcels', 7)],
      readAt: NOW,
    };
    const watermark = { kind: 'time', through: NOW } as const;
    const reading = { manifest, logNumber: 1, watermark, listedAfter: null };
    manifests.keep(offersOfManifest(reading, world.parts), 10);
    expect(manifests.book(10, () => true).of(want())?.[0]?.entry.version).toBe(7);
    expect(asked()).toEqual([]);
  });

  it('of a service with a manifest for each dataset reads that one, once for all that hold it', async () => {
    const { world, manifests, asked } = await kept('parcels', 'permits');
    world.service.shape = 'dataset';
    const book = manifests.book(0, () => true);
    const wanted = want({ members: membersAt('sub_1', 'sub_2') });
    expect(book.of(wanted)).toBeNull();
    await book.read(wanted, NOBODY);
    expect(book.of(wanted)).toHaveLength(2);
    expect(asked()).toEqual(['entry parcels']);
    book.renew();
    expect(book.of(wanted)).toBeNull();
  });
});
