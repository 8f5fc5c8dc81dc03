/** Subscriptions that were there and are gone: held, with all they hold, until a person has acted. */

import { describe, expect, it } from 'vitest';
import { waysOut } from '../../src/sync/incidents.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { calm, elapse, kinds, smallWorld, subscribe, versions, type World } from '../support/small-world.ts';
import { entry, event, id, subscription, suspension } from '../support/sync-values.ts';

const scope = { kind: 'subscription', subscriptionId: 'sub_2' } as const;
const travis = subscription();
const harris = subscription({ id: 'sub_2', name: 'Harris' });

/** `sub_1` holds parcels and permits, `sub_2` permits and zoning; all are mirrored. */
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

/** Two catch-ups ten minutes apart, which confirm what both of them lack. Gives how the second one ended. */
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

describe('F35 a subscription that is gone', () => {
  it('W27 is suspended as missing, is asked nothing, and keeps its datasets', async () => {
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

  it('F55 is none before a second list lacks it, ten minutes after the first, with none in between that shows it', async () => {
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

  it('does not hold up the others, nor what they share', async () => {
    const world = await two();
    list(world, travis);
    world.service.logs.set('sub_1', [event(101, 'dataset.updated', { datasetId: 'permits', version: 2 })]);
    world.service.watermarkCovers.set('sub_1', id(101));
    world.service.snapshots.set('permits', entry('permits', 2));
    expect(versions(world)).toEqual({ parcels: 1, permits: 1, zoning: 1 });
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ permits: 2, zoning: 1 });
  });

  it('W28 stays held when it is back, until a person resumes it; then it is read on from its position', async () => {
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

  it('W28 is held again where it is resumed and not back', async () => {
    const world = await two();
    list(world, travis);
    await missedForTenMinutes(world);
    world.checkpoint.lift(scope);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
  });

  it('W27 is missing too where the configuration no longer selects it, by id or by name', async () => {
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

  it('is missing, and no wrong configuration, where the configuration selects it', async () => {
    const world = await two();
    Object.assign(world.parts.choices, { subscriptions: ['sub_1', 'Harris'] });
    list(world, travis);
    const result = await missedForTenMinutes(world);
    expect(missingOf(result)).toEqual([notListed]);
    expect(result.incidents).toEqual([]);
  });

  it('keeps the hold that it had', async () => {
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

  it('W27 is missing where it had been refused before, so that it can be given up', async () => {
    const world = await two();
    world.checkpoint.suspend(suspension(scope));
    list(world, travis);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
  });

  it('that is refused stays refused while it is there', async () => {
    const world = await two();
    world.checkpoint.suspend(suspension(scope));
    expect(missingOf(await world.catchUp())).toMatchObject([{ code: 'outside_coverage' }]);
  });

  it('is found where only the mirror knows of it', async () => {
    const before = await two();
    const world = await smallWorld();
    subscribe(world, travis, 'parcels', 'permits');
    world.enrolments.push(...before.enrolments);
    for (const [datasetId, table] of before.tables) world.tables.set(datasetId, table);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ zoning: 1 });
    expect(world.retired).toEqual([]);
  });

  it('is found where only the checkpoint knows of it', async () => {
    const world = await two();
    world.tables.clear();
    world.enrolments.length = 0;
    list(world, travis);
    expect(missingOf(await missedForTenMinutes(world))).toEqual([notListed]);
    expect(versions(world)).toMatchObject({ parcels: 1, permits: 1 });
  });

  it('W28 that a person gave up is not missing; what only it held is retired', async () => {
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

  it('that a person gave up, and was the only one of the mirror, leaves the mirror to another', async () => {
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

describe('a subscription that was never there', () => {
  it('and is chosen is a wrong configuration', async () => {
    const world = await two();
    Object.assign(world.parts.choices, { subscriptions: ['sub_1', 'sub_2', 'sub_3'] });
    const result = await world.catchUp();
    expect(result.incidents).toMatchObject([{ error: { name: 'ConfigurationError' } }]);
    expect(result.suspensions).toEqual([]);
  });

  it('and is not chosen is not missing', async () => {
    const world = await two();
    subscribe(world, subscription({ id: 'sub_3', name: 'Bexar' }), 'roads');
    Object.assign(world.parts.choices, { subscriptions: ['Travis', 'Harris'] });
    expect((await world.catchUp()).suspensions).toEqual([]);
    expect(versions(world)).not.toHaveProperty('roads');
  });
});
