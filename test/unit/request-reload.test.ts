/** A reload that is asked for now: the event and the time by which it counts, so that nothing older answers it. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { changedDesiredState } from '../../src/model/desired-state.ts';
import { askReload, reloadAt } from '../../src/sync/follow/reload-requests.ts';
import { orphanReloads } from '../../src/sync/plan/need.ts';
import { MINUTE_MS } from '../support/planning.ts';
import { oneSubscription, subscribe, type World } from '../support/small-world.ts';
import {
  desired,
  event,
  id,
  member,
  NOW,
  reload,
  subscription,
  suspension,
  table,
} from '../support/sync-values.ts';

/** The end of the second that `NOW` names. */
const SECOND_LATER = new Date(NOW.getTime() + 1_000);
const ASKED = { subscriptionId: 'sub_1', logNumber: 1, newest: 100n, readAt: NOW };

describe('reloadAt', () => {
  it('dates a reload after the event by which the dataset joined', () => {
    const joined = desired({
      members: new Map([['sub_1', member({ eventNumber: 104n, since: SECOND_LATER })]]),
    });
    const asked = changedDesiredState(joined, 'sub_1', reloadAt(ASKED, joined, table(5)));
    expect(asked.reloads).toMatchObject([{ eventNumber: 104n }]);
  });

  it('F82 dates a reload no earlier than one that is owed to a former member', () => {
    const orphan = reload(7, { subscriptionId: 'sub_9', createdAt: new Date(NOW.getTime() + MINUTE_MS) });
    const owing = desired({ reloads: [orphan] });
    expect(orphanReloads(table(5), owing)).toEqual([orphan]);
    const asked = changedDesiredState(owing, 'sub_1', reloadAt(ASKED, owing, table(5)));
    expect(orphanReloads(table(5), asked)).toEqual([]);
  });
});

describe('askReload', () => {
  const { signal } = new AbortController();
  const request = { datasetId: 'parcels', isWithdrawal: false };

  async function caughtUp(): Promise<World> {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'parcels');
    await world.catchUp();
    return world;
  }

  function ask(world: World): Promise<boolean> {
    return askReload(request, (datasetId) => world.tables.get(datasetId) ?? null, world.parts, signal);
  }

  function asked({ checkpoint }: World) {
    const { reloads } = present(checkpoint.desired('parcels'), 'parcels are desired');
    return new Map(reloads.map(({ subscriptionId, eventNumber }) => [subscriptionId, eventNumber]));
  }

  it('asks every subscription that contains the dataset, by the newest event that its record names', async () => {
    const world = await caughtUp();
    world.service.subscriptions = [subscription({ lastEventId: id(107) }), subscription({ id: 'sub_2' })];
    expect(await ask(world)).toBe(true);
    expect(asked(world)).toEqual(
      new Map([
        ['sub_1', 107n],
        ['sub_2', 100n],
      ]),
    );
  });

  it('asks by the newest event of the log, read to its head, where the record names none', async () => {
    const world = await caughtUp();
    const silent = ['sub_1', 'sub_2'].map((one) => subscription({ id: one, lastEventId: null }));
    world.service.subscriptions = silent;
    world.service.logs.set('sub_1', [event(105, 'dataset.updated', { version: 1 })]);
    expect(await ask(world)).toBe(true);
    expect(asked(world)).toEqual(
      new Map([
        ['sub_1', 105n],
        ['sub_2', 100n],
      ]),
    );
  });

  it('reads the log first where the record names an unread event, whose own reload stays owed', async () => {
    const world = await caughtUp();
    world.service.logs.set('sub_1', [event(105, 'dataset.resync_required', { version: 1 })]);
    expect(await ask(world)).toBe(true);
    const { reloads } = present(world.checkpoint.desired('parcels'), 'parcels are desired');
    const own = reloads.filter(({ subscriptionId }) => subscriptionId === 'sub_1');
    expect(own.map(({ eventNumber, createdAt }) => [eventNumber, createdAt])).toEqual([
      [105n, NOW],
      [105n, SECOND_LATER],
    ]);
  });

  it('never asks by an event before the position, though the record may be older', async () => {
    const world = await caughtUp();
    world.service.subscriptions = [subscription({ lastEventId: id(60) })];
    expect(await ask(world)).toBe(true);
    expect(asked(world)).toEqual(new Map([['sub_1', 100n]]));
  });

  it('asks no subscription that is suspended or unlisted, and returns false where none is left', async () => {
    const world = await caughtUp();
    world.checkpoint.suspend(suspension({ kind: 'subscription', subscriptionId: 'sub_2' }));
    expect(await ask(world)).toBe(true);
    expect(asked(world)).toEqual(new Map([['sub_1', 100n]]));
    world.service.subscriptions = [subscription({ id: 'sub_2' })];
    expect(await ask(world)).toBe(false);
  });
});
