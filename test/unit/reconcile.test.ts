/** A dataset is planned anew with what is wanted by then, however long it was worked on. */

import { expect, it } from 'vitest';
import { knownAgain, knownDataset } from '../../src/sync/known-datasets.ts';
import { bookOfRead } from '../../src/sync/offer-book.ts';
import { reconcile } from '../../src/sync/reconcile.ts';
import { watchTroubles } from '../../src/sync/trouble.ts';
import { inEarnest } from '../../src/sync/work/workshop.ts';
import { oneSubscription, publish, versions, type World } from '../support/small-world.ts';
import { id } from '../support/sync-values.ts';

/** An event that names the newest version was read. */
function announce({ checkpoint }: World, version: number): void {
  checkpoint.commitFollowStep({
    subscriptionId: 'sub_1',
    subscriptionName: null,
    cursor: id(100 + version),
    isQuiet: false,
    changes: [{ kind: 'at-least', datasetId: 'parcels', version, eventNumber: BigInt(100 + version) }],
  });
}

async function reconciled(world: World) {
  const { parts } = world;
  const { signal } = new AbortController();
  const troubles = watchTroubles(parts, signal);
  const has = await parts.destination.has();
  const known = knownDataset('parcels', has, parts);
  if (known === null) throw new Error('parcels are wanted');
  return reconcile(known, {
    parts,
    workshop: inEarnest(parts, signal, (error) => troubles.record(error, null)),
    signal,
    bookFor: () => bookOfRead([]),
    isAtHead: () => true,
    lookAgain: (before) => ({ ...knownAgain(before, has, parts), held: before.held }),
    verdictOf: () => ({ kind: 'logs-unread' }),
    record: (error, dataset) => troubles.recordForDataset(error, dataset),
  });
}

it('W2 W9 what was read before more was wanted is read again', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  publish(world, 'parcels');
  announce(world, 2);
  world.intervene = (call) => {
    // The list of versions was read, and says nothing yet of the third.
    if (call !== 'schemas parcels' || world.checkpoint.want('parcels')?.atLeastVersion === 3) return;
    publish(world, 'parcels');
    announce(world, 3);
  };
  expect(await reconciled(world)).toMatchObject({
    kind: 'updated',
    commits: [{ fromVersion: 1, toVersion: 3 }],
  });
  expect(versions(world)).toEqual({ parcels: 3 });
  expect(world.calls.filter((call) => call === 'versions parcels')).toHaveLength(3);
});
