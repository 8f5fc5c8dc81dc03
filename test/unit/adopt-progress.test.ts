/** A checkpoint that was lost, or an older one that was restored, beside a mirror that says how far it was followed. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import type { OwedReload, StoredProgress, StoredSubscription } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import { adoptProgress, isBehind } from '../../src/sync/follow/subscriptions.ts';
import { shareResyncs, withResyncs } from '../../src/sync/resyncs.ts';
import { isSameProgress, progressToStore } from '../../src/sync/stored-progress.ts';
import { openNew } from '../support/checkpoint-files.ts';
import {
  calm,
  elapse,
  kinds,
  oneSubscription,
  publish,
  subscribe,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, id, LONG_AGO, NOW, subscription } from '../support/sync-values.ts';

async function observedStateOf({ parts }: World) {
  return await parts.destination.has();
}

/** The mirror stores how far it was followed, as it is now. */
async function store(world: World): Promise<StoredProgress> {
  const progress = present(
    progressToStore(await observedStateOf(world), world.parts, 'alone'),
    'nothing is missing',
  );
  world.progress = progress;
  return progress;
}

/** A table that changes have led on, beside one that was loaded; `sub_2` has dropped a dataset that `sub_1` contains. */
async function ledOn(): Promise<World> {
  const world = await oneSubscription('parcels', 'permits');
  subscribe(world, subscription({ id: 'sub_2', name: 'Hays' }), 'permits', 'zoning');
  await world.catchUp();
  publish(world, 'parcels');
  elapse(world, 60_000);
  const createdAt = world.parts.clock.now();
  world.service.logs.get('sub_2')?.push(event(101, 'dataset.removed', { datasetId: 'permits', createdAt }));
  world.service.members.set('sub_2', ['zoning']);
  world.service.watermarkCovers.set('sub_2', id(101));
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'current', zoning: 'current' });
  calm(world);
  return world;
}

/** The same service and the same mirror, with a new checkpoint. */
async function withoutCheckpoint(world: World): Promise<void> {
  Object.assign(world.parts, { checkpoint: await openNew() });
  calm(world);
}

const warnings = ({ logged }: World) =>
  logged.filter(([level]) => level === 'warn').map(([, fields, message]) => [message, fields]);

const ADOPTED =
  'The checkpoint is older than the mirror: positions, members and owed reloads are taken from the mirror.';

describe('a lost checkpoint', () => {
  it('W43 reads the logs once and loads no table again, though changes led one on', async () => {
    const world = await ledOn();
    await store(world);
    await withoutCheckpoint(world);
    const result = await world.catchUp();
    expect(exitCodeOfResult(result)).toBe(EXIT_CODES.caughtUp);
    expect(kinds(result)).toEqual({ parcels: 'current', permits: 'current', zoning: 'current' });
    expect(world.calls.filter((call) => /^(download|changes) /.test(call))).toEqual([]);
    // From the stored position on, and not from the manifest.
    const [, , ...followed] = world.calls.slice(0, world.calls.indexOf('manifest sub_1'));
    expect(new Set(followed)).toEqual(new Set(['events sub_1']));
    expect(warnings(world)).toEqual([[ADOPTED, { subscriptions: ['sub_1', 'sub_2'] }]]);
    expect(world.parts.checkpoint.followed().get('sub_1')).toMatchObject({
      name: 'Travis',
      cursor: id(101),
      logNumber: 1,
    });
  });

  it('restores exactly the members and former members that are stored, and owes no reload', async () => {
    const world = await ledOn();
    const before = world.parts.checkpoint.desiredStates();
    await store(world);
    await withoutCheckpoint(world);
    await world.catchUp();
    const after = world.parts.checkpoint.desiredStates();
    expect([...after.keys()].sort()).toEqual([...before.keys()].sort());
    for (const [datasetId, desired] of before) {
      const again = present(after.get(datasetId), 'it is known');
      expect([...again.members.keys()]).toEqual([...desired.members.keys()]);
      expect([...again.formerMembers.keys()]).toEqual([...desired.formerMembers.keys()]);
      expect(again.reloads).toEqual([]);
    }
  });

  it('follows the log on from the stored position to a version published since', async () => {
    const world = await ledOn();
    await store(world);
    publish(world, 'parcels');
    await withoutCheckpoint(world);
    expect(kinds(await world.catchUp())).toMatchObject({ parcels: 'applied' });
    expect(versions(world)).toMatchObject({ parcels: 3 });
  });

  it('owes the stored reloads until a manifest satisfies them', async () => {
    const world = await ledOn();
    elapse(world, 60_000);
    const createdAt = world.parts.clock.now();
    world.service.logs
      .get('sub_1')
      ?.push(event(102, 'dataset.resync_required', { datasetId: 'permits', createdAt }));
    await world.catchUp();
    expect((await store(world)).owed).toEqual([
      { datasetId: 'permits', subscriptionId: 'sub_1', logNumber: 1, eventNumber: 102n, createdAt },
    ]);
    await withoutCheckpoint(world);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'waiting' });
    expect(world.calls).not.toContain('download permits');
    world.service.snapshots.set('permits', entry('permits', 1, 'anew'));
    world.service.watermarkCovers.set('sub_1', id(102));
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
  });

  it('F72 owes the resyncs that operators asked another instance for, until a table satisfies them', async () => {
    const world = await ledOn();
    await store(world);
    const { destination } = world.parts;
    const keepResyncs = async (resyncs: readonly OwedReload[]) => {
      world.progress = withResyncs(world.progress, resyncs);
    };
    Object.assign(world.parts, { destination: { ...destination, keepResyncs } });
    const { checkpoint } = world.parts;
    checkpoint.requestResync(['permits'], false);
    checkpoint.requestResync(['zoning'], true);
    const asked = (of: Checkpoint, datasetId: string) => {
      const { resyncNumber, moveNumber } = present(of.desired(datasetId), 'it is known');
      return { resyncNumber, moveNumber };
    };
    const [permits, zoning] = [asked(checkpoint, 'permits'), asked(checkpoint, 'zoning')];
    expect([permits.moveNumber, zoning.moveNumber]).toEqual([0, zoning.resyncNumber]);
    await shareResyncs(await observedStateOf(world), world.parts);
    // What the destination has is not written again.
    const stored = world.progress;
    await shareResyncs(await observedStateOf(world), world.parts);
    expect(world.progress).toBe(stored);

    await withoutCheckpoint(world);
    adoptProgress(await observedStateOf(world), NOW, world.parts);
    expect(asked(world.parts.checkpoint, 'permits')).toEqual(permits);
    expect(asked(world.parts.checkpoint, 'zoning')).toEqual(zoning);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'loaded', zoning: 'loaded' });

    // The mirror still says that they were owed, and the tables that they are satisfied.
    await withoutCheckpoint(world);
    expect(kinds(await world.catchUp())).toEqual({
      parcels: 'current',
      permits: 'current',
      zoning: 'current',
    });
  });

  it('owes a stored reload of a subscription that has dropped the dataset since', async () => {
    const world = await ledOn();
    const progress = await store(world);
    const dropped = { subscriptionId: 'sub_2', datasetId: 'zoning', addedEvent: null, droppedEvent: 105n };
    const owed = {
      datasetId: 'zoning',
      subscriptionId: 'sub_2',
      logNumber: 1,
      eventNumber: 104n,
      createdAt: LONG_AGO,
    };
    const others = progress.members.filter(({ datasetId }) => datasetId !== 'zoning');
    world.progress = { ...progress, members: [...others, dropped], owed: [owed] };
    await withoutCheckpoint(world);
    // Its table is not retired as long as another log cannot be read.
    throwAt(world, /^events sub_1/, new ServiceUnavailableError('unreachable'));
    await world.catchUp();
    const desired = present(world.parts.checkpoint.desired('zoning'), 'it is known');
    expect(
      desired.reloads.map(({ subscriptionId, eventNumber }) => [subscriptionId, eventNumber]),
    ).toContainEqual(['sub_2', 104n]);
  });

  it('starts from the manifest where the mirror stores no progress, and keeps tables of the listed snapshots', async () => {
    const world = await ledOn();
    world.progress = null;
    await withoutCheckpoint(world);
    const result = await world.catchUp();
    expect(kinds(result)).toMatchObject({ permits: 'current', zoning: 'current' });
    expect(world.calls.slice(0, 4)).toEqual(['subscriptions', 'discover', 'manifest sub_1', 'subscriptions']);
    expect(world.parts.checkpoint.desired('parcels')?.reloads).toHaveLength(1);
  });

  it('F81 starts from the manifest where a table satisfied a reload of a later log than the stored one', async () => {
    const world = await ledOn();
    await store(world);
    const satisfied = { logNumber: 2, eventNumber: 1n, createdAt: null };
    const parcels = present(world.tables.get('parcels'), 'it is there');
    world.tables.set('parcels', { ...parcels, reloads: new Map([['sub_1', satisfied]]) });
    await withoutCheckpoint(world);
    await world.catchUp();
    expect(warnings(world)).toEqual([[ADOPTED, { subscriptions: ['sub_2'] }]]);
    const { checkpoint } = world.parts;
    expect(checkpoint.followed().get('sub_1')).toMatchObject({ logNumber: 3 });
    // What the table satisfied in an earlier log is no answer in this one.
    expect(checkpoint.desired('parcels')?.reloads).toMatchObject([{ subscriptionId: 'sub_1', logNumber: 3 }]);
  });

  it('reads a log from its start where the stored position names no event', async () => {
    const world = await oneSubscription('parcels');
    world.service.subscriptions = [subscription({ lastEventId: null })];
    world.service.watermarkCovers.delete('sub_1');
    await world.catchUp();
    expect((await store(world)).subscriptions).toMatchObject([{ eventNumber: null }]);
    world.service.logs.set('sub_1', [event(1, 'dataset.updated', { version: 2 })]);
    await withoutCheckpoint(world);
    await world.catchUp();
    expect(world.parts.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(1));
    expect(world.parts.checkpoint.desired('parcels')?.members.get('sub_1')?.announced).toBe(2);
  });
});

describe('a log restart before the checkpoint was lost', () => {
  /** The new log has passed the stored position: its event there asks for a reload. */
  function beginAnew(world: World, createdAt: Date): void {
    world.service.logs.set('sub_1', [
      event(100, 'dataset.added', { datasetId: 'permits', createdAt }),
      event(101, 'dataset.resync_required', { datasetId: 'permits', createdAt }),
    ]);
    world.service.snapshots.set('permits', entry('permits', 1, 'anew'));
    world.service.watermarkCovers.set('sub_1', id(101));
  }

  async function expectTakenAnew(world: World): Promise<void> {
    await withoutCheckpoint(world);
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(world.parts.checkpoint.followed().get('sub_1')).toMatchObject({ logNumber: 2, cursor: id(101) });
  }

  it('W42 recognizes a log restart by when the event at the stored position was created', async () => {
    const world = await ledOn();
    const [stored] = (await store(world)).subscriptions;
    expect(stored).toMatchObject({ subscriptionId: 'sub_1', eventNumber: 101n, eventCreatedAt: NOW });
    // Later than that event by less than the clocks of a service may differ, and before the position was taken.
    beginAnew(world, new Date(NOW.getTime() + 1_000));
    await expectTakenAnew(world);
  });

  it('W42 recognizes a log restart by when the position was taken, where only a manifest named its event', async () => {
    const world = await oneSubscription('parcels', 'permits');
    world.service.subscriptions = [subscription({ lastEventId: id(101) })];
    world.service.watermarkCovers.set('sub_1', id(101));
    await world.catchUp();
    const [stored] = (await store(world)).subscriptions;
    expect(stored).toMatchObject({ eventNumber: 101n, eventCreatedAt: null, positionAt: NOW });
    elapse(world, 60_000);
    beginAnew(world, world.parts.clock.now());
    elapse(world, 60_000);
    await expectTakenAnew(world);
  });

  it('W42 doubts a log whose record names no newest event any more', async () => {
    const world = await ledOn();
    await store(world);
    world.service.subscriptions = world.service.subscriptions.map((record) => ({
      ...record,
      lastEventId: null,
    }));
    await withoutCheckpoint(world);
    await world.catchUp();
    const doubted = world.parts.checkpoint.absences().map(({ subject }) => subject);
    expect(doubted).toEqual([
      { kind: 'log', subscriptionId: 'sub_1' },
      { kind: 'log', subscriptionId: 'sub_2' },
    ]);
  });
});

describe('a checkpoint that is older than the mirror', () => {
  it('takes the positions of the mirror where the checkpoint is older, and keeps a checkpoint that is as new', async () => {
    const world = await ledOn();
    const progress = await store(world);
    await world.catchUp();
    expect(warnings(world)).toEqual([]);
    const newer = progress.subscriptions.map((one) => ({ ...one, eventNumber: 150n, eventCreatedAt: NOW }));
    world.progress = { ...progress, subscriptions: newer };
    world.service.logs
      .get('sub_1')
      ?.push(event(150, 'dataset.schema_changed'), event(151, 'dataset.updated', { version: 2 }));
    world.service.logs.get('sub_2')?.push(event(150, 'dataset.schema_changed', { datasetId: 'zoning' }));
    const result = await world.catchUp();
    expect(warnings(world)).toEqual([[ADOPTED, { subscriptions: ['sub_1', 'sub_2'] }]]);
    expect(kinds(result)).toEqual({ parcels: 'current', permits: 'current', zoning: 'current' });
    expect(world.parts.checkpoint.followed().get('sub_1')?.cursor).toEqual(id(151));
  });

  it('ignores the stored progress of a subscription that an operator gave up', async () => {
    const world = await ledOn();
    await store(world);
    await withoutCheckpoint(world);
    world.parts.checkpoint.forget('sub_2');
    world.service.subscriptions.pop();
    await world.catchUp();
    expect(warnings(world)[0]).toEqual([ADOPTED, { subscriptions: ['sub_1'] }]);
    expect([...world.parts.checkpoint.followed().keys()]).toEqual(['sub_1']);
  });

  const followed = (logNumber: number, number: bigint | null) => ({
    logNumber,
    cursor: number === null ? null : id(number),
  });

  it.each([
    ['where it has no such subscription', undefined, 1, null, true],
    ['where the mirror was followed further', followed(1, 9n), 1, 10n, true],
    ['where it has read nothing and the mirror has', followed(1, null), 1, 0n, true],
    ['where the mirror has a newer log, whatever the numbers', followed(1, 90n), 2, 3n, true],
  ])('finds the checkpoint behind the mirror %s', (_, one, logNumber, eventNumber, expected) => {
    expect(isBehind(one, { logNumber, eventNumber })).toBe(expected);
  });

  it.each([
    ['where both are equally far', followed(1, 9n), 1, 9n],
    ['where it is further', followed(1, 10n), 1, 9n],
    ['where neither has read anything', followed(1, null), 1, null],
    ['where it has a newer log, whatever the numbers', followed(2, 3n), 1, 90n],
  ])('does not find the checkpoint behind the mirror %s', (_, one, logNumber, eventNumber) => {
    expect(isBehind(one, { logNumber, eventNumber })).toBe(false);
  });
});

describe('the progress that is stored with the mirror', () => {
  it('stores no progress while a table lacks a version that only the logs announced', async () => {
    const world = await ledOn();
    const before = await store(world);
    publish(world, 'parcels');
    world.intervene = (call) => {
      if (call.startsWith('versions')) throw new Error('unreachable');
    };
    await world.catchUp();
    expect(world.parts.checkpoint.failure('parcels')).not.toBeNull();
    // What has failed is found again by an audit; what waits is not.
    world.parts.checkpoint.clearFailure('parcels');
    expect(progressToStore(await observedStateOf(world), world.parts, 'alone')).toBeNull();
    calm(world);
    await world.catchUp();
    const after = present(
      progressToStore(await observedStateOf(world), world.parts, 'alone'),
      'nothing is missing',
    );
    expect(isSameProgress(before, after)).toBe(false);
    expect(after.subscriptions).toContainEqual({
      subscriptionId: 'sub_1',
      name: 'Travis',
      logNumber: 1,
      eventNumber: 102n,
      eventCreatedAt: NOW,
      positionAt: new Date(NOW.getTime() + 60_000),
      statesLastEvent: true,
    });
  });

  it.each<readonly [string, Partial<StoredSubscription>]>([
    ['the creation time of the event at a position', { eventCreatedAt: LONG_AGO }],
    ['whether that creation time is known', { eventCreatedAt: null }],
    ['when a position was taken', { positionAt: LONG_AGO }],
    ['whether a record named its newest event', { statesLastEvent: false }],
  ])('stores progress again where it differs in %s', async (_, changed) => {
    const progress = await store(await ledOn());
    const subscriptions = progress.subscriptions.map((one) => ({ ...one, ...changed }));
    expect(isSameProgress({ ...progress, subscriptions }, progress)).toBe(false);
  });

  it('stores the members of every subscription, and former members while their table exists', async () => {
    const world = await ledOn();
    const { members } = await store(world);
    const rows = members.map((one) => [one.subscriptionId, one.datasetId, one.addedEvent, one.droppedEvent]);
    expect(rows.toSorted()).toEqual([
      ['sub_1', 'parcels', 100n, null],
      ['sub_1', 'permits', 100n, null],
      ['sub_2', 'permits', null, 101n],
      ['sub_2', 'zoning', 100n, null],
    ]);
    expect(isSameProgress(await store(world), await store(world))).toBe(true);
  });
});
