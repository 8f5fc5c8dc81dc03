/** Following one subscription: which calls that makes, and what is wanted then. */

import { describe, expect, it } from 'vitest';
import { CursorExpiredError } from '../../src/model/errors.ts';
import { type Followed, followed, newestIs } from '../support/followed.ts';
import { entry, event, id, refusal, table, unreadable } from '../support/sync-values.ts';

const DAY_MS = 86_400_000;

/** Has followed its subscription once, and its table is at version 2, to which changes have led it. */
async function ledOn(...others: string[]): Promise<Followed> {
  const one = await followed(...others);
  await one.follow();
  one.log.push(event(101, 'dataset.updated', { version: 2 }));
  one.service.snapshots.set('parcels', entry('parcels', 2));
  newestIs(one, id(101));
  await one.follow();
  one.tables.set('parcels', table(2, { snapshotVersion: 1, reloads: new Map([['sub_1', 100n]]) }));
  return one;
}

/** The same, after no event has come for longer than events are kept. */
async function quiet(...others: string[]): Promise<Followed> {
  const one = await ledOn(...others);
  one.pass(91 * DAY_MS);
  one.keptFrom = 102n;
  return one;
}

describe('a first start', () => {
  it('takes the position from the manifest, reads the log on from there, and the manifest after it', async () => {
    const one = await followed();
    expect(await one.follow()).toEqual(['manifest sub_1', 'events evt_100', 'manifest sub_1']);
    expect(one.cursor()).toEqual(id(100));
    expect(one.isQuiet()).toBe(false);
    expect(one.want()).toMatchObject({ members: new Set(['sub_1']), atLeastVersion: 1, looksAsked: 0 });
  });

  it('W19 reads the log from its start where nobody names a position, and has all datasets looked at', async () => {
    const one = await followed();
    newestIs(one, null);
    expect(await one.follow()).toEqual(['manifest sub_1', 'events start', 'manifest sub_1']);
    expect(one.cursor()).toEqual(id(100));
    expect(one.want()).toMatchObject({ looksAsked: 1 });
    expect(await one.follow()).toEqual(['events evt_100', 'manifest sub_1']);
  });

  it('F26 with a position that is past retention reads the log from its start', async () => {
    const one = await followed();
    one.keptFrom = 101n;
    expect(await one.follow()).toEqual([
      'manifest sub_1',
      'events evt_100',
      'events start',
      'manifest sub_1',
    ]);
    expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
    one.log.push(event(101, 'dataset.updated', { version: 5 }));
    expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
    expect(one.want()).toMatchObject({ atLeastVersion: 5 });
    expect(await one.follow()).toEqual(['events evt_101', 'manifest sub_1']);
  });

  it('F32 from a manifest older than the log reads on from what the manifest reflects', async () => {
    const one = await followed();
    one.log = [98, 99, 100].map((number) => event(number, 'dataset.updated', { version: number }));
    one.service.reflects.set('sub_1', id(98));
    await one.follow();
    expect(one.calls[1]).toBe('events evt_98');
    expect(one.cursor()).toEqual(id(100));
    expect(one.want()).toMatchObject({ atLeastVersion: 100 });
  });
});

describe('F26 a quiet log', () => {
  it('W22 leads to one start from the manifest, and is then read from its start each time', async () => {
    const one = await quiet();
    const first = ['events evt_101', 'manifest sub_1', 'events start', 'manifest sub_1'];
    expect(await one.follow()).toEqual(first);
    expect(one.want()).toMatchObject({ reloadAfter: new Map([['sub_1', 101n]]), atLeastVersion: 2 });
    const asked = one.want();
    for (let days = 0; days < 100; days += 25) {
      one.pass(25 * DAY_MS);
      expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
    }
    expect(one.want()).toEqual(asked);
    expect(one.cursor()).toEqual(id(101));
    expect(one.warnings).toEqual(['The position in the log has expired: starting from the manifest.']);
  });

  it('keeps a table that is the very snapshot', async () => {
    const one = await quiet();
    one.tables.set('parcels', table(2));
    await one.follow();
    expect(one.want()).toMatchObject({ reloadAfter: new Map() });
  });

  it('W22 is read on from its position once something newer has come', async () => {
    const one = await quiet();
    await one.follow();
    one.log.push(event(102, 'dataset.updated', { version: 3 }), event(103, 'dataset.schema_changed'));
    newestIs(one, id(103));
    one.pageSize = 1;
    expect(await one.follow()).toEqual(['events start', 'events evt_102', 'manifest sub_1']);
    expect(one.isQuiet()).toBe(false);
    expect(await one.follow()).toEqual(['events evt_103', 'manifest sub_1']);
    expect(one.want()).toMatchObject({ atLeastVersion: 3, looksAsked: 1 });
  });

  it('W22 may list what was read before, over pages, and it is skipped', async () => {
    const one = await quiet();
    await one.follow();
    one.keptFrom = 0n;
    one.expired.add(101n);
    one.log = [
      event(99, 'dataset.removed'),
      event(100, 'dataset.removed'),
      event(101, 'dataset.schema_changed'),
      event(102, 'dataset.updated', { version: 3 }),
    ];
    one.pageSize = 2;
    const before = one.want();
    expect(await one.follow()).toEqual(['events start', 'events evt_100', 'manifest sub_1']);
    expect(one.want()).toEqual({ ...before, atLeastVersion: 3 });
    expect(one.cursor()).toEqual(id(102));
  });

  it('counts as read only once its head was reached', async () => {
    const one = await quiet();
    await one.follow();
    one.keptFrom = 0n;
    one.pageSize = 1;
    one.expired.add(101n);
    one.log = [event(99, 'dataset.updated'), event(100, 'dataset.updated')];
    one.pass(20 * DAY_MS);
    one.onCall = (call) => {
      if (call === 'events evt_99') throw refusal({ kind: 'workspace' });
    };
    await expect(one.follow()).rejects.toThrow('refused');
    expect(one.checkpoint.followed().get('sub_1')?.quietReadAt).not.toEqual(one.now);
    one.onCall = () => {};
    await one.follow();
    expect(one.checkpoint.followed().get('sub_1')?.quietReadAt).toEqual(one.now);
  });

  it.each([
    ['was not read for longer than a part of what the service keeps', 31],
    ['was read in the future, by a clock that was wrong', -31],
  ])('that %s is taken from the manifest again', async (_, days) => {
    const one = await quiet();
    await one.follow();
    one.pass(days * DAY_MS);
    newestIs(one, id(150));
    one.keptFrom = 140n;
    one.log = [event(150, 'dataset.updated', { version: 9 })];
    expect(await one.follow()).toEqual(['manifest sub_1', 'events evt_150', 'manifest sub_1']);
    expect(one.want()).toMatchObject({ reloadAfter: new Map([['sub_1', 150n]]) });
  });

  it('F13 goes on as it was when the clock jumps by a day either way', async () => {
    const one = await quiet();
    await one.follow();
    one.pass(DAY_MS);
    expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
    one.pass(-2 * DAY_MS);
    expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
  });
});

describe('F26 a lost position', () => {
  it('in the first page is taken anew, and the log read on from there', async () => {
    const one = await ledOn();
    one.keptFrom = 140n;
    one.log = [event(145, 'dataset.updated', { version: 8 }), event(150, 'dataset.updated', { version: 9 })];
    one.record = { ...one.record, lastEventId: id(150) };
    one.service.reflects.set('sub_1', id(145));
    one.service.snapshots.set('parcels', entry('parcels', 8));
    expect(await one.follow()).toEqual([
      'events evt_101',
      'manifest sub_1',
      'events evt_145',
      'manifest sub_1',
    ]);
    expect(one.cursor()).toEqual(id(150));
    expect(one.want()).toMatchObject({ reloadAfter: new Map([['sub_1', 145n]]), atLeastVersion: 9 });
    expect(one.isQuiet()).toBe(false);
  });

  it('in a later page keeps what the pages before it said', async () => {
    const one = await ledOn();
    one.log.push(
      event(102, 'dataset.updated', { version: 3 }),
      event(103, 'dataset.updated', { version: 4 }),
    );
    one.pageSize = 1;
    one.expired.add(102n);
    newestIs(one, id(103));
    expect(await one.follow()).toEqual([
      'events evt_101',
      'events evt_102',
      'manifest sub_1',
      'events evt_103',
      'manifest sub_1',
    ]);
    expect(one.want()).toMatchObject({ atLeastVersion: 2, reloadAfter: new Map([['sub_1', 103n]]) });
  });

  it('again right after starting anew makes the log be read from its start, and no loop', async () => {
    const one = await ledOn();
    one.keptFrom = 200n;
    newestIs(one, id(150));
    expect(await one.follow()).toEqual([
      'events evt_101',
      'manifest sub_1',
      'events evt_150',
      'events start',
      'manifest sub_1',
    ]);
    expect(await one.follow()).toEqual(['events start', 'manifest sub_1']);
    expect(one.cursor()).toEqual(id(150));
  });

  it('at every page of a log ends the catch-up, for the next to try again', async () => {
    const one = await quiet();
    one.keptFrom = 0n;
    one.pageSize = 1;
    one.log = [event(99, 'dataset.updated'), event(100, 'dataset.updated')];
    for (const number of [99n, 101n]) one.expired.add(number);
    await expect(one.follow()).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
    expect(one.calls.filter((call) => call === 'manifest sub_1')).toHaveLength(1);
  });

  it('at the very start of a log means that there is nothing in it', async () => {
    const one = await quiet();
    one.onCall = (call) => {
      if (call === 'events start') throw new CursorExpiredError('past retention');
    };
    expect(await one.follow()).toEqual([
      'events evt_101',
      'manifest sub_1',
      'events start',
      'manifest sub_1',
    ]);
    expect(one.isQuiet()).toBe(true);
  });

  it('F32 and a manifest from before it loads nothing older over the table, and waits for a newer one', async () => {
    const one = await quiet();
    one.service.reflects.set('sub_1', id(60));
    one.service.snapshots.set('parcels', entry('parcels', 1));
    await one.follow();
    expect(one.cursor()).toEqual(id(101));
    expect(one.want()).toMatchObject({ reloadAfter: new Map([['sub_1', 101n]]), atLeastVersion: null });
  });

  it('W21 drops the members that two complete reads of the manifest lack', async () => {
    const one = await quiet('permits', 'zoning');
    one.service.members.set('sub_1', ['parcels', 'zoning']);
    one.onCall = (call, nth) => {
      if (call === 'manifest sub_1' && nth === 2) one.service.members.set('sub_1', ['parcels']);
      if (call === 'manifest sub_1' && nth === 3) one.service.members.set('sub_1', ['parcels', 'zoning']);
    };
    expect(await one.follow()).toEqual([
      'events evt_101',
      'manifest sub_1',
      'manifest sub_1',
      'events start',
      'manifest sub_1',
    ]);
    expect(one.want('permits')).toMatchObject({
      members: new Set(),
      formerMembers: new Map([['sub_1', null]]),
    });
    expect(one.want('zoning')).toMatchObject({ members: new Set(['sub_1']) });
  });

  it('W3 F35 loads a dataset again that left before the manifest it is taken from, and came back after it', async () => {
    const one = await quiet('permits');
    one.tables.set('permits', table(3, { datasetId: 'permits' }));
    one.service.members.set('sub_1', ['parcels']);
    one.log.push(event(105, 'dataset.added', { datasetId: 'permits', version: 1 }));
    one.service.reflects.set('sub_1', id(104));
    one.record = { ...one.record, lastEventId: id(105) };
    await one.follow();
    expect(one.want('permits')).toMatchObject({
      members: new Set(['sub_1']),
      reloadAfter: new Map([['sub_1', 105n]]),
      atLeastVersion: 1,
    });
  });
});

describe('the audit of every catch-up', () => {
  it('costs one reading of the manifest where nothing differs, and stores nothing', async () => {
    const one = await ledOn();
    const before = one.want();
    expect(await one.follow()).toEqual(['events evt_101', 'manifest sub_1']);
    expect(one.want()).toEqual(before);
  });

  it('W23 F28 makes good a lost addition, update, schema change and removal', async () => {
    const one = await ledOn('permits');
    one.tables.set('permits', table(1, { datasetId: 'permits' }));
    one.service.members.set('sub_1', ['parcels', 'zoning']);
    one.service.snapshots.set('parcels', { ...entry('parcels', 2), schemaVersion: '2' });
    one.service.snapshots.set('zoning', entry('zoning', 4));
    await one.follow();
    expect(one.want('parcels')).toMatchObject({ looksAsked: 1 });
    expect(one.want('zoning')).toMatchObject({ members: new Set(['sub_1']), atLeastVersion: 4 });
    expect(one.want('permits')).toMatchObject({ members: new Set() });
    one.service.snapshots.set('parcels', entry('parcels', 3));
    await one.follow();
    expect(one.want('parcels')).toMatchObject({ atLeastVersion: 3 });
  });

  it('lists a dataset again that an earlier one had dropped, and loads again what is left of it', async () => {
    const one = await ledOn('permits');
    one.tables.set('permits', table(3, { datasetId: 'permits', reloads: new Map([['sub_1', 100n]]) }));
    one.service.members.set('sub_1', ['parcels']);
    await one.follow();
    expect(one.want('permits')).toMatchObject({ members: new Set() });
    one.service.members.set('sub_1', ['parcels', 'permits']);
    await one.follow();
    expect(one.want('permits')).toMatchObject({
      members: new Set(['sub_1']),
      reloadAfter: new Map([['sub_1', 101n]]),
      atLeastVersion: 1,
    });
  });

  it('offers what the later of two manifests lists', async () => {
    const one = await ledOn('permits');
    one.service.members.set('sub_1', ['parcels']);
    one.onCall = (call, nth) => {
      if (call === 'manifest sub_1' && nth === 2) one.service.snapshots.set('parcels', entry('parcels', 3));
    };
    one.calls.length = 0;
    expect((await one.offers()).of('parcels')).toMatchObject({ entry: { version: 3 } });
  });

  it('leaves a quiet log quiet', async () => {
    const one = await quiet();
    await one.follow();
    one.service.members.set('sub_1', ['parcels', 'zoning']);
    one.service.snapshots.set('zoning', entry('zoning', 4));
    await one.follow();
    expect(one.want('zoning')).toMatchObject({ members: new Set(['sub_1']) });
    expect(one.isQuiet()).toBe(true);
  });
});

describe('events', () => {
  it('F29 that cannot be read are told of once a page, make their datasets be looked at, and stop nothing', async () => {
    const one = await ledOn();
    one.log.push(
      unreadable({ id: id(102) }),
      unreadable({ id: null }),
      event(103, 'dataset.updated', { version: 3 }),
    );
    await one.follow();
    expect(one.cursor()).toEqual(id(103));
    expect(one.want()).toMatchObject({ atLeastVersion: 3, looksAsked: 2 });
    expect(one.warnings).toEqual([expect.stringContaining('could not be read')]);
  });

  it('F36 of one page, all about one dataset, are one want', async () => {
    const one = await ledOn();
    one.pageSize = 500;
    for (let number = 102; number <= 601; number++) {
      one.log.push(event(number, 'dataset.updated', { version: number }));
    }
    expect(await one.follow()).toEqual(['events evt_101', 'manifest sub_1']);
    expect(one.want()).toMatchObject({ atLeastVersion: 601, looksAsked: 0 });
  });

  it.each([
    ['without an event', []],
    ['of events it has given before', [event(101, 'dataset.updated')]],
  ])('F25 a page %s that promises more ends the catch-up', async (_, events) => {
    const one = await ledOn();
    one.log = [...events];
    one.pageSize = -1;
    await expect(one.follow()).rejects.toThrow('makes no progress');
  });
});

describe('a manifest for each dataset', () => {
  async function byDataset(...others: string[]): Promise<Followed> {
    const one = await followed(...others);
    one.service.shape = 'dataset';
    return one;
  }

  it('M12 leaves the log to be read from its start, once', async () => {
    const one = await byDataset('permits');
    expect(await one.follow()).toEqual(['events start', 'entry parcels', 'entry permits']);
    expect(one.cursor()).toEqual(id(100));
    expect(one.want()).toMatchObject({ looksAsked: 1, reloadAfter: new Map() });
    expect(await one.follow()).toEqual(['events evt_100', 'entry parcels', 'entry permits']);
    expect(one.want()).toMatchObject({ looksAsked: 1 });
  });

  it('F26 after a lost position has every member looked at, and loaded again where its entry differs', async () => {
    const one = await byDataset('permits');
    await one.follow();
    one.tables.set('parcels', table(1, { snapshotVersion: 0, reloads: new Map([['sub_1', 100n]]) }));
    one.tables.set('permits', table(1, { datasetId: 'permits' }));
    one.keptFrom = 150n;
    one.log = [event(150, 'dataset.updated', { version: 1 })];
    one.record = { ...one.record, lastEventId: id(150) };
    expect(await one.follow()).toEqual([
      'events evt_100',
      'entry parcels',
      'entry permits',
      'events start',
      'entry parcels',
      'entry permits',
    ]);
    expect(one.want('parcels')).toMatchObject({ looksAsked: 2, reloadAfter: new Map([['sub_1', 150n]]) });
    expect(one.want('permits')).toMatchObject({ looksAsked: 2, reloadAfter: new Map() });
    expect(await one.follow()).toEqual(['events evt_150', 'entry parcels', 'entry permits']);
    expect(one.want('parcels')).toMatchObject({ looksAsked: 2 });
  });

  it('F26 of a quiet log asks for one reload, and no more however long it is quiet', async () => {
    const one = await byDataset();
    await one.follow();
    one.tables.set('parcels', table(1, { snapshotVersion: 0 }));
    one.keptFrom = 150n;
    await one.follow();
    const asked = one.want();
    expect(asked).toMatchObject({ looksAsked: 2, reloadAfter: new Map([['sub_1', 100n]]) });
    one.pass(20 * DAY_MS);
    expect(await one.follow()).toEqual(['events start', 'entry parcels']);
    expect(one.want()).toEqual(asked);
  });

  it('F29 has a dataset loaded again whose entry cannot be read just then', async () => {
    const one = await byDataset();
    await one.follow();
    one.tables.set('parcels', table(1));
    one.keptFrom = 150n;
    one.onCall = (call, nth) => {
      if (call === 'entry parcels' && nth === 1) throw refusal({ kind: 'dataset', datasetId: 'parcels' });
    };
    await one.follow();
    expect(one.want()).toMatchObject({ reloadAfter: new Map([['sub_1', 100n]]), atLeastVersion: 1 });
  });

  it('W23 takes a dataset that the subscription record lists and nobody wants yet', async () => {
    const one = await byDataset();
    await one.follow();
    one.service.snapshots.set('zoning', entry('zoning', 4));
    one.record = { ...one.record, datasetIds: ['parcels', 'zoning'] };
    await one.follow();
    expect(one.want('zoning')).toMatchObject({ members: new Set(['sub_1']), atLeastVersion: 4 });
  });

  it('M14 tells of a subscription that counts other datasets', async () => {
    const one = await byDataset();
    one.record = { ...one.record, datasetCount: 1 };
    await one.follow();
    expect(one.warnings).toEqual([]);
    one.record = { ...one.record, datasetCount: 2 };
    await one.follow();
    expect(one.warnings).toEqual([expect.stringContaining('The subscription is incomplete')]);
  });
});
