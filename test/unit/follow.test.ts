/** Following one subscription: the calls that it makes, and the desired states after it. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { announcedVersion, type DesiredState } from '../../src/model/desired-state.ts';
import { CursorExpiredError } from '../../src/model/errors.ts';
import { pendingReloads } from '../../src/sync/plan/need.ts';
import { type Followed, followed, newestIs } from '../support/followed.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { SEED } from '../support/seed.ts';
import { entry, event, id, refusal, table, unreadable } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;

/** The last calls of every catch-up: the manifest, and the record after it. */
const MANIFEST = ['manifest sub_1', 'subscriptions'];

/** The event at the position is read first, where the time of its creation is known. */
const readOn = (position: number): readonly string[] => [
  `events evt_${position - 1}`,
  `events evt_${position}`,
];

/** A log that need not keep the event at position 101 any more is read from its start first. */
const PAST_RETENTION = ['events start', 'events evt_101'];

/** The members among these datasets. */
function membersOf(one: Followed, ...datasetIds: readonly string[]): readonly string[] {
  return datasetIds.filter((datasetId) => one.desired(datasetId)?.members.has('sub_1'));
}

/** Expects the next reading to keep `permits`, which it lacks, and one ten minutes later to drop it. */
async function expectDropAtSecondReading(one: Followed): Promise<void> {
  await one.follow();
  expect(membersOf(one, 'permits')).toEqual(['permits']);
  one.pass(10 * MINUTE_MS);
  await one.follow();
  expect(membersOf(one, 'permits')).toEqual([]);
}

/** The numbers of the events whose reloads the table still owes. */
function owed(one: Followed, datasetId = 'parcels'): readonly bigint[] {
  const state = one.desired(datasetId);
  const pending = state === undefined ? [] : pendingReloads(one.tables.get(datasetId) ?? null, state);
  return pending.map(({ eventNumber }) => eventNumber);
}

function announced(one: Followed, datasetId = 'parcels'): number | null {
  const state: DesiredState | undefined = one.desired(datasetId);
  return state === undefined ? null : announcedVersion(state);
}

/** Has followed its subscription once, and its table is at version 2, reached through changes. */
async function ledOn(...others: string[]): Promise<Followed> {
  const one = await followed(...others);
  await leadOn(one);
  return one;
}

async function leadOn(one: Followed): Promise<void> {
  await one.follow();
  one.log.push(event(101, 'dataset.updated', { version: 2 }));
  one.service.snapshots.set('parcels', entry('parcels', 2));
  one.service.watermarkCovers.set('sub_1', id(101));
  await one.follow();
  one.tables.set('parcels', table(2, { snapshotVersion: 1, reloads: reloadMarks([['sub_1', 100n]]) }));
}

/** A subscription as after `ledOn`, without an event for longer than events are kept. */
async function quiet(...others: string[]): Promise<Followed> {
  const one = await ledOn(...others);
  one.pass(91 * DAY_MS);
  one.keptFrom = 102n;
  return one;
}

describe('a first start', () => {
  it('takes the position from the manifest, reads the log from there, and the manifest after it', async () => {
    const one = await followed();
    expect(await one.follow()).toEqual([...MANIFEST, 'events evt_100', ...MANIFEST]);
    expect(one.cursor()).toEqual(id(100));
    expect(one.isExpiredCursorReplay()).toBe(false);
    expect(membersOf(one, 'parcels')).toEqual(['parcels']);
    expect(one.desired()).toMatchObject({ reloads: [], refreshesRequested: 0 });
  });

  it('W19 reads the log from its start where the manifest names no position, and applies events it may not reflect', async () => {
    const one = await followed('permits');
    one.service.watermarkCovers.delete('sub_1');
    const created = (minutes: number) => new Date(one.now.getTime() - minutes * MINUTE_MS);
    one.log = [
      event(97, 'dataset.updated', { version: 8, createdAt: created(16) }),
      event(98, 'dataset.removed', { datasetId: 'permits', createdAt: created(15) }),
      event(99, 'dataset.added', { datasetId: 'zoning', createdAt: created(15) }),
      event(100, 'dataset.updated', { version: 1, createdAt: created(14) }),
    ];
    expect(await one.follow()).toEqual([...MANIFEST, 'events start', ...MANIFEST]);
    expect(one.cursor()).toEqual(id(100));
    expect(announced(one)).toBe(1);
    // The manifest lists permits and not zoning, and it surely reflects the events of both.
    expect(membersOf(one, 'permits', 'zoning')).toEqual(['permits', 'zoning']);
    expect(await one.follow()).toEqual([...readOn(100), ...MANIFEST]);
  });

  it('F26 reads the log from its start where the position of the manifest is past retention', async () => {
    const one = await followed();
    one.keptFrom = 101n;
    expect(await one.follow()).toEqual([...MANIFEST, 'events evt_100', 'events start', ...MANIFEST]);
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    one.log.push(event(101, 'dataset.updated', { version: 5 }));
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    expect(announced(one)).toBe(5);
    expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST]);
  });

  it('F32 reads the log from the position that an old manifest reflects', async () => {
    const one = await followed();
    one.log = [98, 99, 100].map((number) => event(number, 'dataset.updated', { version: number }));
    one.service.watermarkCovers.set('sub_1', id(98));
    await one.follow();
    expect(one.calls[2]).toBe('events evt_98');
    expect(one.cursor()).toEqual(id(100));
    expect(announced(one)).toBe(100);
  });
});

describe('F26 a quiet log', () => {
  it('W22 starts a quiet log from the manifest once, and reads it from its start from then on', async () => {
    const one = await quiet();
    expect(await one.follow()).toEqual([...PAST_RETENTION, ...MANIFEST, 'events start', ...MANIFEST]);
    expect(owed(one)).toEqual([101n]);
    expect(announced(one)).toBeNull();
    const asked = one.desired();
    for (let days = 0; days < 100; days += 25) {
      one.pass(25 * DAY_MS);
      expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    }
    expect(one.desired()).toEqual(asked);
    expect(one.cursor()).toEqual(id(101));
    expect(one.warnings).toEqual(['The position in the log has expired: starting from the manifest.']);
  });

  it('keeps a table of a quiet log that equals the snapshot of the manifest', async () => {
    const one = await quiet();
    one.tables.set('parcels', table(2));
    await one.follow();
    expect(owed(one)).toEqual([]);
  });

  it('W22 reads a quiet log from its position again once a newer event has come', async () => {
    const one = await quiet();
    await one.follow();
    const before = one.desired()?.refreshesRequested ?? 0;
    const createdAt = one.now;
    one.log.push(
      event(102, 'dataset.updated', { version: 3, createdAt }),
      event(103, 'dataset.schema_changed', { createdAt }),
    );
    newestIs(one, id(103));
    one.pageSize = 1;
    expect(await one.follow()).toEqual(['events start', 'events evt_102', ...MANIFEST]);
    expect(one.isExpiredCursorReplay()).toBe(false);
    expect(await one.follow()).toEqual([...readOn(103), ...MANIFEST]);
    expect(announced(one)).toBe(3);
    expect(one.desired()).toMatchObject({ refreshesRequested: before + 1 });
  });

  it('W22 skips events that the replay of a quiet log lists again, over several pages', async () => {
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
    const before = one.desired();
    expect(await one.follow()).toEqual(['events start', 'events evt_100', ...MANIFEST]);
    expect(one.desired()).toEqual({ ...before, members: one.desired()?.members });
    expect(announced(one)).toBe(3);
    expect(one.cursor()).toEqual(id(102));
  });

  it('counts a quiet log as read only once its head was reached', async () => {
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
    expect(one.checkpoint.followed().get('sub_1')?.replayedAt).not.toEqual(one.now);
    one.onCall = () => {};
    await one.follow();
    expect(one.checkpoint.followed().get('sub_1')?.replayedAt).toEqual(one.now);
  });

  it.each([
    ['was not read for as long as the service keeps events', 90],
    ['was read that far in the future, by a wrong clock', -90],
  ])('F83 starts a quiet log from the manifest again that %s', async (_, days) => {
    const one = await quiet();
    await one.follow();
    one.pass(days * DAY_MS);
    newestIs(one, id(150));
    one.keptFrom = 140n;
    one.log = [event(150, 'dataset.updated', { version: 9 })];
    expect(await one.follow()).toEqual([...MANIFEST, 'events evt_150', ...MANIFEST]);
    expect(owed(one)).toEqual([101n, 150n]);
  });

  it('F83 replays a quiet log from its start that was not read for a little less than its retention, without loss', async () => {
    const one = await quiet();
    await one.follow();
    one.pass(90 * DAY_MS - 1);
    newestIs(one, id(150));
    one.log = [event(150, 'dataset.resync_required', { createdAt: one.now })];
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    expect(owed(one)).toEqual([101n, 150n]);
  });

  it.each([
    ['names no newest event', null],
    ['names no newer event', id(100)],
  ])(
    'F83 reads the manifest once for a quiet log whose record %s, and then every new event',
    async (_, lastEventId) => {
      const one = await followed();
      one.record = { ...one.record, lastEventId };
      await leadOn(one);
      one.service.watermarkCovers.delete('sub_1');
      one.pass(91 * DAY_MS);
      one.keptFrom = 102n;
      await one.follow();
      expect(owed(one)).toEqual([101n]);
      for (let times = 0; times < 3; times += 1) {
        one.pass(10 * MINUTE_MS);
        expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
      }
      one.log.push(event(102, 'dataset.resync_required', { createdAt: one.now }));
      expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
      expect(owed(one)).toEqual([101n, 102n]);
      // And once more: the position that it has now expires, too.
      one.pass(91 * DAY_MS);
      one.keptFrom = 103n;
      await one.follow();
      expect(owed(one)).toEqual([101n, 102n, 102n]);
      expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    },
  );

  it('F83 asks for another reload after another retention without reading, though the table satisfies the first', async () => {
    const one = await followed();
    newestIs(one, null);
    await one.follow();
    one.log = [];
    one.keptFrom = 102n;
    one.pass(91 * DAY_MS);
    one.tables.set('parcels', table(1, { snapshotDigest: 'digest of unstated files' }));
    await one.follow();
    const [first, ...others] = one.desired()?.reloads ?? [];
    expect(others).toEqual([]);
    const satisfied = present(first, 'the position has expired');
    one.tables.set(
      'parcels',
      table(1, { snapshotDigest: 'digest of unstated files', reloads: new Map([['sub_1', satisfied]]) }),
    );
    // Nothing was lost: the log was read all the time.
    one.pass(89 * DAY_MS);
    await one.follow();
    expect(owed(one)).toEqual([]);
    one.pass(90 * DAY_MS);
    await one.follow();
    expect(owed(one)).toEqual([100n]);
  });

  it("F13 keeps a quiet log's replay when the clock jumps by a day either way", async () => {
    const one = await quiet();
    await one.follow();
    one.pass(DAY_MS);
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    one.pass(-2 * DAY_MS);
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
  });
});

describe('F26 a lost position', () => {
  it('takes a position that the first page lost from the manifest, and reads the log from there', async () => {
    const one = await ledOn();
    one.keptFrom = 140n;
    one.log = [event(145, 'dataset.updated', { version: 8 }), event(150, 'dataset.updated', { version: 9 })];
    one.record = { ...one.record, lastEventId: id(150) };
    one.service.watermarkCovers.set('sub_1', id(145));
    one.service.snapshots.set('parcels', entry('parcels', 8));
    expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST, 'events evt_145', ...MANIFEST]);
    expect(one.cursor()).toEqual(id(150));
    expect(owed(one)).toEqual([150n]);
    expect(announced(one)).toBe(9);
    expect(one.isExpiredCursorReplay()).toBe(false);
  });

  it('keeps the events of the pages before the one that lost the position', async () => {
    const one = await ledOn();
    one.log.push(
      event(102, 'dataset.updated', { version: 3 }),
      event(103, 'dataset.updated', { version: 4 }),
    );
    one.pageSize = 1;
    one.expired.add(102n);
    newestIs(one, id(103));
    expect(await one.follow()).toEqual([
      ...readOn(101),
      'events evt_102',
      ...MANIFEST,
      'events evt_103',
      ...MANIFEST,
    ]);
    expect(announced(one)).toBeNull();
    expect(owed(one)).toEqual([103n]);
  });

  it('replays the log from its start, without a loop, where the new position is lost at once', async () => {
    const one = await ledOn();
    one.keptFrom = 200n;
    newestIs(one, id(150));
    expect(await one.follow()).toEqual([
      ...readOn(101),
      ...MANIFEST,
      'events evt_150',
      'events start',
      ...MANIFEST,
    ]);
    expect(await one.follow()).toEqual(['events start', ...MANIFEST]);
    expect(one.cursor()).toEqual(id(150));
  });

  it('ends the catch-up where every page of the log loses the position', async () => {
    const one = await quiet();
    one.keptFrom = 0n;
    one.pageSize = 1;
    one.log = [event(99, 'dataset.updated'), event(100, 'dataset.updated')];
    for (const number of [99n, 101n]) one.expired.add(number);
    await expect(one.follow()).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
    expect(one.calls.filter((call) => call === 'manifest sub_1')).toHaveLength(1);
  });

  it('takes a log for empty whose very start is past retention', async () => {
    const one = await quiet();
    one.onCall = (call) => {
      if (call === 'events start') throw new CursorExpiredError('past retention');
    };
    expect(await one.follow()).toEqual([...PAST_RETENTION, ...MANIFEST, 'events start', ...MANIFEST]);
    expect(one.isExpiredCursorReplay()).toBe(true);
  });

  it('F32 waits for a newer manifest where the one after a lost position is from before it', async () => {
    const one = await quiet();
    one.service.watermarkCovers.set('sub_1', id(60));
    one.service.snapshots.set('parcels', entry('parcels', 1));
    await one.follow();
    expect(one.cursor()).toEqual(id(101));
    expect(owed(one)).toEqual([101n]);
    expect(announced(one)).toBeNull();
  });

  it('F87 loads a member that the manifest did not list, once a later manifest names it', async () => {
    const one = await quiet('permits');
    one.tables.set('permits', table(1, { datasetId: 'permits' }));
    one.service.members.set('sub_1', ['parcels']);
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual(['permits']);
    expect(owed(one, 'permits')).toEqual([101n]);
    one.service.members.set('sub_1', ['parcels', 'permits']);
    one.log = [event(102, 'dataset.resync_required', { datasetId: 'permits', createdAt: one.now })];
    newestIs(one, id(102));
    await one.follow();
    expect(owed(one, 'permits')).toEqual([101n, 102n]);
    expect((await one.listedEntries()).of('permits')).toMatchObject({ watermark: { through: 102n } });
  });

  it('W21 leaves the removal of members after a lost position to two readings ten minutes apart', async () => {
    const one = await quiet('permits');
    one.service.members.set('sub_1', ['parcels']);
    await expectDropAtSecondReading(one);
  });

  it('W3 F35 loads a dataset again that left before the manifest of the new position and returned after it', async () => {
    const one = await quiet('permits');
    one.tables.set('permits', table(3, { datasetId: 'permits' }));
    one.service.members.set('sub_1', ['parcels']);
    one.log.push(event(105, 'dataset.added', { datasetId: 'permits', version: 1 }));
    one.service.watermarkCovers.set('sub_1', id(104));
    one.record = { ...one.record, lastEventId: id(105) };
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual(['permits']);
    expect(owed(one, 'permits')).toEqual([105n, 105n]);
    expect(announced(one, 'permits')).toBe(1);
  });
});

describe('the audit of every catch-up', () => {
  it('reads the manifest, the record and the event at the position, and stores nothing where nothing differs', async () => {
    const one = await ledOn();
    const before = one.desired();
    expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST]);
    expect(one.desired()).toEqual(before);
    expect(one.checkpoint.absences()).toEqual([]);
  });

  it('W23 reads the log once more before it asks for other content, where the record names an unread event', async () => {
    const one = await followed();
    await one.follow();
    await one.follow();
    one.tables.set('parcels', table(1, { loadedThrough: 'sub_1', loadedAt: one.now }));
    one.service.snapshots.set('parcels', entry('parcels', 1, 'other'));
    one.pass(MINUTE_MS);
    one.onCall = (call) => {
      // After the manifest was read.
      if (call !== 'subscriptions' || one.log.length > 1) return;
      one.log.push(event(101, 'dataset.resync_required', { createdAt: one.now }));
    };
    expect(await one.follow()).toEqual([...readOn(100), ...MANIFEST, 'events evt_100']);
    // The event does not ask for the entry of the manifest: another entry may be in its place by then.
    expect(owed(one)).toEqual([101n, 101n]);
    expect(one.desired()?.reloads.map(({ createdAt }) => createdAt)).toEqual([
      one.now,
      new Date(one.now.getTime() + 1_000),
    ]);
  });

  it('W23 F28 makes good a lost addition, update, schema change and removal', async () => {
    const one = await ledOn('permits');
    one.tables.set('permits', table(1, { datasetId: 'permits' }));
    one.service.members.set('sub_1', ['parcels', 'zoning']);
    one.service.snapshots.set('parcels', { ...entry('parcels', 2), schemaVersion: '2' });
    one.service.snapshots.set('zoning', entry('zoning', 4));
    await one.follow();
    expect(one.desired('parcels')).toMatchObject({ refreshesRequested: 1 });
    expect(one.desired('zoning')).toMatchObject({ reloads: [] });
    expect(membersOf(one, 'permits', 'zoning')).toEqual(['permits', 'zoning']);
    one.checkpoint.markRefreshed('parcels', 1);
    one.service.snapshots.set('parcels', entry('parcels', 3));
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(one.desired('parcels')).toMatchObject({ refreshesRequested: 2 });
    expect(membersOf(one, 'permits', 'zoning')).toEqual(['zoning']);
  });

  it('lists a dataset again that an earlier audit dropped, and loads its remaining table again', async () => {
    const one = await ledOn('permits');
    one.tables.set('permits', table(3, { datasetId: 'permits', reloads: reloadMarks([['sub_1', 100n]]) }));
    one.service.members.set('sub_1', ['parcels']);
    await one.follow();
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual([]);
    // No event has come since: it is the same number that decides.
    one.service.members.set('sub_1', ['parcels', 'permits']);
    one.pass(MINUTE_MS);
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual(['permits']);
    expect(owed(one, 'permits')).toEqual([101n]);
    expect(announced(one, 'permits')).toBeNull();
  });

  it('asks once for a reload that it finds, also where the record does not name the newest event', async () => {
    for (const lastEventId of [id(101), null]) {
      const one = await ledOn();
      one.record = { ...one.record, lastEventId };
      const satisfied = { logNumber: 1, eventNumber: 101n, createdAt: one.now };
      const reloads = new Map([['sub_1', satisfied]]);
      one.tables.set('parcels', table(2, { loadedThrough: 'sub_1', reloads }));
      one.service.snapshots.set('parcels', entry('parcels', 2, 'anew'));
      const readAgain = lastEventId === null ? ['events evt_101'] : [];
      expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST, ...readAgain]);
      expect(owed(one)).toEqual([101n]);
      expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST]);
      expect(owed(one)).toEqual([101n]);
    }
  });

  it('uses the entry of the later of two manifests', async () => {
    const one = await ledOn('permits');
    one.service.members.set('sub_1', ['parcels']);
    one.onCall = (call, nth) => {
      if (call === 'manifest sub_1' && nth === 1) one.service.snapshots.set('parcels', entry('parcels', 3));
    };
    one.calls.length = 0;
    expect((await one.listedEntries()).of('parcels')).toMatchObject({ entry: { version: 3 } });
  });

  it('keeps the replay of a quiet log', async () => {
    const one = await quiet();
    await one.follow();
    one.service.members.set('sub_1', ['parcels', 'zoning']);
    one.service.snapshots.set('zoning', entry('zoning', 4));
    await one.follow();
    expect(membersOf(one, 'zoning')).toEqual(['zoning']);
    expect(one.isExpiredCursorReplay()).toBe(true);
  });
});

describe('a member that the manifest lacks', () => {
  const absences = (one: Followed) =>
    one.checkpoint.absences().map(({ subject, since }) => ({ ...subject, since }));
  const permits = { kind: 'member', subscriptionId: 'sub_1', datasetId: 'permits' };

  async function lacking(): Promise<Followed> {
    const one = await ledOn('permits');
    one.service.members.set('sub_1', ['parcels']);
    return one;
  }

  it('F51 F55 drops a member that a second complete reading, ten minutes after the first, lacks too', async () => {
    const one = await lacking();
    const since = one.now;
    await one.follow();
    expect(absences(one)).toEqual([{ ...permits, since }]);
    one.pass(10 * MINUTE_MS - 1);
    await one.follow();
    expect(absences(one)).toEqual([{ ...permits, since }]);
    expect(membersOf(one, 'permits')).toEqual(['permits']);
    one.pass(1);
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual([]);
    expect(one.desired('permits')?.formerMembers.get('sub_1')).toEqual({
      eventNumber: 101n,
      at: one.now,
      reason: 'not listed any more',
    });
    expect(absences(one)).toEqual([]);
  });

  it('F55 restarts the measure of an absence where a reading in between shows the member', async () => {
    const one = await lacking();
    await one.follow();
    one.pass(9 * MINUTE_MS);
    one.service.members.set('sub_1', ['parcels', 'permits']);
    await one.follow();
    expect(absences(one)).toEqual([]);
    one.service.members.set('sub_1', ['parcels']);
    one.pass(9 * MINUTE_MS);
    await one.follow();
    expect(absences(one)).toEqual([{ ...permits, since: one.now }]);
    expect(membersOf(one, 'permits')).toEqual(['permits']);
  });

  it('F52 restarts the measure of an absence where the first reading was in the future, by service time', async () => {
    const one = await lacking();
    await one.follow();
    one.pass(-60 * MINUTE_MS);
    await one.follow();
    expect(absences(one)).toEqual([{ ...permits, since: one.now }]);
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(membersOf(one, 'permits')).toEqual([]);
  });

  it('notes no absence by a manifest that may be from before the event that added the member', async () => {
    const one = await ledOn();
    one.log.push(event(102, 'dataset.added', { datasetId: 'zoning', version: 1, createdAt: one.now }));
    one.service.snapshots.set('zoning', entry('zoning', 1));
    for (let times = 0; times < 3; times += 1) {
      await one.follow();
      one.pass(10 * MINUTE_MS);
      expect(absences(one)).toEqual([]);
    }
    one.service.watermarkCovers.delete('sub_1');
    await one.follow();
    // Half an hour after the event, a manifest that does not say how far it goes surely reflects it.
    expect(absences(one)).toMatchObject([{ datasetId: 'zoning' }]);
  });

  it('drops a member also where no event was ever read, and where its manifest reflects more than was read', async () => {
    const never = await followed('permits');
    never.log = [];
    newestIs(never, null);
    await never.follow();
    never.pass(15 * MINUTE_MS);
    const ahead = await ledOn('permits');
    newestIs(ahead, id(105));
    ahead.service.members.set('sub_1', ['parcels', 'permits', 'zoning']);
    ahead.service.snapshots.set('zoning', entry('zoning', 1));
    await ahead.follow();
    expect(membersOf(ahead, 'zoning')).toEqual(['zoning']);
    for (const one of [never, ahead]) {
      one.service.members.set('sub_1', ['parcels']);
      await one.follow();
      one.pass(10 * MINUTE_MS);
      await one.follow();
      expect(membersOf(one, 'parcels', 'permits', 'zoning')).toEqual(['parcels']);
    }
  });
});

describe('the members after any events, logged or lost', () => {
  /** The datasets that entered or left, in order, and whether the log has the event. */
  const pasts = fc.array(
    fc.record({
      dataset: fc.constantFrom('parcels', 'permits', 'zoning'),
      enters: fc.boolean(),
      isReported: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  );
  type Past = readonly { readonly dataset: string; readonly enters: boolean; readonly isReported: boolean }[];

  const membersAfter = (past: Past): readonly string[] => {
    const members = new Set<string>();
    for (const { dataset, enters } of past) {
      if (enters) members.add(dataset);
      else members.delete(dataset);
    }
    return [...members].sort();
  };

  /** Reads the logged events of the past, beside a manifest that is right as of event `reflects`, twice ten minutes apart. */
  async function followedThrough(past: Past, watermarkCovers: number): Promise<readonly string[]> {
    const one = await followed('permits', 'zoning');
    await one.follow();
    one.log = past.flatMap(({ dataset, enters, isReported }, index) =>
      isReported
        ? [event(101 + index, enters ? 'dataset.added' : 'dataset.removed', { datasetId: dataset })]
        : [],
    );
    one.record = { ...one.record, lastEventId: id(100 + past.length) };
    const before = ['parcels', 'permits', 'zoning'].map((dataset) => ({
      dataset,
      enters: true,
      isReported: true,
    }));
    one.service.watermarkCovers.set('sub_1', id(100 + watermarkCovers));
    one.service.members.set('sub_1', [...membersAfter([...before, ...past.slice(0, watermarkCovers)])]);
    await one.follow();
    one.pass(10 * MINUTE_MS);
    await one.follow();
    return membersOf(one, 'parcels', 'permits', 'zoning');
  }
  const all = ['parcels', 'permits', 'zoning'].map((dataset) => ({
    dataset,
    enters: true,
    isReported: true,
  }));

  it('ends with the members of a manifest that reflects all events', async () => {
    await fc.assert(
      fc.asyncProperty(pasts, async (past) => {
        expect(await followedThrough(past, past.length)).toEqual(membersAfter([...all, ...past]));
      }),
      { seed: SEED, numRuns: 25 },
    );
  });

  it('ends with the members of the log, whatever an older manifest says', async () => {
    await fc.assert(
      fc.asyncProperty(pasts, fc.nat(12), async (past, watermarkCovers) => {
        const reported = past.map((one) => ({ ...one, isReported: true }));
        const asOf = Math.min(watermarkCovers, reported.length);
        expect(await followedThrough(reported, asOf)).toEqual(membersAfter([...all, ...reported]));
      }),
      { seed: SEED, numRuns: 25 },
    );
  });
});

describe('F54 F81 a restarted log', () => {
  const RESTARTED = 'The service has restarted the log of the subscription: starting from the manifest.';
  const logNumber = (one: Followed) => one.checkpoint.followed().get('sub_1')?.logNumber;

  /** The table is at version 2, loaded again as event 101 asked; then the numbers begin again. */
  async function restartedLog(...log: Followed['log']): Promise<Followed> {
    const one = await ledOn('permits');
    one.tables.set('parcels', table(2, { reloads: reloadMarks([['sub_1', 101n]]) }));
    one.log = [...log];
    newestIs(one, log.at(-1)?.id ?? id(0));
    one.service.snapshots.set('parcels', entry('parcels', 3));
    return one;
  }

  it('W42 believes numbers below the position after two records ten minutes apart, and then acts as after a 410', async () => {
    const one = await restartedLog(event(2, 'dataset.updated', { version: 3 }));
    expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST]);
    expect(logNumber(one)).toBe(1);
    expect(one.cursor()).toEqual(id(101));
    one.pass(10 * MINUTE_MS);
    expect(await one.follow()).toEqual([
      ...readOn(101),
      ...MANIFEST,
      ...MANIFEST,
      'events evt_2',
      ...MANIFEST,
    ]);
    expect(one.warnings).toEqual([RESTARTED]);
    expect(logNumber(one)).toBe(2);
    expect(one.cursor()).toEqual(id(2));
    expect(one.desired()?.reloads).toMatchObject([{ logNumber: 2, eventNumber: 2n }]);
    expect(owed(one)).toEqual([2n]);
    // The restart is over: reloads that the table satisfied by numbers of the old log count no more.
    one.tables.set(
      'parcels',
      table(3, { reloads: new Map([['sub_1', { logNumber: 2, eventNumber: 2n, createdAt: null }]]) }),
    );
    one.pass(10 * MINUTE_MS);
    // Only the manifest has named the position: its event was not read.
    expect(await one.follow()).toEqual(['events start', 'events evt_2', ...MANIFEST]);
    expect(one.warnings).toHaveLength(1);
    expect(await one.follow()).toEqual([...readOn(2), ...MANIFEST]);
  });

  it('W42 believes a restart at once where the new log passes the position and has another event there', async () => {
    const one = await restartedLog(event(2, 'dataset.added', { version: 3 }));
    one.pass(MINUTE_MS);
    one.onCall = (call) => {
      if (call !== 'events evt_101' || one.log.length > 1) return;
      const createdAt = one.now;
      one.log.push(
        ...[101, 102].map((number) => event(number, 'dataset.updated', { version: 3, createdAt })),
      );
      newestIs(one, id(102));
    };
    expect(await one.follow()).toEqual([
      ...readOn(101),
      ...MANIFEST,
      'events evt_100',
      ...MANIFEST,
      'events evt_102',
      ...MANIFEST,
    ]);
    expect(one.warnings).toEqual([RESTARTED]);
    expect(logNumber(one)).toBe(2);
    expect(one.cursor()).toEqual(id(102));
  });

  it('doubts no restart where a record in between names the newest event that was read, and the log has it', async () => {
    const one = await restartedLog();
    newestIs(one, id(100));
    await one.follow();
    one.pass(9 * MINUTE_MS);
    one.log = [event(101, 'dataset.updated', { version: 2 })];
    newestIs(one, id(101));
    await one.follow();
    one.log = [];
    newestIs(one, id(100));
    one.pass(9 * MINUTE_MS);
    await one.follow();
    expect(logNumber(one)).toBe(1);
    expect(one.warnings).toEqual([]);
  });

  it('W42 believes a restart after a confirmed lack of the event at the position, though the record names its number', async () => {
    const one = await restartedLog(event(100, 'dataset.updated', { version: 3 }));
    newestIs(one, id(101));
    await one.follow();
    one.pass(9 * MINUTE_MS);
    await one.follow();
    expect([logNumber(one), one.cursor()]).toEqual([1, id(101)]);
    one.pass(MINUTE_MS);
    await one.follow();
    expect([logNumber(one), one.cursor()]).toEqual([2, id(101)]);
    expect(one.warnings).toEqual([RESTARTED]);
    // Only the manifest has named the position by now: that nothing is there is no second restart.
    for (let times = 0; times < 3; times += 1) {
      one.pass(10 * MINUTE_MS);
      await one.follow();
    }
    expect(logNumber(one)).toBe(2);
  });

  it.each<readonly [string, (one: Followed) => void]>([
    [
      'owed',
      (one) => {
        one.log.push(event(150, 'dataset.resync_required'));
        one.record = { ...one.record, lastEventId: id(150) };
      },
    ],
    ['satisfied', (one) => one.tables.set('parcels', table(2, { reloads: reloadMarks([['sub_1', 150n]]) }))],
  ])('notices a restart by the number of a reload that is %s', async (_, happen) => {
    const one = await ledOn();
    happen(one);
    await one.follow();
    // Numbers of the new log have passed the position already.
    one.log = [event(120, 'dataset.updated', { version: 3 })];
    newestIs(one, id(120));
    await one.follow();
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(one.warnings).toEqual([RESTARTED]);
    expect(logNumber(one)).toBe(2);
  });

  it('notices a restart once where the record names no newest event any more', async () => {
    const one = await ledOn();
    one.log = [];
    newestIs(one, null);
    await one.follow();
    expect(logNumber(one)).toBe(1);
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(logNumber(one)).toBe(2);
    expect(one.cursor()).toBeNull();
    for (let times = 0; times < 3; times += 1) {
      one.pass(10 * MINUTE_MS);
      await one.follow();
    }
    expect(logNumber(one)).toBe(2);
    expect(one.warnings).toEqual([RESTARTED]);
  });

  it('notices no restart by a record that has never named a newest event', async () => {
    const one = await followed();
    newestIs(one, null);
    for (let times = 0; times < 3; times += 1) {
      await one.follow();
      one.pass(10 * MINUTE_MS);
    }
    expect(logNumber(one)).toBe(1);
  });

  it('notices a restart at once by another event at the position', async () => {
    const one = await ledOn();
    const later = new Date(one.now.getTime() + MINUTE_MS);
    one.log = [
      event(101, 'dataset.updated', { version: 7, createdAt: later }),
      event(102, 'dataset.updated', { version: 8, createdAt: later }),
    ];
    newestIs(one, id(102));
    await one.follow();
    expect(logNumber(one)).toBe(2);
    expect(one.warnings).toEqual([RESTARTED]);
  });

  /** Its record has never named a newest event. */
  async function unstated(): Promise<Followed> {
    const one = await followed();
    newestIs(one, null);
    one.service.watermarkCovers.set('sub_1', id(100));
    await one.follow();
    one.log.push(event(101, 'dataset.updated', { version: 2, createdAt: one.now }));
    await one.follow();
    one.tables.set('parcels', table(2, { snapshotVersion: 1 }));
    one.service.watermarkCovers.set('sub_1', id(1));
    return one;
  }
  const isDoubted = (one: Followed) =>
    one.checkpoint.absences().some(({ subject }) => subject.kind === 'log');

  it('notices a restart by a confirmed lack of the event at the position, while events are kept', async () => {
    const one = await unstated();
    one.log = [event(1, 'dataset.resync_required', { createdAt: one.now })];
    await one.follow();
    expect([isDoubted(one), logNumber(one)]).toEqual([true, 1]);
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect([isDoubted(one), logNumber(one)]).toEqual([false, 2]);
    expect(one.warnings).toEqual([RESTARTED]);
    expect(one.cursor()).toEqual(id(1));
  });

  it('doubts the log while the position cannot be read, and no more once its event is there', async () => {
    const one = await unstated();
    const before = one.log;
    one.log = [];
    await one.follow();
    one.pass(9 * MINUTE_MS);
    one.onCall = (call) => {
      if (call === 'events evt_100' || call === 'events start')
        throw new CursorExpiredError('past retention');
    };
    expect(await one.follow()).toEqual(['events evt_100', 'events start', 'events evt_101', ...MANIFEST]);
    expect(isDoubted(one)).toBe(true);
    one.onCall = (call) => {
      if (call === 'events evt_100') throw new CursorExpiredError('past retention');
    };
    one.pageSize = 1;
    one.log = [event(50, 'dataset.updated'), ...before];
    await one.follow();
    expect(isDoubted(one)).toBe(true);
    one.pageSize = 10;
    await one.follow();
    expect([isDoubted(one), logNumber(one)]).toEqual([false, 1]);
  });

  it('notices a restart of a quiet log when that is read from its start', async () => {
    const one = await unstated();
    const [first] = one.log;
    one.expired.add(100n).add(101n);
    one.log = [event(1, 'dataset.updated', { version: 1, createdAt: one.now })];
    one.service.watermarkCovers.delete('sub_1');
    await one.follow();
    expect([one.isExpiredCursorReplay(), isDoubted(one), logNumber(one)]).toEqual([true, true, 1]);
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect([logNumber(one), one.cursor()]).toEqual([2, id(1)]);
    expect(first?.id).toEqual(id(100));
  });

  it('notices a restart by later events below an unknown position that is past retention', async () => {
    const one = await unstated();
    one.pass(89 * DAY_MS);
    one.log = [event(1, 'dataset.resync_required', { createdAt: one.now })];
    await one.follow();
    expect(one.warnings).toEqual([RESTARTED]);
    expect(logNumber(one)).toBe(2);
  });

  it('notices no restart where the event at the position is past retention or states no time', async () => {
    for (const log of [[], [event(101, 'dataset.updated', { createdAt: null })]]) {
      const one = await ledOn();
      one.log = log;
      await one.follow();
      expect(logNumber(one)).toBe(1);
    }
  });

  it('voids reloads owed under numbers of the old log, and owes those of the new log', async () => {
    const one = await ledOn();
    one.log.push(event(150, 'dataset.resync_required'));
    newestIs(one, id(150));
    await one.follow();
    expect(owed(one)).toEqual([150n]);
    one.log = [event(1, 'dataset.resync_required', { createdAt: one.now })];
    newestIs(one, id(1));
    await one.follow();
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(one.desired()?.reloads).toMatchObject([{ logNumber: 2, eventNumber: 1n }]);
  });

  it('M22 uses nothing of a manifest of the old log: no entry of it, and no exception from a reload', async () => {
    const one = await restartedLog(event(2, 'dataset.updated', { version: 3 }));
    one.tables.set('parcels', table(3));
    // The manifest is that of the old log still.
    one.service.watermarkCovers.set('sub_1', id(101));
    await one.follow();
    one.pass(10 * MINUTE_MS);
    expect((await one.listedEntries()).of('parcels')).toBeNull();
    expect(logNumber(one)).toBe(2);
    expect(owed(one)).toEqual([2n]);
    expect(membersOf(one, 'parcels', 'permits')).toEqual(['parcels', 'permits']);
    expect(one.checkpoint.absences()).toEqual([]);
    one.service.watermarkCovers.set('sub_1', id(2));
    expect((await one.listedEntries()).of('parcels')).toMatchObject({
      logNumber: 2,
      watermark: { through: 2n },
    });
  });
});

describe('events of a page', () => {
  it('F29 warns once a page of unreadable events, refreshes the metadata of their datasets, and reads on', async () => {
    const one = await ledOn();
    one.log.push(
      unreadable({ id: id(102) }),
      unreadable({ id: null }),
      event(103, 'dataset.updated', { version: 3 }),
    );
    await one.follow();
    expect(one.cursor()).toEqual(id(103));
    expect(announced(one)).toBe(3);
    expect(one.desired()).toMatchObject({ refreshesRequested: 2 });
    expect(one.warnings).toEqual([expect.stringContaining('could not be read')]);
  });

  it('F36 makes one desired state of all events of a page about one dataset', async () => {
    const one = await ledOn();
    one.pageSize = 500;
    for (let number = 102; number <= 601; number++) {
      one.log.push(event(number, 'dataset.updated', { version: number }));
    }
    expect(await one.follow()).toEqual([...readOn(101), ...MANIFEST]);
    expect(announced(one)).toBe(601);
    expect(one.desired()).toMatchObject({ refreshesRequested: 0 });
  });

  it.each([
    ['without an event', []],
    ['of events that were read before', [event(101, 'dataset.updated')]],
  ])('F25 ends the catch-up at a page %s that promises more', async (_, events) => {
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

  it('M12 reads the log from its start, once, where each dataset has a manifest', async () => {
    const one = await byDataset('permits');
    expect(await one.follow()).toEqual(['events start', 'entry parcels', 'entry permits']);
    expect(one.cursor()).toEqual(id(100));
    expect(one.desired()).toMatchObject({ refreshesRequested: 0, reloads: [] });
    expect(await one.follow()).toEqual([...readOn(100), 'entry parcels', 'entry permits']);
  });

  it('F26 loads every member again after a lost position whose table is not its entry', async () => {
    const one = await byDataset('permits');
    await one.follow();
    one.tables.set('parcels', table(1, { snapshotVersion: 0, reloads: reloadMarks([['sub_1', 100n]]) }));
    one.tables.set('permits', table(1, { datasetId: 'permits' }));
    one.keptFrom = 150n;
    one.log = [event(150, 'dataset.updated', { version: 1 })];
    expect(await one.follow()).toEqual([
      ...readOn(100),
      'entry parcels',
      'entry permits',
      'events start',
      'events start',
      'entry parcels',
      'entry permits',
    ]);
    expect(owed(one, 'parcels')).toEqual([150n]);
    expect(owed(one, 'permits')).toEqual([]);
    expect(await one.follow()).toEqual([...readOn(150), 'entry parcels', 'entry permits']);
  });

  it('F26 asks for one reload after a quiet log lost its position, however long it stays quiet', async () => {
    const one = await byDataset();
    await one.follow();
    one.tables.set('parcels', table(1, { snapshotVersion: 0 }));
    one.keptFrom = 150n;
    await one.follow();
    const asked = one.desired();
    expect(owed(one)).toEqual([100n]);
    one.pass(20 * DAY_MS);
    expect(await one.follow()).toEqual(['events start', 'entry parcels']);
    // Its list of versions is read once a day.
    expect(one.desired()).toEqual({ ...asked, refreshesRequested: (asked?.refreshesRequested ?? 0) + 1 });
  });

  it('F26 dates the reload by the newest event, or by the oldest time that the service keeps', async () => {
    for (const log of [
      [],
      [event(150, 'dataset.updated', { version: 1, createdAt: new Date('2026-02-20') })],
    ]) {
      const one = await byDataset();
      await one.follow();
      one.tables.set('parcels', table(1, { snapshotVersion: 0 }));
      one.keptFrom = 150n;
      one.log = log;
      await one.follow();
      const createdAt = log[0]?.createdAt ?? new Date(one.now.getTime() - 90 * DAY_MS);
      expect(one.desired()?.reloads).toMatchObject([{ createdAt }]);
    }
  });

  it('F29 loads a dataset again whose entry cannot be read at the time', async () => {
    const one = await byDataset();
    await one.follow();
    one.tables.set('parcels', table(1));
    one.keptFrom = 150n;
    one.onCall = (call, nth) => {
      if (call === 'entry parcels' && nth === 1) throw refusal({ kind: 'dataset', datasetId: 'parcels' });
    };
    await one.follow();
    expect(owed(one)).toEqual([100n]);
  });

  it('W23 takes a dataset that the subscription record lists and no desired state names', async () => {
    const one = await byDataset();
    await one.follow();
    one.service.snapshots.set('zoning', entry('zoning', 4));
    one.record = { ...one.record, datasetIds: ['parcels', 'zoning'] };
    await one.follow();
    expect(membersOf(one, 'zoning')).toEqual(['zoning']);
  });

  it('M14 warns of a subscription that counts other datasets than it lists', async () => {
    const one = await byDataset();
    one.record = { ...one.record, datasetCount: 1 };
    await one.follow();
    expect(one.warnings).toEqual([]);
    one.record = { ...one.record, datasetCount: 2 };
    await one.follow();
    expect(one.warnings).toEqual([expect.stringContaining('The subscription is incomplete')]);
  });

  it('M13 adds members by the log, and drops those that it removes after the record was read', async () => {
    const one = await byDataset('permits');
    one.service.snapshots.set('zoning', entry('zoning', 1));
    one.onCall = (call, nth) => {
      if (call !== 'events start' || nth > 1) return;
      one.log.push(
        event(101, 'dataset.added', { datasetId: 'zoning', version: 1 }),
        event(102, 'dataset.removed', { datasetId: 'permits' }),
      );
    };
    await one.follow();
    expect(membersOf(one, 'parcels', 'permits', 'zoning')).toEqual(['parcels', 'zoning']);
    expect(one.calls).not.toContain('entry permits');
  });

  it('F51 drops a member that two complete records lack ten minutes apart, before and after a 410', async () => {
    for (const keptFrom of [0n, 150n]) {
      const one = await byDataset('permits');
      one.record = { ...one.record, datasetCount: 2 };
      await one.follow();
      one.keptFrom = keptFrom;
      one.record = { ...one.record, datasetIds: ['parcels'], datasetCount: 1 };
      await expectDropAtSecondReading(one);
    }
  });

  it('F51 keeps a member that a record lacks whose count differs from its list', async () => {
    const one = await byDataset('permits');
    await one.follow();
    one.record = { ...one.record, datasetIds: ['parcels'], datasetCount: 2 };
    for (let times = 0; times < 3; times += 1) {
      await one.follow();
      one.pass(10 * MINUTE_MS);
    }
    expect(membersOf(one, 'permits')).toEqual(['permits']);
    expect(one.checkpoint.absences()).toEqual([]);
  });

  it('F51 keeps a member whose event is newer than the newest that the record names', async () => {
    const one = await byDataset();
    one.record = { ...one.record, datasetCount: 1 };
    await one.follow();
    one.service.snapshots.set('zoning', entry('zoning', 1));
    one.onCall = (call) => {
      if (call !== 'events evt_100' || one.log.length > 1) return;
      one.log.push(event(101, 'dataset.added', { datasetId: 'zoning', version: 1 }));
    };
    await one.follow();
    expect(membersOf(one, 'zoning')).toEqual(['zoning']);
    expect(one.checkpoint.absences().filter(({ subject }) => subject.kind === 'member')).toEqual([]);
  });

  it('F54 distinguishes a restarted log from one that has grown since the record was read', async () => {
    const one = await byDataset();
    await one.follow();
    for (let number = 101; number <= 104; number += 1) {
      // Each time an event comes between the record and the log.
      one.onCall = (call) => {
        if (call === `events evt_${number - 1}` && one.log.length < number - 99) {
          one.log.push(event(number, 'dataset.updated', { version: 1 }));
        }
      };
      one.pass(10 * MINUTE_MS);
      await one.follow();
    }
    expect(one.cursor()).toEqual(id(104));
    expect(one.warnings).toEqual([]);
    one.onCall = () => {};
    one.log = [event(1, 'dataset.updated', { version: 1 })];
    newestIs(one, id(1));
    await one.follow();
    one.pass(10 * MINUTE_MS);
    await one.follow();
    expect(one.warnings).toEqual([expect.stringContaining('has restarted the log of the subscription')]);
  });
});
