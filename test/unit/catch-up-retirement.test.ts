/** Datasets that leave and come back, subscriptions that are gone, and tables that nobody knows of. */

import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import { BusyError, ServiceUnavailableError } from '../../src/model/errors.ts';
import { openStaging } from '../../src/sync/execute/staging-folder.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { judgeRetirements } from '../../src/sync/retirements.ts';
import {
  calm,
  caughtUp,
  elapse,
  kinds,
  oneSubscription,
  subscribe,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, id, refusal, subscription, table } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;

/** Two catch-ups ten minutes apart, which confirm what both of them lack. Gives how the second one ended. */
async function missedForTenMinutes(world: World): Promise<CatchUpResult> {
  await world.catchUp();
  elapse(world, 10 * MINUTE_MS);
  return await world.catchUp();
}

/** The datasets leave the subscription: its log says so, and its manifest lists them no more. */
function remove(
  world: World,
  datasetIds: readonly string[],
  subscriptionId = 'sub_1',
  reason = 'left_coverage',
): void {
  const { logs, members, watermarkCovers } = world.service;
  const log = logs.get(subscriptionId) ?? [];
  const createdAt = world.parts.clock.now();
  for (const datasetId of datasetIds) {
    log.push(event(101 + log.length, 'dataset.removed', { datasetId, reason, createdAt }));
  }
  const stay = (members.get(subscriptionId) ?? []).filter((datasetId) => !datasetIds.includes(datasetId));
  members.set(subscriptionId, stay);
  watermarkCovers.set(subscriptionId, id(100 + log.length));
}

describe('F35 a dataset that leaves its subscription', () => {
  it.each(['archive', 'drop', 'keep'] as const)(
    'W7 W16 retires a dataset that leaves its subscription by the chosen method: %s',
    async (how) => {
      const world = await caughtUp('parcels', 'permits');
      Object.assign(world.parts.choices, { removedDatasets: how });
      remove(world, ['parcels']);
      const result = await world.catchUp();
      const table = { archive: 'archived.parcels__1', drop: null, keep: 'main.parcels' }[how];
      expect(result.datasets).toMatchObject([{ kind: 'retired', table }, { kind: 'current' }]);
      expect(world.retired).toMatchObject([
        { datasetId: 'parcels', how, reason: 'left subscription sub_1: left_coverage' },
      ]);
      expect(world.checkpoint.recentSyncRuns(1)[0]).toMatchObject({
        kind: 'retired',
        detail: `left subscription sub_1: left_coverage; ${table === null ? 'dropped' : `its rows are in ${table}`}`,
      });
      expect(exitCodeOfResult(result)).toBe(EXIT_CODES.caughtUp);
      expect(world.calls.filter((call) => call.endsWith('parcels'))).toEqual([]);
      expect(kinds(await world.catchUp())).toEqual({ permits: 'current' });
    },
  );

  it('leaves nothing behind of a download of a dataset that leaves, with a table or without', async () => {
    const world = await caughtUp('parcels', 'permits', 'zoning');
    const { stagingDirectory } = world.parts.choices;
    const staging = openStaging(stagingDirectory);
    remove(world, ['zoning']);
    await world.catchUp();
    for (const datasetId of ['parcels', 'permits', 'zoning']) await staging.folderOf(datasetId);
    remove(world, ['parcels']);
    world.service.outcomes.push(() => ({ kind: 'retired', datasetId: 'parcels', table: null }));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
    expect(await readdir(stagingDirectory)).toEqual([]);
  });

  it('W3 W14 loads a dataset again that comes back, also with a lower version', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.snapshots.set('parcels', entry('parcels', 7));
    await world.catchUp();
    remove(world, ['parcels']);
    await world.catchUp();
    world.service.logs.get('sub_1')?.push(event(102, 'dataset.added', { datasetId: 'parcels', version: 2 }));
    world.service.members.set('sub_1', ['parcels', 'permits']);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    world.service.watermarkCovers.set('sub_1', id(102));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'current' });
    expect(versions(world)).toEqual({ parcels: 2, permits: 1 });
  });

  it('loads a dataset again that leaves and comes back on the same page, and does not retire it', async () => {
    const world = await caughtUp('parcels');
    world.service.logs.set('sub_1', [
      event(101, 'dataset.removed'),
      event(102, 'dataset.added', { version: 1 }),
    ]);
    world.service.watermarkCovers.set('sub_1', id(102));
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(world.retired).toEqual([]);
  });

  it('W16 keeps a dataset as long as another subscription contains it', async () => {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    await world.catchUp();
    elapse(world, MINUTE_MS);
    remove(world, ['parcels']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    remove(world, ['parcels'], 'sub_2');
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired' });
  });

  /** `parcels` leaves `sub_1`, while the log of `sub_2` cannot be read. */
  async function leftBesideAnUnreadLog(): Promise<World> {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'permits');
    await world.catchUp();
    remove(world, ['parcels']);
    throwAt(world, /^events sub_2/, new ServiceUnavailableError('unreachable'));
    return world;
  }

  it('W16 retires a dataset only after every log was read: another subscription may contain it', async () => {
    const world = await leftBesideAnUnreadLog();
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'waiting', permits: 'current' });
    expect(exitCodeOfResult(result)).toBe(EXIT_CODES.tryAgainLater);
    expect(world.retired).toEqual([]);
    calm(world);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
  });

  /** `parcels` leaves `sub_2`, which contained it alone and whose manifest is refused just then. */
  async function leftASuspendedOne(): Promise<World> {
    const world = await oneSubscription('permits');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    await world.catchUp();
    remove(world, ['parcels'], 'sub_2');
    throwAt(world, /^manifest sub_2/, refusal({ kind: 'subscription', subscriptionId: 'sub_2' }));
    return world;
  }

  it('W16 names the subscription whose log was not read, and waits for the next catch-up', async () => {
    const world = await leftBesideAnUnreadLog();
    const result = await world.catchUp();
    expect(result.datasets).toMatchObject([
      {
        datasetId: 'parcels',
        why:
          'no subscription contains it any more; its retirement waits for subscription sub_2, ' +
          'whose log was not read to its end since the dataset left',
        awaited: [{ subscriptionId: 'sub_2', reason: 'log-unread' }],
      },
      { datasetId: 'permits' },
    ]);
    expect(exitCodeOfResult(result)).toBe(EXIT_CODES.tryAgainLater);
  });

  it('W16 names the suspended subscription that contained it, and waits until an operator resumes that', async () => {
    const world = await leftASuspendedOne();
    for (let times = 0; times < 2; times += 1) {
      const result = await world.catchUp();
      expect(result.datasets).toMatchObject([
        {
          kind: 'waiting',
          why: 'no subscription contains it any more; its retirement waits for subscription sub_2, which is suspended',
          awaited: [{ subscriptionId: 'sub_2', reason: 'suspended', ofSubscription: result.suspensions[0] }],
        },
        { kind: 'current' },
      ]);
      expect(exitCodeOfResult(result)).toBe(EXIT_CODES.operatorMustAct);
    }
    expect(world.retired).toEqual([]);
    calm(world);
    world.checkpoint.lift({ kind: 'subscription', subscriptionId: 'sub_2' });
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
  });

  it('W16 W28 retires a dataset once an operator forgets the suspended subscription', async () => {
    const world = await leftASuspendedOne();
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'current' });
    world.checkpoint.forget('sub_2');
    world.service.subscriptions.pop();
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
  });

  it('W16 names the subscription whose record still names the dataset', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    remove(world, ['parcels']);
    world.service.subscriptions = [subscription({ datasetIds: ['parcels'] })];
    const result = await world.catchUp();
    expect(result.datasets).toMatchObject([
      { kind: 'waiting', awaited: [{ subscriptionId: 'sub_1', reason: 'record-names-dataset' }] },
      { kind: 'current' },
    ]);
    expect(exitCodeOfResult(result)).toBe(EXIT_CODES.tryAgainLater);
  });

  it('W16 F55 retires a dataset ten minutes after a record lacks it that named it, and not before', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    remove(world, ['parcels']);
    const naming = [subscription({ datasetIds: ['parcels'] })];
    const lacking = [subscription()];
    for (let times = 0; times < 3; times += 1) {
      world.service.subscriptions = naming;
      expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'current' });
      expect(world.checkpoint.absences()).toEqual([]);
      elapse(world, 60 * MINUTE_MS);
      world.service.subscriptions = lacking;
      const { datasets, again } = await world.catchUp();
      expect(datasets).toMatchObject([
        { kind: 'waiting', awaited: [{ subscriptionId: 'sub_1', reason: 'record-names-dataset' }] },
        { kind: 'current' },
      ]);
      expect(again?.inMs).toBe(10 * MINUTE_MS);
      elapse(world, 9 * MINUTE_MS);
    }
    expect(world.retired).toEqual([]);
    await world.catchUp();
    elapse(world, MINUTE_MS);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
    await world.catchUp();
    expect(world.checkpoint.mentions()).toEqual([]);
  });

  it('W16 retires a dataset at once where an event drops it again after its record named it', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    remove(world, ['parcels']);
    world.service.subscriptions = [subscription({ datasetIds: ['parcels'] })];
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'current' });
    remove(world, ['parcels']);
    world.service.subscriptions = [subscription()];
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'current' });
  });

  it('W21 drops a member after two manifests that lack it, though the record names it: the manifest decides', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.subscriptions = [subscription({ datasetIds: ['parcels'] })];
    await world.catchUp();
    world.service.members.set('sub_1', ['permits']);
    elapse(world, 60 * MINUTE_MS);
    await world.catchUp();
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'current' });
    expect(world.checkpoint.desired('parcels')?.members.size).toBe(0);
    expect(world.checkpoint.mentions()).toEqual([{ subscriptionId: 'sub_1', datasetId: 'parcels' }]);
  });

  it('W16 waits for a suspended subscription whose record named the dataset, though no event did', async () => {
    const world = await oneSubscription('parcels', 'permits');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    await world.catchUp();
    remove(world, ['parcels']);
    const [first] = world.service.subscriptions;
    const named = subscription({ id: 'sub_2', datasetIds: ['parcels'] });
    world.service.subscriptions = [first ?? subscription(), named];
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'waiting' });
    world.service.subscriptions = [first ?? subscription(), subscription({ id: 'sub_2' })];
    throwAt(world, /^events sub_2/, refusal({ kind: 'subscription', subscriptionId: 'sub_2' }));
    for (let times = 0; times < 2; times += 1) {
      const { datasets } = await world.catchUp();
      expect(datasets.find(({ datasetId }) => datasetId === 'parcels')).toMatchObject({
        awaited: [{ subscriptionId: 'sub_2', reason: 'suspended' }],
      });
    }
    expect(world.retired).toEqual([]);
    world.checkpoint.forget('sub_2');
    calm(world);
    world.service.subscriptions = [first ?? subscription()];
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'retired' });
  });

  it('W16 names every subscription where the dataset was dropped after the others were read', async () => {
    const world = await caughtUp('parcels', 'permits');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    await world.catchUp();
    const observed = await world.parts.destination.has();
    const readAt = world.parts.clock.now();
    const records = world.service.subscriptions;
    const judging = { observed, records, readToHead: new Set(['sub_1', 'sub_2']), readAt };
    const verdictOf = judgeRetirements(judging, world.parts);
    const contained = world.checkpoint.desired('parcels');
    expect(contained && verdictOf(contained)).toEqual({ kind: 'logs-unread', awaited: [] });
    expect(contained && verdictOf({ ...contained, members: new Map() })).toEqual({
      kind: 'logs-unread',
      awaited: ['sub_1', 'sub_2'].map((subscriptionId) => ({ subscriptionId, reason: 'log-unread' })),
    });
  });

  it('leaves a dataset alone that the operator excluded', async () => {
    const world = await caughtUp('parcels', 'permits');
    remove(world, ['parcels']);
    Object.assign(world.parts.choices, { exclude: ['parcels'] });
    expect(kinds(await world.catchUp())).toEqual({ permits: 'current' });
    expect(versions(world)).toEqual({ parcels: 1, permits: 1 });
  });

  it('plans a retirement again where its plan is stale', async () => {
    const world = await caughtUp('parcels', 'permits');
    remove(world, ['parcels']);
    world.service.outcomes.push(({ datasetId }) => ({ kind: 'stale-plan', datasetId }));
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'retired' });
  });
});

describe('F35 many datasets that leave at once', () => {
  const MANY = Array.from({ length: 12 }, (_, index) => `dataset-${String(index).padStart(2, '0')}`);

  it('W26 suspends mass retirement, reports it once, and retires once an operator agrees', async () => {
    const world = await caughtUp(...MANY, 'parcels');
    remove(world, MANY);
    const result = await world.catchUp();
    expect(result.suspensions).toMatchObject([
      { refusal: { scope: { kind: 'retirement' }, code: 'mass_retirement', status: null } },
    ]);
    expect(kinds(result)).toMatchObject({ [MANY[0] ?? '']: 'suspended', parcels: 'current' });
    expect(exitCodeOfResult(result)).toBe(EXIT_CODES.operatorMustAct);
    expect(world.tables.size).toBe(13);
    calm(world);
    expect((await world.catchUp()).suspensions).toEqual(result.suspensions);
    expect(world.calls.filter((call) => call.includes('dataset-'))).toEqual([]);
    expect(world.checkpoint.approveRetirements()).toEqual(MANY);
    expect(await world.catchUp()).toMatchObject({ suspensions: [] });
    expect(versions(world)).toEqual({ parcels: 1 });
  });

  it('lifts the suspension of retirements once the datasets are back', async () => {
    const world = await caughtUp(...MANY);
    remove(world, MANY);
    await world.catchUp();
    const log = world.service.logs.get('sub_1') ?? [];
    for (const datasetId of MANY) {
      log.push(event(101 + log.length, 'dataset.added', { datasetId, version: 1 }));
    }
    world.service.members.set('sub_1', MANY);
    world.service.watermarkCovers.set('sub_1', id(100 + log.length));
    const result = await world.catchUp();
    expect(result.suspensions).toEqual([]);
    expect(new Set(Object.values(kinds(result)))).toEqual(new Set(['loaded']));
    expect(world.checkpoint.suspensions()).toEqual([]);
  });

  it('keeps the suspension of retirements where a log cannot be read meanwhile', async () => {
    const world = await oneSubscription(...MANY);
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    await world.catchUp();
    remove(world, MANY);
    await world.catchUp();
    throwAt(world, /^events sub_2/, new ServiceUnavailableError('unreachable'));
    expect(await world.catchUp()).toMatchObject({
      suspensions: [{ refusal: { scope: { kind: 'retirement' } } }],
    });
  });
});

describe('F35 a subscription that is gone', () => {
  async function twoSubscriptions(): Promise<World> {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2', name: 'Hays' }), 'permits');
    await world.catchUp();
    calm(world);
    return world;
  }

  it.each([
    [
      'the service lists it no more for ten minutes',
      async (world: World) => {
        world.service.subscriptions.pop();
        const result = await world.catchUp();
        expect(result.suspensions).toEqual([]);
        expect(exitCodeOfResult(result)).toBe(EXIT_CODES.caughtUp);
        calm(world);
        elapse(world, 10 * MINUTE_MS);
      },
    ],
    [
      'it is selected no more',
      async (world: World) => Object.assign(world.parts.choices, { subscriptions: ['Travis'] }),
    ],
  ])(
    'W27 suspends a missing subscription, and keeps its datasets without a call: %s',
    async (_, disappear) => {
      const world = await twoSubscriptions();
      await disappear(world);
      const result = await world.catchUp();
      expect(result).toMatchObject({
        subscriptions: 1,
        suspensions: [{ refusal: { scope: { subscriptionId: 'sub_2' }, code: 'subscription_missing' } }],
      });
      expect(kinds(result)).toEqual({ parcels: 'current', permits: 'suspended' });
      expect(exitCodeOfResult(result)).toBe(EXIT_CODES.operatorMustAct);
      expect(world.tables.size).toBe(2);
      expect(world.calls.filter((call) => /sub_2|permits/.test(call))).toEqual([]);
    },
  );

  it('W28 retires what only a forgotten subscription contained, and removes it from the destination', async () => {
    const world = await twoSubscriptions();
    world.service.subscriptions.pop();
    await missedForTenMinutes(world);
    expect(world.checkpoint.suspensions()).toHaveLength(1);
    expect(world.checkpoint.forget('sub_2')).toEqual(['permits']);
    const result = await world.catchUp();
    expect(kinds(result)).toEqual({ parcels: 'current', permits: 'retired' });
    expect(result.suspensions).toEqual([]);
    expect(world.enrolments.at(-1)).toMatchObject({
      subscriptionIds: ['sub_1'],
      forgottenSubscriptionIds: ['sub_2'],
    });
    expect(world.checkpoint.forgotten()).toEqual([]);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  });

  it('W28 keeps a subscription forgotten until the destination names it no more, however often it tries', async () => {
    const world = await twoSubscriptions();
    world.service.subscriptions.pop();
    world.checkpoint.forget('sub_2');
    throwAt(world, /^enroll/, new BusyError('The mirror is held by a reader.'));
    await world.catchUp();
    expect(world.checkpoint.forgotten()).toEqual(['sub_2']);
    calm(world);
    expect(await world.catchUp()).toMatchObject({ suspensions: [], incidents: [] });
    expect(world.checkpoint.forgotten()).toEqual([]);
  });

  it('a missing subscription suspends its datasets, but none that another subscription contains', async () => {
    const world = await twoSubscriptions();
    world.service.members.set('sub_2', ['parcels', 'permits']);
    await world.catchUp();
    world.service.subscriptions.pop();
    expect(kinds(await missedForTenMinutes(world))).toEqual({ parcels: 'current', permits: 'suspended' });
  });

  it('F55 neither suspends a subscription nor retires its datasets where one reading of the list skips it', async () => {
    const world = await twoSubscriptions();
    const listed = [...world.service.subscriptions];
    for (let times = 0; times < 3; times += 1) {
      world.service.subscriptions = listed.slice(0, 1);
      const skipped = await world.catchUp();
      expect(skipped.suspensions).toEqual([]);
      expect(kinds(skipped)).toEqual({ parcels: 'current', permits: 'current' });
      elapse(world, 9 * MINUTE_MS);
      world.service.subscriptions = [...listed];
      expect((await world.catchUp()).suspensions).toEqual([]);
      elapse(world, 9 * MINUTE_MS);
    }
    expect(world.retired).toEqual([]);
    expect(world.checkpoint.absences()).toEqual([]);
  });

  it('F55 a subscription whose absence is not confirmed holds up every retirement: its log was not read', async () => {
    const world = await twoSubscriptions();
    remove(world, ['parcels']);
    world.service.subscriptions.pop();
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'waiting', permits: 'current' });
    elapse(world, 10 * MINUTE_MS);
    // From then on only what it contains waits for it.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'retired', permits: 'suspended' });
  });
});

describe('a table that no checkpoint knows', () => {
  it('W31 retires a table that no checkpoint knows once every log that the mirror knows is read', async () => {
    const world = await oneSubscription('parcels');
    world.enrolments.push({
      origin: 'https://feed.example',
      subscriptionIds: ['sub_1', 'sub_2'],
      forgottenSubscriptionIds: [],
      datasetIds: [],
    });
    world.tables.set('permits', table(1, { datasetId: 'permits', tableName: 'permits' }));
    // The mirror has seen a subscription that is not there: it may contain the dataset.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
    expect(world.tables.has('permits')).toBe(true);
    world.checkpoint.forget('sub_2');
    // Ten minutes long nobody lists it.
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'retired' });
    expect(world.retired).toMatchObject([{ reason: 'left subscription sub_1: not listed any more' }]);
  });
});
