/** One catch-up as a whole: what it asks, in which order, and what is in the mirror then. */

import { readdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import type { Download, DownloadRequest } from '../../src/feed/feed.ts';
import {
  ContractViolationError,
  CursorExpiredError,
  ServiceUnavailableError,
} from '../../src/model/errors.ts';
import type { WriteJob } from '../../src/model/write-jobs.ts';
import { openStaging } from '../../src/sync/execute/staging-folder.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import {
  CALLS_WITHOUT_NEWS,
  calm,
  elapse,
  kinds,
  oneSubscription,
  publish,
  publishWithSnapshot,
  smallWorld,
  subscribe,
  throwAt,
  throwUnknownColumns,
  versions,
  type World,
} from '../support/small-world.ts';
import {
  entry,
  event,
  id,
  NOW,
  refusal,
  subscription,
  table,
  unreadable,
  version,
} from '../support/sync-values.ts';

/** `permits` leaves, and `parcels` is to be loaded again. */
const REMOVAL_AND_RESYNC = [
  event(101, 'dataset.removed', { datasetId: 'permits' }),
  event(102, 'dataset.resync_required', { version: 3 }),
];

describe('a first start', () => {
  it('loads every dataset of the manifest at a first start, named in order of id, and reads the log on from there', async () => {
    const world = await oneSubscription('permits', 'parcels');
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'loaded', permits: 'loaded' });
    expect(result).toMatchObject({ subscriptions: 1, incidents: [], suspensions: [] });
    expect(world.enrolments).toEqual([
      {
        origin: 'https://feed.example',
        subscriptionIds: ['sub_1'],
        forgottenSubscriptionIds: [],
        datasetIds: ['parcels', 'permits'],
      },
    ]);
    expect(world.calls.slice(0, 7)).toEqual([
      'subscriptions',
      'discover',
      'manifest sub_1',
      'subscriptions',
      'events sub_1',
      'manifest sub_1',
      'subscriptions',
    ]);
    expect(world.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(100));
    expect(await readdir(world.parts.choices.stagingDirectory)).toEqual([]);
  });

  it('waits at a first start while the manifest is older than what the log announces', async () => {
    const world = await oneSubscription('parcels');
    publish(world, 'parcels', { resyncRequired: true });
    expect(await world.catchUp()).toMatchObject({
      datasets: [
        {
          kind: 'waiting',
          why: 'the manifest is older than what the service has announced, or may be',
          commits: [{ kind: 'snapshot', toVersion: 1 }],
        },
      ],
    });
    world.service.snapshots.set('parcels', entry('parcels', 2));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 2 });
  });

  it('keeps a table of the listed snapshot at a first start, and loads the rest', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.tables.set('parcels', table(1));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'loaded' });
  });

  it('W19 takes from the log what a manifest without a watermark may not reflect', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.watermarkCovers.delete('sub_1');
    world.tables.set('parcels', table(1));
    world.tables.set('permits', table(1, { datasetId: 'permits', tableName: 'permits' }));
    const ago = (minutes: number) => new Date(NOW.getTime() - minutes * 60_000);
    world.service.logs.set('sub_1', [
      event(99, 'dataset.schema_changed', { datasetId: 'permits', createdAt: ago(15) }),
      event(100, 'dataset.schema_changed', { createdAt: ago(14) }),
    ]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'current' });
    expect(world.calls).toContain('versions parcels');
    expect(world.calls).not.toContain('versions permits');
    calm(world);
    await world.catchUp();
    expect(world.calls).not.toContain('versions parcels');
  });

  it.each([
    ['another service', { origin: 'https://other.example' }],
    ['other subscriptions', { subscriptionIds: ['sub_8', 'sub_9'] }],
  ])('W29 refuses a mirror of %s as a wrong setting, and touches nothing', async (_, another) => {
    const world = await oneSubscription('parcels');
    const origin = 'https://feed.example';
    const own = { origin, subscriptionIds: ['sub_1'], forgottenSubscriptionIds: [], datasetIds: [] };
    world.enrolments.push({ ...own, ...another });
    world.tables.set('permits', table(1, { datasetId: 'permits' }));
    const result = await world.catchUp();
    expect(result.incidents).toMatchObject([{ subscriptionId: null, error: { name: 'ConfigurationError' } }]);
    expect(exitCodeOfResult(result)).toBe(78);
    expect(world.calls).toEqual(['subscriptions', 'discover']);
    expect(world.enrolments).toHaveLength(1);
    expect(versions(world)).toEqual({ permits: 1 });
    expect(world.checkpoint.followed().size).toBe(0);
  });

  it('V9 states to the mirror the counts that the service gave, and no others', async () => {
    const world = await oneSubscription('both', 'neither');
    world.service.versions.set('neither', [version('neither', 1, { rowCount: null })]);
    world.service.snapshots.set('neither', { ...entry('neither', 1), rowCount: null });
    const stated: Record<string, unknown> = {};
    const report = (job: WriteJob): JobResult => {
      if (job.kind === 'snapshot') stated[job.datasetId] = job.expectedRowCounts;
      // One dataset may be ready again before the other is for the first time.
      if (Object.keys(stated).length < 2) world.service.outcomes.push(report);
      return { kind: 'stale-plan', datasetId: job.datasetId };
    };
    world.service.outcomes.push(report);
    await world.catchUp();
    const statedBy = (statedBy: string) => ({ rowCount: 10, statedBy });
    expect(stated).toEqual({ both: [statedBy('the version record'), statedBy('the manifest')], neither: [] });
  });
});

describe('a later catch-up', () => {
  it('M21 V8 waits while list and manifest state different row counts, and loads once they agree', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    const stated = publishWithSnapshot(world, 'permits', { resyncRequired: true });
    world.service.versions.set('permits', [{ ...stated, rowCount: 1 }, version('permits', 1)]);
    const waiting = await world.catchUp();
    expect(waiting.datasets).toMatchObject([
      { datasetId: 'parcels', kind: 'current' },
      {
        datasetId: 'permits',
        kind: 'waiting',
        why: 'the manifest states a row count of 10 for version 2, the list of versions 1: it is loaded once they agree',
        until: null,
        commits: [],
      },
    ]);
    expect(exitCodeOfResult(waiting)).toBe(75);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1 });

    world.service.versions.set('permits', [stated, version('permits', 1)]);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 1, permits: 2 });
  });

  it('F37 warns of a position before it expires', async () => {
    const day = 86_400_000;
    const world = await oneSubscription('parcels');
    await world.catchUp();
    const warnings = () => world.logged.filter(([level]) => level === 'warn').map(([, , message]) => message);
    elapse(world, 74 * day);
    await world.catchUp();
    expect(warnings()).toEqual([]);
    elapse(world, 2 * day);
    await world.catchUp();
    expect(warnings()).toEqual([expect.stringContaining('No event has come for a long time')]);
  });

  it('F04 reports that a mirror is missing that was filled before, and fills it again', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const missed = () => world.logged.filter(([, , message]) => message.startsWith('The mirror is missing'));
    await world.catchUp();
    expect(missed()).toEqual([]);
    world.tables.clear();
    world.enrolments.length = 0;
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded' });
    expect(missed()).toHaveLength(1);
  });

  it('asks nothing for a dataset that is not behind', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(world.calls).toEqual(CALLS_WITHOUT_NEWS);
  });

  it('removes the staged files of a committed dataset that an ended process left, and no others', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    const { stagingDirectory } = world.parts.choices;
    const staging = openStaging(stagingDirectory);
    const begun = await staging.folderOf('permits');
    await writeFile(join(await staging.folderOf('parcels'), 'part-0'), 'committed');
    await writeFile(join(begun, 'part-0'), 'begun');
    publishWithSnapshot(world, 'permits', { resyncRequired: true });
    world.service.downloads.push(() => Promise.reject(new ServiceUnavailableError('unreachable')));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'failed' });
    expect(await readdir(stagingDirectory)).toEqual([basename(begun)]);
    expect(await readdir(begun)).toEqual(['part-0']);
  });

  it('loads what the log announces over several pages', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    world.service.logs.set('sub_1', [
      event(101, 'dataset.updated', { version: 2 }),
      event(102, 'dataset.updated', { version: 3 }),
      event(103, 'dataset.updated', { version: 4 }),
      event(104, 'dataset.resync_required', { datasetId: 'permits' }),
      event(105, 'dataset.updated', { version: 5 }),
    ]);
    world.service.snapshots.set('parcels', entry('parcels', 5));
    world.service.watermarkCovers.set('sub_1', id(105));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded' });
    expect(world.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(105));
    const answered = { logNumber: 1, eventNumber: 104n, createdAt: NOW };
    expect(world.tables.get('permits')?.reloads).toEqual(new Map([['sub_1', answered]]));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'current' });
  });

  it('F28 follows members and versions of the manifest that no event announced', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.members.set('sub_1', ['parcels', 'permits']);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    world.service.snapshots.set('permits', entry('permits', 1));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'loaded' });
  });

  it('M3 F32 believes no manifest against an event that it does not reflect', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.snapshots.set('parcels', entry('parcels', 9));
    await world.catchUp();
    // The manifest still is that of event 100: it lists the removed dataset, and the version from before the reload.
    world.service.logs.set('sub_1', [...REMOVAL_AND_RESYNC]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'retired' });
    world.service.watermarkCovers.set('sub_1', id(102));
    world.service.members.set('sub_1', ['parcels']);
    world.service.snapshots.set('parcels', entry('parcels', 3));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toMatchObject({ parcels: 3 });
  });

  it('M3 believes no manifest without a watermark against any event', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.snapshots.set('parcels', entry('parcels', 9));
    world.service.watermarkCovers.delete('sub_1');
    await world.catchUp();
    world.service.logs.set('sub_1', [...REMOVAL_AND_RESYNC]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'retired' });
    world.service.snapshots.set('parcels', entry('parcels', 3));
    // A lower version may be what came before the reload: it is taken for the asked one after a quarter of an hour.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting' });
    elapse(world, 15 * 60_000);
    // By then it reflects the removal as well, and what it lists is back.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded' });
  });

  it('refreshes the metadata of a dataset whose event cannot be read', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    calm(world);
    world.service.logs.set('sub_1', [unreadable({ id: id(101) })]);
    await world.catchUp();
    expect(world.calls).toContain('versions parcels');
  });

  it('waits for a version that a metadata refresh found, until the manifest has it', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.logs.set('sub_1', [event(101, 'dataset.schema_changed')]);
    world.service.versions.set('parcels', [
      version('parcels', 2, { resyncRequired: true }),
      version('parcels', 1),
    ]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting' });
    world.service.snapshots.set('parcels', entry('parcels', 2));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(world.calls).not.toContain('versions parcels');
  });

  it('W15 mirrors a dataset of two subscriptions once', async () => {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(world.calls.filter((call) => call === 'download parcels')).toHaveLength(1);
    expect(world.checkpoint.desiredStates().get('parcels')?.members.size).toBe(2);
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    expect(world.calls).not.toContain('download parcels');
  });

  it('touches only the chosen datasets', async () => {
    const world = await oneSubscription('tx-parcels', 'tx-permits', 'ca-parcels');
    Object.assign(world.parts.choices, { include: ['tx-*'], exclude: ['*-permits'] });
    expect(kinds(await world.catchUp())).toEqual({ 'tx-parcels': 'loaded' });
  });
});

describe('a position that expired', () => {
  it('R8 F26 takes an expired position anew from the manifest, and reads the log on from there', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.keepsEventsFrom = 200n;
    world.service.subscriptions = [subscription({ lastEventId: id(210) })];
    world.service.watermarkCovers.set('sub_1', id(205));
    world.service.snapshots.set('parcels', entry('parcels', 7));
    world.service.logs.set('sub_1', [event(207, 'dataset.updated', { version: 7 })]);
    // What the events that are lost asked for may be as new as the newest one.
    expect(await world.catchUp()).toMatchObject({ incidents: [], datasets: [{ kind: 'waiting' }] });
    expect(world.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(207));
    world.service.watermarkCovers.set('sub_1', id(210));
    expect(await world.catchUp()).toMatchObject({
      incidents: [],
      datasets: [{ kind: 'updated', commits: [{ toVersion: 7 }] }],
    });
  });

  it('F26 reads a log on that was quiet for longer than it is kept, and reloads nothing', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    world.service.keepsEventsFrom = 200n;
    calm(world);
    expect(await world.catchUp()).toMatchObject({ incidents: [], datasets: [{ kind: 'current' }] });
    expect(world.calls.filter((call) => call.startsWith('events'))).toHaveLength(3);
  });

  it('raises no incident for an expired position at a first start', async () => {
    const world = await oneSubscription('parcels');
    world.service.keepsEventsFrom = 200n;
    expect(await world.catchUp()).toMatchObject({ incidents: [], datasets: [{ kind: 'updated' }] });
  });

  it('F26 keeps earlier pages where the position expires in a later one', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    world.service.logs.set(
      'sub_1',
      [101, 102, 103].map((number) => event(number, 'dataset.removed')),
    );
    let pages = 0;
    world.intervene = (call) => {
      if (call === 'events sub_1' && ++pages === 2) throw new CursorExpiredError('past retention');
    };
    world.service.members.set('sub_1', ['permits']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
  });
});

describe('a manifest for each dataset', () => {
  async function byDataset(...datasetIds: string[]): Promise<World> {
    const world = await smallWorld(...datasetIds, 'zoning');
    subscribe(world, subscription({ datasetIds }));
    world.service.shape = 'dataset';
    return world;
  }

  it("M13 mirrors the subscription's own datasets and what its log adds and does not remove", async () => {
    const world = await byDataset('parcels', 'permits');
    world.intervene = (call) => {
      // It happens after the record was read.
      if (call !== 'events sub_1' || world.service.logs.get('sub_1')?.length !== 0) return;
      world.service.logs.set('sub_1', [
        event(101, 'dataset.added', { datasetId: 'zoning', version: 1 }),
        event(102, 'dataset.removed', { datasetId: 'permits' }),
      ]);
      world.service.subscriptions = [subscription({ datasetIds: ['parcels', 'zoning'] })];
    };
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', zoning: 'loaded' });
    expect(world.calls).not.toContain('entry permits');
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', zoning: 'current' });
  });

  it('keeps the failure of one entry with its dataset', async () => {
    const world = await byDataset('parcels', 'permits');
    throwAt(world, /^entry parcels/, new ContractViolationError('It does not fit.', 'files'));
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'failed', permits: 'loaded' });
    expect(result.incidents).toEqual([]);
  });

  it('R16 asks no more for the entry of a suspended dataset', async () => {
    const world = await byDataset('parcels', 'permits');
    throwAt(world, /^entry parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'suspended', permits: 'loaded' });
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'suspended', permits: 'current' });
    expect(world.calls).not.toContain('entry parcels');
  });

  it('takes a dataset of the subscription record that no event added', async () => {
    const world = await byDataset('parcels');
    await world.catchUp();
    world.service.subscriptions = [subscription({ datasetIds: ['parcels', 'zoning'] })];
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', zoning: 'loaded' });
  });

  it('starts from the manifests of the datasets where the position expired, and finds a version without an event', async () => {
    const world = await byDataset('parcels');
    world.service.logs.set('sub_1', [event(1, 'dataset.updated', { version: 1 })]);
    await world.catchUp();
    world.service.keepsEventsFrom = 200n;
    world.service.snapshots.set('parcels', entry('parcels', 4));
    expect(await world.catchUp()).toMatchObject({
      incidents: [],
      datasets: [{ kind: 'updated', commits: [{ toVersion: 4 }] }],
    });
  });
});

describe('a service that changes during a catch-up', () => {
  /** While it downloads, a newer version is published, which the manifest names when it is read again. */
  const superseded =
    (world: World) =>
    async ({ refresh }: DownloadRequest): Promise<Download> => {
      const next = (world.service.snapshots.get('parcels')?.version ?? 0) + 1;
      world.service.snapshots.set('parcels', entry('parcels', next));
      return { kind: 'superseded', entry: await refresh() };
    };

  it('loads the snapshot that the manifest names when it is read again', async () => {
    const world = await oneSubscription('parcels');
    world.service.downloads.push(superseded(world), superseded(world));
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'updated', commits: [{ toVersion: 3 }] }],
    });
  });

  it('M11 a dataset that changes faster than it downloads fails after four attempts', async () => {
    const world = await oneSubscription('parcels');
    for (let attempt = 0; attempt < 9; attempt++) world.service.downloads.push(superseded(world));
    expect(await world.catchUp()).toMatchObject({
      datasets: [
        {
          kind: 'failed',
          error: {
            name: 'DataError',
            message: 'Dataset parcels changes faster than it downloads: 4 attempts became stale.',
          },
        },
      ],
    });
    expect(world.calls.filter((call) => call === 'download parcels')).toHaveLength(4);
  });

  it('C19 reads the schemas once more for columns that they do not know', async () => {
    const world = await oneSubscription('parcels', 'permits');
    throwUnknownColumns(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'failed' });
    expect(world.calls.filter((call) => call === 'schemas parcels')).toHaveLength(2);
    expect(world.calls.filter((call) => call === 'schemas permits')).toHaveLength(2);
  });

  it('waits with a dataset that leaves the manifest while it downloads', async () => {
    const world = await oneSubscription('parcels');
    world.service.downloads.push(async (request) => {
      world.service.members.set('sub_1', []);
      return { kind: 'superseded', entry: await request.refresh() };
    });
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'waiting', why: 'no manifest that was read lists it' }],
    });
  });

  it('plans again from the mirror as it is where a plan is stale', async () => {
    const world = await oneSubscription('parcels');
    world.service.outcomes.push(({ datasetId }) => {
      world.tables.set(datasetId, table(1, { reloads: reloadMarks([['sub_1', 100n]]) }));
      return { kind: 'stale-plan', datasetId };
    });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  });
});

describe('sync runs', () => {
  it('records a sync run for each load', async () => {
    const world = await oneSubscription('parcels');
    await world.catchUp();
    expect(world.checkpoint.recentSyncRuns(10)).toEqual([
      { at: NOW, kind: 'loaded', datasetId: 'parcels', detail: 'version 1, 10 rows' },
    ]);
  });
});
