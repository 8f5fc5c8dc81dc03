/** The desired states that a catch-up takes from events, manifests and lists of versions, and how long they last. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { announcedVersion } from '../../src/model/desired-state.ts';
import { BadChangesError } from '../../src/model/errors.ts';
import type { FeedEvent } from '../../src/model/event.ts';
import type { WriteJob } from '../../src/model/write-jobs.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import {
  CALLS_WITHOUT_NEWS,
  calm,
  caughtUp,
  elapse,
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  subscribe,
  versions,
  type World,
} from '../support/small-world.ts';
import {
  entry,
  event,
  id,
  member,
  NOW,
  schema,
  subscription,
  table,
  unreadable,
  version,
} from '../support/sync-values.ts';

const MINUTE_MS = 60_000;

/** A new process, with nothing but what is stored: what is asked of the service, and how it ended. */
async function again(world: World): Promise<CatchUpResult> {
  calm(world);
  return world.catchUp();
}

function desiredStateOf(world: World, datasetId = 'parcels') {
  return world.checkpoint.desiredStates().get(datasetId);
}

/** The highest version that was announced. */
function announcedOf(world: World, datasetId = 'parcels'): number | null {
  return announcedVersion(present(desiredStateOf(world, datasetId), 'it has a desired state'));
}

/** The numbers of the events that asked for reloads, met or not. */
function reloadsOf(world: World, datasetId = 'parcels') {
  return desiredStateOf(world, datasetId)?.reloads.map(({ subscriptionId, eventNumber }) => [
    subscriptionId,
    eventNumber,
  ]);
}

/** What was asked about datasets, and not of subscriptions. */
function askedOf(world: World): readonly string[] {
  return world.calls.filter((call) => /^(versions|schemas|changes|download) /.test(call));
}

describe('desired states', () => {
  it('W2 F04 desired states are never cleared: a mirror restored from a backup is behind without an event', async () => {
    const world = await caughtUp('parcels', 'permits');
    const backup = [...world.tables];
    world.service.logs.set('sub_1', [
      event(101, 'dataset.updated', { version: 2 }),
      event(102, 'dataset.resync_required', { datasetId: 'permits' }),
    ]);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    world.service.watermarkCovers.set('sub_1', id(102));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'loaded' });
    const met = [desiredStateOf(world), desiredStateOf(world, 'permits')];
    expect([announcedOf(world), reloadsOf(world, 'permits')]).toEqual([2, [['sub_1', 102n]]]);
    expect(kinds(await again(world))).toEqual({ parcels: 'current', permits: 'current' });
    expect([desiredStateOf(world), desiredStateOf(world, 'permits')]).toEqual(met);
    for (const [datasetId, observed] of backup) world.tables.set(datasetId, observed);
    expect(kinds(await again(world))).toEqual({ parcels: 'applied', permits: 'loaded' });
  });

  it('W2 compares the desired state with the mirror anew before every write job', async () => {
    const world = await caughtUp('parcels');
    for (const _ of [2, 3, 4]) publish(world, 'parcels');
    const plannedFrom: (number | undefined)[] = [];
    const staleFrom = (observed: number) => (job: WriteJob) => {
      plannedFrom.push(job.plannedFrom?.version);
      world.tables.set('parcels', table(observed, { reloads: reloadMarks([['sub_1', 100n]]) }));
      return { kind: 'stale-plan', datasetId: 'parcels' } as const;
    };
    world.service.outcomes.push(staleFrom(2), staleFrom(4));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(plannedFrom).toEqual([1, 2]);
  });
});

describe('an event', () => {
  it('V1 takes an event as a hint only: the list of versions says which changes there are', async () => {
    const world = await caughtUp('parcels');
    for (const _ of [2, 3, 4]) publish(world, 'parcels');
    const lies = { previousVersion: 9, schemaVersion: '9', counts: { added: 9, changed: 9, removed: 9 } };
    world.service.logs.set('sub_1', [event(101, 'dataset.updated', { version: 2, ...lies })]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied' });
    expect(world.applied).toMatchObject([
      {
        version: 4,
        schema: { schemaVersion: '1' },
        versions: [{ version: 2 }, { version: 3 }, { version: 4 }],
      },
    ]);
  });

  it('W8 W9 an event without a version keeps a metadata refresh pending until the table has the newest version', async () => {
    const world = await caughtUp('parcels');
    world.service.logs.set('sub_1', [event(101, 'dataset.updated')]);
    world.service.versions.set('parcels', [
      version('parcels', 2, { resyncRequired: true }),
      version('parcels', 1),
    ]);
    for (const _ of ['once', 'and again, for it is owed still']) {
      expect(kinds(await again(world))).toEqual({ parcels: 'waiting' });
      expect(askedOf(world)).toEqual(['versions parcels', 'schemas parcels']);
      expect(desiredStateOf(world)).toMatchObject({ refreshesRequested: 1, refreshesDone: 0 });
    }
    world.service.snapshots.set('parcels', entry('parcels', 2));
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(askedOf(world)).toEqual(['versions parcels', 'schemas parcels', 'download parcels']);
    expect(desiredStateOf(world)).toMatchObject({ refreshesRequested: 1, refreshesDone: 1 });
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    expect(askedOf(world)).toEqual([]);
  });

  it('W10 ignores an event about a dataset that is no member: the manifest decides about members', async () => {
    const world = await caughtUp('parcels');
    const about = (datasetId: string, number: number): FeedEvent =>
      event(number, 'dataset.updated', { datasetId, version: 1 });
    world.service.logs.set('sub_1', [about('permits', 101), about('zoning', 102)]);
    world.service.snapshots.set('permits', entry('permits', 1));
    world.service.snapshots.set('zoning', entry('zoning', 1));
    world.service.members.set('sub_1', ['parcels', 'permits']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'loaded' });
    expect(world.calls.slice(0, 7)).toEqual([...CALLS_WITHOUT_NEWS, 'versions permits']);
    expect(desiredStateOf(world, 'zoning')).toBeUndefined();
  });

  it('W12 reads every event of a page whatever its number, and takes the highest as the position', async () => {
    const world = await oneSubscription('parcels', 'permits', 'zoning');
    world.service.watermarkCovers.set('sub_1', id(90));
    world.service.logs.set('sub_1', [event(100, 'dataset.schema_changed')]);
    await world.catchUp();
    const page = [
      event(102, 'dataset.updated', { datasetId: 'parcels', version: 2 }),
      event(99, 'dataset.updated', { datasetId: 'permits', version: 3 }),
      event(101, 'dataset.updated', { datasetId: 'zoning', version: 4 }),
    ];
    const events = async () => ({ events: page, hasMore: false, readAt: NOW });
    Object.assign(world.parts.feed, { events });
    await world.catchUp();
    expect(['parcels', 'permits', 'zoning'].map((each) => announcedOf(world, each))).toEqual([2, 3, 4]);
    expect(world.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(102));
  });

  it('W13 F29 reports and counts unreadable events once, refreshes their datasets, and goes on', async () => {
    const world = await caughtUp('parcels', 'permits');
    world.service.logs.set('sub_1', [
      unreadable({ id: id(101), problem: 'type: "dataset.split" is not known' }),
      unreadable({ id: id(102), datasetId: null }),
      event(103, 'dataset.updated', { datasetId: 'permits', version: 2 }),
    ]);
    world.service.snapshots.set('permits', entry('permits', 2));
    const reported = () => world.logged.filter(([level]) => level === 'warn').map(([, fields]) => fields);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'applied' });
    expect(world.calls).toContain('versions parcels');
    const why = 'type: "dataset.split" is not known';
    expect(reported()).toEqual([{ subscription: 'sub_1', event: 'evt_101', why, events: 2 }]);
    expect(world.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(103));
    expect(kinds(await again(world))).toEqual({ parcels: 'current', permits: 'current' });
    expect(reported()).toHaveLength(1);
  });
});

describe('a position that is taken from the manifest', () => {
  const ways: Readonly<Record<string, () => Promise<World>>> = {
    'at a first start': () => oneSubscription('parcels'),
    'where the position has expired': async () => {
      const world = await caughtUp('parcels');
      world.service.keepsEventsFrom = 120n;
      world.service.subscriptions = [subscription({ lastEventId: id(150) })];
      return world;
    },
    'where the checkpoint is lost': async () => {
      const lost = await caughtUp('parcels');
      const world = await oneSubscription('parcels');
      world.enrolments.push(...lost.enrolments);
      for (const [datasetId, observed] of lost.tables) world.tables.set(datasetId, observed);
      return world;
    },
  };

  it.each(Object.entries(ways))(
    'W17 W18 reads in the log what happens between record and manifest %s',
    async (_, make) => {
      const world = await make();
      const [before = subscription()] = world.service.subscriptions;
      const happened = event((before.lastEventId?.number ?? 0n) + 1n, 'dataset.resync_required', {
        version: 1,
      });
      world.intervene = (call) => {
        if (call !== 'manifest sub_1' || world.service.logs.get('sub_1')?.includes(happened)) return;
        world.service.logs.set('sub_1', [happened]);
        world.service.subscriptions = [{ ...before, lastEventId: happened.id }];
        world.service.watermarkCovers.set('sub_1', happened.id);
      };
      expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
      expect(world.calls.indexOf('subscriptions')).toBeLessThan(world.calls.indexOf('manifest sub_1'));
      expect(reloadsOf(world)?.at(-1)).toEqual(['sub_1', happened.id.number]);
      expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    },
  );
});

describe('every dataset of the manifest', () => {
  it('W20 loads every dataset of the manifest, except tables of its version and digest without changes', async () => {
    const world = await oneSubscription(
      'absent',
      'very-snapshot',
      'other-version',
      'other-content',
      'applied-to',
    );
    const observed = (datasetId: string, changed: Parameters<typeof table>[1] = {}) =>
      world.tables.set(datasetId, table(1, { datasetId, ...changed }));
    observed('very-snapshot');
    world.tables.set('other-version', table(2, { datasetId: 'other-version' }));
    observed('other-content', { snapshotDigest: 'other' });
    observed('applied-to', { snapshotVersion: 0 });
    expect(kinds(await world.catchUp())).toEqual({
      absent: 'loaded',
      'applied-to': 'loaded',
      'other-content': 'loaded',
      'other-version': 'loaded',
      'very-snapshot': 'current',
    });
    expect(new Set(Object.values(versions(world)))).toEqual(new Set([1]));
  });

  it('W21 W23 F28 follows versions and members of the manifest without an event, absences after ten minutes', async () => {
    const world = await caughtUp('parcels', 'permits', 'zoning');
    world.service.members.set('sub_1', ['parcels', 'roads']);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    world.service.snapshots.set('roads', entry('roads', 1));
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'applied',
      permits: 'current',
      roads: 'loaded',
      zoning: 'current',
    });
    // The first read met a manifest that was being made: it lacked zoning, too.
    world.service.members.set('sub_1', ['parcels', 'roads', 'zoning']);
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'current',
      permits: 'retired',
      roads: 'current',
      zoning: 'current',
    });
  });
});

describe('versions and schemas that no event announced', () => {
  /** An event announces version 2; version 3, which none announces, is in the list and needs the snapshot. */
  function publishUnannounced(world: World): void {
    publish(world, 'parcels');
    const listed = world.service.versions.get('parcels') ?? [];
    world.service.versions.set('parcels', [version('parcels', 3, { resyncRequired: true }), ...listed]);
  }

  it('W30 an unannounced version that the manifest lacks is desired from then on, and waited for', async () => {
    const world = await caughtUp('parcels');
    publishUnannounced(world);
    const why = 'the manifest is older than what the service has announced, or may be';
    const waiting = { kind: 'waiting', why };
    const first = await world.catchUp();
    expect(first).toMatchObject({ datasets: [{ ...waiting, commits: [{ toVersion: 2 }] }] });
    expect(desiredStateOf(world)).toMatchObject({ refreshesRequested: 1, refreshesDone: 0 });
    const followed = world.checkpoint.followed().get('sub_1');
    expect(followed).toMatchObject({ name: 'Travis', cursor: id(101), replayedAt: null });
    expect(await again(world)).toMatchObject({ datasets: [waiting] });
    world.service.snapshots.set('parcels', entry('parcels', 3));
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    expect(askedOf(world)).toEqual([]);
  });

  it('W30 an unannounced version leaves a quiet log quiet', async () => {
    const world = await caughtUp('parcels');
    world.service.keepsEventsFrom = 200n;
    await world.catchUp();
    publishUnannounced(world);
    world.service.logs.set('sub_1', []);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    expect(kinds(await again(world))).toEqual({ parcels: 'waiting' });
    expect(desiredStateOf(world)).toMatchObject({ refreshesRequested: 1, refreshesDone: 0 });
    const followed = world.checkpoint.followed().get('sub_1');
    expect(followed).toMatchObject({ cursor: id(100), replayedAt: expect.any(Date) });
  });

  it('W30 an unannounced version stays desired where its changes failed', async () => {
    const world = await caughtUp('parcels');
    world.service.logs.set('sub_1', [event(101, 'dataset.resync_required', { version: 1 })]);
    world.service.watermarkCovers.set('sub_1', id(101));
    world.service.versions.set('parcels', [version('parcels', 2), version('parcels', 1)]);
    let prepared = 0;
    world.intervene = (call) => {
      if (call !== 'prepare parcels' || ++prepared === 1) return;
      throw new BadChangesError('parcels', 2, 'Version 2, page 1: acreage of row 7 is "many", no number.');
    };
    const loaded = [{ kind: 'snapshot', toVersion: 1 }];
    expect(await world.catchUp()).toMatchObject({ datasets: [{ kind: 'failed', commits: loaded }] });
    expect(kinds(await again(world))).toEqual({ parcels: 'failed' });
    expect(askedOf(world)).toEqual(['versions parcels', 'schemas parcels']);
  });

  it('W30 keeps a metadata refresh pending until the manifest has the new schema', async () => {
    const world = await caughtUp('parcels');
    world.service.schemas.set('parcels', [
      schema('parcels', { schemaVersion: '2', firstVersion: 2 }),
      schema('parcels'),
    ]);
    publishWithSnapshot(world, 'parcels', { schemaVersion: '2' });
    world.service.snapshots.set('parcels', entry('parcels', 2));
    const ends = [kinds(await world.catchUp()), kinds(await again(world)), kinds(await again(world))];
    expect(ends).toEqual([{ parcels: 'waiting' }, { parcels: 'waiting' }, { parcels: 'waiting' }]);
    expect(desiredStateOf(world)).toMatchObject({ refreshesRequested: 1, refreshesDone: 0 });
    world.service.snapshots.set('parcels', { ...entry('parcels', 2), schemaVersion: '2' });
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
  });

  it('W30 applies no changes of an unannounced version while a reload is owed', async () => {
    const world = await oneSubscription('parcels');
    world.service.snapshots.set('parcels', entry('parcels', 9));
    await world.catchUp();
    world.service.logs.set('sub_1', [event(101, 'dataset.resync_required', { version: 3 })]);
    world.service.versions.set('parcels', [version('parcels', 10), version('parcels', 9)]);
    expect(kinds(await again(world))).toEqual({ parcels: 'waiting' });
    expect(versions(world)).toEqual({ parcels: 9 });
    world.service.watermarkCovers.set('sub_1', id(101));
    world.service.snapshots.set('parcels', entry('parcels', 10));
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 10 });
  });
});

describe('a version restart that no event announced', () => {
  /** A table at version 3, and a service that has the dataset at version 2 and never had the table's. */
  async function restarted(): Promise<World> {
    const world = await caughtUp('parcels');
    for (const _ of [2, 3]) publishWithSnapshot(world, 'parcels');
    await world.catchUp();
    expect(versions(world)).toEqual({ parcels: 3 });
    world.service.versions.set('parcels', [version('parcels', 2), version('parcels', 1)]);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    return world;
  }

  const HOUR_MS = 60 * MINUTE_MS;

  it('W32 loads restarted versions once the list has lacked the version of the table for an hour, and only once', async () => {
    const world = await restarted();
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    elapse(world, HOUR_MS - 1);
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    expect(versions(world)).toEqual({ parcels: 3 });
    elapse(world, 1);
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 2 });
    for (const _ of ['what was announced is void, too', 'nothing more']) {
      expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    }
    expect(askedOf(world)).toEqual([]);
  });

  it('W32 waits with a version restart as long as a manifest without a watermark may lag', async () => {
    const world = await restarted();
    world.service.watermarkCovers.delete('sub_1');
    expect(kinds(await again(world))).toEqual({ parcels: 'current' });
    elapse(world, HOUR_MS);
    expect(kinds(await again(world))).toEqual({ parcels: 'waiting' });
    elapse(world, 15 * MINUTE_MS);
    // That very time is to be covered, and service time has whole seconds.
    expect(kinds(await again(world))).toEqual({ parcels: 'waiting' });
    elapse(world, 1_000);
    expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 2 });
  });

  it('W32 takes no lower version of a manifest that is older than the list of versions', async () => {
    const world = await restarted();
    const listed = [3, 2, 1].map((number) => version('parcels', number));
    world.service.versions.set('parcels', listed);
    for (let times = 0; times < 3; times += 1) {
      expect(kinds(await again(world))).toEqual({ parcels: 'current' });
      expect(askedOf(world)).toEqual(['versions parcels', 'schemas parcels']);
      elapse(world, HOUR_MS);
    }
    expect(versions(world)).toEqual({ parcels: 3 });
  });
});

describe('a dataset without key columns', () => {
  it('V13 loads the snapshot of every new version of a dataset without key columns', async () => {
    const world = await oneSubscription('parcels');
    world.service.schemas.set('parcels', [schema('parcels', { keyColumns: [] })]);
    await world.catchUp();
    for (const number of [2, 3]) {
      publishWithSnapshot(world, 'parcels');
      expect(kinds(await again(world))).toEqual({ parcels: 'loaded' });
      expect(versions(world)).toEqual({ parcels: number });
      expect(askedOf(world)).not.toContainEqual(expect.stringContaining('changes'));
    }
  });
});

describe('F35 a dataset in several subscriptions', () => {
  it('W1 keeps members, announced versions and reloads by subscription, and one metadata refresh for all', async () => {
    const world = await caughtUp('parcels');
    subscribe(world, subscription({ id: 'sub_2', name: 'Hays' }), 'parcels');
    world.service.logs.set('sub_1', [event(101, 'dataset.resync_required', { version: 1 })]);
    world.service.logs.set('sub_2', [
      event(101, 'dataset.updated', { version: 5 }),
      event(102, 'dataset.resync_required', { version: 5 }),
      event(103, 'dataset.schema_changed'),
    ]);
    await world.catchUp();
    expect(desiredStateOf(world)).toMatchObject({
      members: new Map([
        ['sub_1', member({ eventNumber: 100n, since: NOW, announced: 1 })],
        ['sub_2', member({ eventNumber: 100n, since: NOW, announced: 5 })],
      ]),
      refreshesRequested: 1,
      refreshesDone: 0,
    });
    expect(announcedOf(world)).toBe(5);
    expect(reloadsOf(world)).toContainEqual(['sub_1', 101n]);
    expect(reloadsOf(world)).toContainEqual(['sub_2', 102n]);
  });
});
