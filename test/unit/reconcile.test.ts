/** A dataset is planned again with the desired state of the time, however long a step took. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { announcedVersion, type DesiredState } from '../../src/model/desired-state.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import { datasetState, datasetStateNow } from '../../src/sync/dataset-states.ts';
import { liveExecutor } from '../../src/sync/execute/executor.ts';
import type { ReloadRequest } from '../../src/sync/follow/reload-requests.ts';
import { watchIncidents } from '../../src/sync/incidents.ts';
import { KeptManifests } from '../../src/sync/manifest-cache.ts';
import type { DatasetState } from '../../src/sync/plan/dataset-state.ts';
import { type Reconciliation, reconcile } from '../../src/sync/reconcile.ts';
import { commit } from '../support/checkpoint-files.ts';
import { oneSubscription, publish, versions, type World } from '../support/small-world.ts';
import { entry, NOW, version } from '../support/sync-values.ts';

/** An event that names the newest version was read. */
function announce({ checkpoint }: World, version: number): void {
  commit(checkpoint, 'sub_1', {
    kind: 'at-least',
    datasetId: 'parcels',
    version,
    eventNumber: BigInt(100 + version),
  });
}

async function reconciled(world: World, changed: Partial<Reconciliation> = {}) {
  const { parts } = world;
  const { signal } = new AbortController();
  const incidents = watchIncidents(parts, signal);
  const has = await parts.destination.has();
  const known = datasetState('parcels', has, parts);
  if (known === null) throw new Error('parcels are desired');
  const manifests = new KeptManifests(parts);
  return reconcile(known, {
    parts,
    executor: liveExecutor(parts, signal, (error) => incidents.record(error, null)),
    signal,
    entriesFor: () => manifests.sourceSince(0, () => true),
    isAtHead: () => true,
    askReload: async () => false,
    readLogs: async () => true,
    readAgain: (before) => ({ ...datasetStateNow(before, has, parts), observed: before.observed }),
    verdictOf: () => ({ kind: 'logs-unread', awaited: [] }),
    record: (error, dataset) => incidents.recordForDataset(error, dataset),
    ...changed,
  });
}

function desiredStateOf({ checkpoint }: World): DesiredState {
  return present(checkpoint.desired('parcels'), 'parcels are desired');
}

/** An event of this number that asks for a reload was read. */
function askReload({ checkpoint }: World, eventNumber: number): void {
  commit(checkpoint, 'sub_1', {
    kind: 'reload',
    datasetId: 'parcels',
    version: null,
    logNumber: 1,
    eventNumber: BigInt(eventNumber),
    createdAt: NOW,
    readAt: NOW,
    knownVersion: 1,
    isWithdrawal: false,
  });
}

it('W2 W9 reads metadata again that was read before the desired state grew', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  publish(world, 'parcels');
  announce(world, 2);
  world.intervene = (call) => {
    // The list of versions was read, and says nothing yet of the third.
    if (call !== 'schemas parcels' || announcedVersion(desiredStateOf(world)) === 3) return;
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

describe('the first list of versions after a reload', () => {
  const listedOf = (world: World) => desiredStateOf(world).reloads.map(({ listedVersion }) => listedVersion);

  it('notes the newest version of the first list after a reload', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    askReload(world, 101);
    expect(listedOf(world)).toEqual([null]);
    expect(await reconciled(world)).toMatchObject({ kind: 'waiting' });
    expect(listedOf(world)).toEqual([1]);
    publish(world, 'parcels');
    await reconciled(world);
    expect(listedOf(world)).toEqual([1]);
  });

  it('notes no list that was being read while the reload was asked for', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    askReload(world, 101);
    world.intervene = (call) => {
      if (call === 'versions parcels' && desiredStateOf(world).reloads.length === 1) askReload(world, 102);
    };
    const unaware = { readAgain: (known: DatasetState) => known };
    expect(await reconciled(world, unaware)).toMatchObject({ kind: 'waiting' });
    expect(listedOf(world)).toEqual([null, null]);
    await reconciled(world, unaware);
    expect(listedOf(world)).toEqual([1, 1]);
  });
});

describe('changes that no log announced', () => {
  it('waits while the logs cannot be read, because the content before them may have been replaced', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    publish(world, 'parcels');
    commit(world.checkpoint, 'sub_1', { kind: 'refresh', datasetId: 'parcels' });
    const unread = { readLogs: async () => false };
    expect(await reconciled(world, unread)).toMatchObject({ kind: 'waiting', until: null });
    expect(versions(world)).toEqual({ parcels: 1 });
    expect(await reconciled(world)).toMatchObject({ kind: 'updated' });
    expect(versions(world)).toEqual({ parcels: 2 });
  });

  it('waits with changes of a log that may have restarted', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    publish(world, 'parcels');
    announce(world, 2);
    const log = { kind: 'log', subscriptionId: 'sub_1' } as const;
    world.checkpoint.noteAbsences([{ subject: log, since: NOW }], []);
    const unread = { readLogs: async () => false };
    expect(await reconciled(world, unread)).toMatchObject({ kind: 'waiting' });
    world.checkpoint.noteAbsences([], [log]);
    expect(await reconciled(world, unread)).toMatchObject({ kind: 'updated' });
  });

  it('applies no changes before a reload that the logs ask for', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    publish(world, 'parcels');
    commit(world.checkpoint, 'sub_1', { kind: 'refresh', datasetId: 'parcels' });
    const reload = async () => {
      askReload(world, 101);
      return true;
    };
    expect(await reconciled(world, { readLogs: reload })).toMatchObject({ kind: 'waiting' });
    expect(versions(world)).toEqual({ parcels: 1 });
  });
});

it('reads an entry again whose version is published again before the list is read', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  const { versions: lists, snapshots } = world.service;
  const published = (publishedAt: Date) =>
    lists.set('parcels', [
      version('parcels', 2, { publishedAt, resyncRequired: true }),
      version('parcels', 1),
    ]);
  published(new Date(NOW.getTime() - 2));
  snapshots.set('parcels', entry('parcels', 2, 'before'));
  announce(world, 2);
  let times = 0;
  world.intervene = (call) => {
    if (call !== 'versions parcels') return;
    times += 1;
    if (times !== 2) return;
    published(new Date(NOW.getTime() - 1));
    snapshots.set('parcels', entry('parcels', 2, 'anew'));
  };
  expect(await reconciled(world)).toMatchObject({ kind: 'updated' });
  expect(world.tables.get('parcels')?.snapshotDigest).toBe(snapshotDigest(entry('parcels', 2, 'anew').files));
});

describe('F79 a table whose version is withdrawn', () => {
  it('waits where no subscription that contains the table can be asked for a reload now', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.versions.set('parcels', [version('parcels', 1, { publishedAt: new Date(0) })]);
    commit(world.checkpoint, 'sub_1', { kind: 'refresh', datasetId: 'parcels' });
    const requests: ReloadRequest[] = [];
    const refused = {
      askReload: async (request: ReloadRequest) => {
        requests.push(request);
        return false;
      },
    };
    expect(await reconciled(world, refused)).toMatchObject({ kind: 'waiting', until: null });
    expect(requests).toEqual([{ datasetId: 'parcels', isWithdrawal: true }]);
    expect(world.checkpoint.desired('parcels')?.reloads).toEqual([]);
  });
});
