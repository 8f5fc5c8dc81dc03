/** Subscriptions that are no longer listed: suspended, with the datasets that they contain, until an operator has acted. */

import { describe, expect, it } from 'vitest';
import { waysOut } from '../../src/sync/incidents.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { calm, elapse, kinds, smallWorld, subscribe, versions, type World } from '../support/small-world.ts';
import { entry, event, id, subscription, suspension } from '../support/sync-values.ts';

const scope = { kind: 'subscription', subscriptionId: 'sub_2' } as const;
const travis = subscription();
const harris = subscription({ id: 'sub_2', name: 'Harris' });

/** `sub_1` contains parcels and permits, `sub_2` permits and zoning; all are mirrored. */
async function two(): Promise<World> {
  const world = await smallWorld();
  subscribe(world, travis, 'parcels', 'permits');
  subscribe(world, harris, 'permits', 'zoning');
  await world.catchUp();
  calm(world);
  return world;
}

function list(world: World, ...listed: (typeof travis)[]): void {
  world.service.subscriptions = listed;
}

const TEN_MINUTES_MS = 600_000;

/** Two catch-ups ten minutes apart, which confirm what both of them lack. Returns the result of the second one. */
async function missedForTenMinutes(world: World): Promise<CatchUpResult> {
  await world.catchUp();
  calm(world);
  elapse(world, TEN_MINUTES_MS);
  return await world.catchUp();
}

function missingOf({ suspensions }: CatchUpResult): readonly unknown[] {
  return suspensions.map(({ refusal }) => ({
    ...refusal.scope,
    code: refusal.code,
    message: refusal.message,
  }));
}

const notListed = {
  ...scope,
  code: 'subscription_missing',
  message: 'The service no longer lists it.',
};
const notSelected = { ...notListed, message: 'The setting subscriptions no longer selects it.' };

describe('F35 a missing subscription', () => {
  it('W27 suspends a subscription that is no longer listed, asks nothing of it, and keeps its datasets', async () => {
    const world = await two();
    list(world, travis);
    const result = await missedForTenMinutes(world);
    expect(missingOf(result)).toEqual([notListed]);
    expect(result.suspensions.flatMap(({ refusal }) => waysOut(refusal))[0]).toBe(
      'When it is there again: feed-sync resume --subscription sub_2',
    );
    expect(result.suspensions).toMatchObject([
      { refusal: { operation: 'list subscriptions', status: null, links: new Map() } },
    ]);
    expect(result.incidents).toEqual([]);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, zoning: 1 });
    expect(new Set(world.calls)).toEqual(
      new Set(['subscriptions', 'discover', 'events sub_1', 'manifest sub_1']),
    );
    expect(world.retired).toEqual([]);
  });

  it('F55 suspends a subscription only after two lists without it, ten minutes apart, and none with it in between', async () => {
    const world = await two();
    list(world, travis);
    const nothingHappens = async () => {
      const result = await world.catchUp();
      expect(result).toMatchObject({ suspensions: [], incidents: [] });
      expect(kinds(result)).toEqual({ parcels: 'current', permits: 'current', zoning: 'current' });
    };
    await nothingHappens();
    expect(world.checkpoint.absences()).toEqual([{ subject: scope, since: world.parts.clock.now() }]);
    elapse(world, TEN_MINUTES_MS - 1);
    await nothingHappens();
    list(world, travis, harris);
    await nothingHappens();
    expect(world.checkpoint.absences()).toEqual([]);
    list(world, travis);
    elapse(world, 1);
    await nothingHappens();
    elapse(world, TEN_MINUTES_MS);
    expect(missingOf(await world.catchUp())).toEqual([notListed]);
    expect(world.checkpoint.absences()).toEqual([]);
  });

  it('keeps the other subscriptions current, and the datasets that they share', async () => {
    const world = await two();
    list(world, travis);
    world.service.logs.set('sub_1', [event(101, 'dataset.updated', { datasetId: 'permits', version: 2 })]);
    world.service.watermarkCovers.set('sub_1', id(101));
    world.service.snapshots.set('permits', entry('permits', 2));
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, zoning: 1 });
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ permits: 2, zoning: 1 });
  });

  it('W28 keeps a subscription suspended that is back until an operator resumes it, then reads from its position', async () => {
    const world = await two();
    list(world, travis);
    await missedForTenMinutes(world);
    list(world, travis, harris);
    world.service.logs.set('sub_2', [event(101, 'dataset.updated', { datasetId: 'zoning', version: 2 })]);
    world.service.watermarkCovers.set('sub_2', id(101));
    world.service.snapshots.set('zoning', entry('zoning', 2));
    expect(missingOf(await world.catchUp())).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ zoning: 1 });
    world.checkpoint.lift(scope);
    calm(world);
    const result = await world.catchUp();
    expect(result.suspensions).toEqual([]);
    expect(versions(world)).toMatchObject({ zoning: 2 });
    const ofSecond = world.calls.filter((call) => call.endsWith('sub_2'));
    expect(new Set(ofSecond)).toEqual(new Set(['events sub_2', 'manifest sub_2']));
  });

  it('W28 suspends the subscription again where it is resumed and not back', async () => {
    const world = await two();
    list(world, travis);
    await missedForTenMinutes(world);
    world.checkpoint.lift(scope);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
  });

  it('W27 suspends a subscription that the configuration no longer selects, by id or by name', async () => {
    const world = await two();
    Object.assign(world.parts.choices, { subscriptions: ['Travis'] });
    const result = await world.catchUp();
    expect(missingOf(result)).toEqual([notSelected]);
    expect(result.suspensions.flatMap(({ refusal }) => waysOut(refusal))).toEqual([
      'Once the setting subscriptions (FEED_SYNC_SUBSCRIPTIONS) selects it again: feed-sync resume --subscription sub_2',
      'To give it up, and retire what only it contains: feed-sync forget --subscription sub_2',
    ]);
    expect(versions(world)).toMatchObject({ zoning: 1 });
  });

  it('reports no wrong configuration for a selected subscription that is missing', async () => {
    const world = await two();
    Object.assign(world.parts.choices, { subscriptions: ['sub_1', 'Harris'] });
    list(world, travis);
    const result = await missedForTenMinutes(world);
    expect(missingOf(result)).toEqual([notListed]);
    expect(result.incidents).toEqual([]);
  });

  it('keeps the suspension that the missing subscription had', async () => {
    const world = await two();
    list(world, travis);
    await missedForTenMinutes(world);
    const [before] = world.checkpoint.suspensions();
    expect(before).toBeDefined();
    Object.assign(world.parts.choices, { subscriptions: ['Travis'] });
    list(world, travis, harris);
    await world.catchUp();
    expect(world.checkpoint.suspensions()).toEqual([before]);
  });

  it('W27 replaces a refusal by the suspension as missing, so that the subscription can be forgotten', async () => {
    const world = await two();
    world.checkpoint.suspend(suspension(scope));
    list(world, travis);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
  });

  it('keeps the refusal of a subscription that is still listed', async () => {
    const world = await two();
    world.checkpoint.suspend(suspension(scope));
    expect(missingOf(await world.catchUp())).toMatchObject([{ code: 'outside_coverage' }]);
  });

  it('finds a missing subscription that only the mirror names', async () => {
    const before = await two();
    const world = await smallWorld();
    subscribe(world, travis, 'parcels', 'permits');
    world.enrolments.push(...before.enrolments);
    for (const [datasetId, table] of before.tables) world.tables.set(datasetId, table);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ zoning: 1 });
    expect(world.retired).toEqual([]);
  });

  it('finds a missing subscription that only the checkpoint names', async () => {
    const world = await two();
    world.tables.clear();
    world.enrolments.length = 0;
    list(world, travis);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ parcels: 1, permits: 1 });
  });

  it('W28 does not miss a forgotten subscription, and retires the datasets that only it contained', async () => {
    const world = await two();
    list(world, travis);
    await missedForTenMinutes(world);
    world.checkpoint.forget('sub_2');
    const result = await world.catchUp();
    expect(result.suspensions).toEqual([]);
    expect(kinds(result)).toMatchObject({ zoning: 'retired' });
    expect(versions(world)).toEqual({ parcels: 1, permits: 1 });
    expect(missingOf(await world.catchUp())).toEqual([]);
  });

  it('leaves the mirror to another subscription once its only one was forgotten', async () => {
    const world = await smallWorld();
    subscribe(world, travis, 'parcels');
    await world.catchUp();
    list(world);
    subscribe(world, harris, 'zoning');
    const foreign = await world.catchUp();
    expect(foreign.incidents).toMatchObject([{ error: { name: 'ConfigurationError' } }]);
    world.checkpoint.forget('sub_1');
    const result = await world.catchUp();
    expect(result).toMatchObject({ incidents: [], suspensions: [] });
    expect(versions(world)).toEqual({ zoning: 1 });
  });
});

describe('a subscription that was never listed', () => {
  it('reports a wrong configuration that selects a subscription that was never listed', async () => {
    const world = await two();
    Object.assign(world.parts.choices, { subscriptions: ['sub_1', 'sub_2', 'sub_3'] });
    const result = await world.catchUp();
    expect(result.incidents).toMatchObject([{ error: { name: 'ConfigurationError' } }]);
    expect(result.suspensions).toEqual([]);
  });

  it('ignores a subscription that the configuration does not select', async () => {
    const world = await two();
    subscribe(world, subscription({ id: 'sub_3', name: 'Bexar' }), 'roads');
    Object.assign(world.parts.choices, { subscriptions: ['Travis', 'Harris'] });
    expect((await world.catchUp()).suspensions).toEqual([]);
    expect(versions(world)).not.toHaveProperty('roads');
  });
});
