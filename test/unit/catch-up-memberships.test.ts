/** Datasets that move between subscriptions, logs that restart, events that are lost: what one catch-up after another does. */

import { describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { exitCodeOfResult } from '../../src/cli/render/summary.ts';
import { present } from '../../src/lib/assert.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import type { EventType, FeedEvent } from '../../src/model/event.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import type { CatchUpResult } from '../../src/sync/result.ts';
import {
  calm,
  elapse,
  kinds,
  smallWorld,
  subscribe,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, id, refusal, subscription, version } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;

interface Announcement extends Partial<Pick<FeedEvent, 'datasetId' | 'version' | 'reason'>> {
  readonly sub?: 'sub_1' | 'sub_2';
}

/** Something happens a minute later, and the log of a subscription reports it. */
function happens(world: World, type: EventType, { sub = 'sub_1', ...changed }: Announcement = {}): FeedEvent {
  elapse(world, MINUTE_MS);
  const log = world.service.logs.get(sub) ?? [];
  const number = (log.at(-1)?.id?.number ?? 100n) + 1n;
  const reported = event(number, type, { ...changed, createdAt: world.parts.clock.now() });
  log.push(reported);
  return reported;
}

/** The manifests list these datasets, and reflect everything in the logs. */
function manifestsList(world: World, listed: Readonly<Record<string, readonly string[]>>): void {
  for (const [sub, datasetIds] of Object.entries(listed)) {
    world.service.members.set(sub, [...datasetIds]);
    world.service.watermarkCovers.set(sub, world.service.logs.get(sub)?.at(-1)?.id ?? id(100));
  }
}

/** `sub_1` and `sub_2` contain these, and all is mirrored. In `order` they are listed. */
async function two(
  listed: Readonly<Record<'sub_1' | 'sub_2', readonly string[]>>,
  order: readonly string[] = ['sub_1', 'sub_2'],
): Promise<World> {
  const world = await smallWorld();
  for (const sub of ['sub_1', 'sub_2'] as const) subscribe(world, subscription({ id: sub }), ...listed[sub]);
  world.service.subscriptions.sort((left, right) => order.indexOf(left.id) - order.indexOf(right.id));
  expect(exitCodeOfResult(await world.catchUp())).toBe(EXIT_CODES.caughtUp);
  calm(world);
  return world;
}

/** Other content under the same version. */
function changeContent(world: World, datasetId = 'parcels', content = 'anew'): void {
  world.service.snapshots.set(datasetId, entry(datasetId, 1, content));
}

function hasContent(world: World, datasetId = 'parcels', content = 'anew'): boolean {
  return world.tables.get(datasetId)?.snapshotDigest === snapshotDigest(entry(datasetId, 1, content).files);
}

async function catchUpTo(world: World, exitCode: number): Promise<CatchUpResult> {
  const result = await world.catchUp();
  expect(result.incidents).toEqual([]);
  expect(exitCodeOfResult(result)).toBe(exitCode);
  return result;
}

const ORDERS = [
  ['sub_1 first', ['sub_1', 'sub_2']],
  ['sub_2 first', ['sub_2', 'sub_1']],
] as const;

describe.each(ORDERS)('two subscriptions, listed with %s', (_, order) => {
  it('F46 waits no more for a version that a subscription announced before it dropped the dataset', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: ['parcels'] }, order);
    for (const sub of ['sub_1', 'sub_2'] as const) {
      happens(world, 'dataset.updated', { sub, version: 5 });
      happens(world, 'dataset.removed', { sub });
    }
    happens(world, 'dataset.added', { version: 1 });
    const publishedAt = world.parts.clock.now();
    world.service.versions.set('parcels', [version('parcels', 1, { publishedAt })]);
    changeContent(world);
    manifestsList(world, { sub_1: ['parcels'], sub_2: [] });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    expect(versions(world)).toEqual({ parcels: 1 });
    expect(hasContent(world)).toBe(true);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'current' });
    expect(world.retired).toEqual([]);
  });

  it('F82 owes a reload of a subscription that the dataset leaves, until another manifest reflects it', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] }, order);
    happens(world, 'dataset.resync_required');
    happens(world, 'dataset.added', { sub: 'sub_2', version: 1 });
    happens(world, 'dataset.removed');
    // The manifest of the other lists what was before.
    world.service.members.set('sub_1', []);
    world.service.members.set('sub_2', ['parcels']);
    expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toEqual({ parcels: 'waiting' });
    changeContent(world);
    manifestsList(world, { sub_1: [], sub_2: ['parcels'] });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    expect(hasContent(world)).toBe(true);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'current' });
  });

  it('F82 loads content that changed between leaving one subscription and joining another', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] }, order);
    happens(world, 'dataset.removed');
    changeContent(world);
    happens(world, 'dataset.added', { sub: 'sub_2', version: 1 });
    manifestsList(world, { sub_1: [], sub_2: ['parcels'] });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    expect(hasContent(world)).toBe(true);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'current' });
    expect(world.retired).toEqual([]);
  });

  it('does not load a dataset again that joins another subscription before it leaves the first', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] }, order);
    happens(world, 'dataset.added', { sub: 'sub_2', version: 1 });
    happens(world, 'dataset.removed');
    manifestsList(world, { sub_1: [], sub_2: ['parcels'] });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'current' });
    expect(world.calls).not.toContain('download parcels');
  });

  it('F49 never retires a dataset that joins a subscription after its log was read, and then leaves the other', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: ['permits'] }, order);
    const [, last = ''] = order;
    const [stays, leaves] = last === 'sub_1' ? (['sub_2', 'sub_1'] as const) : (['sub_1', 'sub_2'] as const);
    const datasetId = leaves === 'sub_1' ? 'parcels' : 'permits';
    const other = leaves === 'sub_1' ? 'permits' : 'parcels';
    world.intervene = (call) => {
      if (call !== `events ${leaves}` || world.service.logs.get(leaves)?.length !== 0) return;
      happens(world, 'dataset.added', { sub: stays, datasetId, version: 1 });
      happens(world, 'dataset.removed', { sub: leaves, datasetId });
      manifestsList(world, { [stays]: [datasetId, other], [leaves]: [] });
    };
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({
      parcels: 'current',
      permits: 'current',
    });
    expect(world.retired).toEqual([]);
    expect(world.calls.filter((call) => call === `events ${stays}`).length).toBeGreaterThan(1);
  });

  it('F84 never retires a dataset that joins by the record alone, without an event, and leaves the other', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] }, order);
    world.service.subscriptions = world.service.subscriptions.map((record) =>
      record.id === 'sub_2' ? { ...record, datasetIds: ['parcels'] } : record,
    );
    happens(world, 'dataset.removed');
    manifestsList(world, { sub_1: [] });
    for (let times = 0; times < 3; times += 1) {
      expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toEqual({ parcels: 'waiting' });
      elapse(world, 20 * MINUTE_MS);
    }
    manifestsList(world, { sub_2: ['parcels'] });
    await catchUpTo(world, EXIT_CODES.caughtUp);
    expect(versions(world)).toEqual({ parcels: 1 });
    expect(world.retired).toEqual([]);
  });
});

describe('F84 a record and a manifest', () => {
  /** The manifest lists `parcels` still, and is from before the drop; so is the record, as long as it is `old`. */
  async function droppedBeside(): Promise<{ world: World; record: { isOld: boolean } }> {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    const [own = subscription(), other = subscription()] = world.service.subscriptions;
    const record = { isOld: true };
    const reported = happens(world, 'dataset.removed');
    Object.assign(world.parts.feed, {
      subscriptions: async () => ({
        subscriptions: [
          record.isOld ? { ...own, datasetIds: ['parcels'] } : { ...own, lastEventId: reported.id },
          other,
        ],
        readAt: world.parts.clock.now(),
      }),
    });
    return { world, record };
  }

  it('ignores a manifest from before the drop of a dataset, and retires the dataset', async () => {
    const { world, record } = await droppedBeside();
    record.isOld = false;
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'retired' });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({});
  });

  it('F54 waits while the record is older than the log, which may have restarted', async () => {
    const { world, record } = await droppedBeside();
    for (let times = 0; times < 3; times += 1) {
      expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toEqual({ parcels: 'waiting' });
      elapse(world, 2 * MINUTE_MS);
    }
    record.isOld = false;
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'retired' });
  });
});

describe('the drop of a dataset', () => {
  it('F49 reads everything once more after a drop in a later round, because the dataset may have come back', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    happens(world, 'dataset.removed');
    manifestsList(world, { sub_1: [] });
    let rounds = 0;
    world.intervene = (call) => {
      if (call === 'discover') rounds += 1;
      if (rounds !== 2 || !call.startsWith('events sub_2')) return;
      // It joined this one without an event, and moves back when the other log was read already.
      rounds = 3;
      happens(world, 'dataset.removed', { sub: 'sub_2' });
      happens(world, 'dataset.added', { version: 1 });
      manifestsList(world, { sub_1: ['parcels'], sub_2: [] });
    };
    await world.catchUp();
    expect(world.retired).toEqual([]);
    expect(world.parts.checkpoint.desired('parcels')?.members.has('sub_1')).toBe(true);
  });

  it('leaves a drop that the last of three rounds reads to the next catch-up', async () => {
    const datasetIds = ['a', 'b', 'c', 'd', 'e'];
    const world = await two({ sub_1: datasetIds, sub_2: ['zoning'] });
    let rounds = 0;
    world.intervene = (call) => {
      if (call !== 'discover') return;
      happens(world, 'dataset.removed', { datasetId: datasetIds[rounds] ?? '' });
      rounds += 1;
      manifestsList(world, { sub_1: datasetIds.slice(rounds) });
    };
    const result = await world.catchUp();
    expect(kinds(result)).toMatchObject({ a: 'waiting', b: 'waiting', c: 'waiting', d: 'current' });
    expect(rounds).toBe(3);
    calm(world);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toMatchObject({
      a: 'retired',
      b: 'retired',
      c: 'retired',
      d: 'current',
    });
  });

  it('reads everything once more after a drop, and not where nothing left', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: ['permits'] });
    happens(world, 'dataset.removed');
    manifestsList(world, { sub_1: [] });
    await world.catchUp();
    expect(world.calls.filter((call) => call === 'manifest sub_2')).toHaveLength(2);
    calm(world);
    await world.catchUp();
    expect(world.calls.filter((call) => call === 'manifest sub_2')).toHaveLength(1);
  });
});

describe('F51 F55 a member that is gone without an event', () => {
  it('retires a member ten minutes after a manifest first lacked it, and changes nothing until then', async () => {
    const world = await two({ sub_1: ['parcels', 'permits'], sub_2: [] });
    world.service.members.set('sub_1', ['permits']);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({
      parcels: 'current',
      permits: 'current',
    });
    elapse(world, 10 * MINUTE_MS - 1);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({
      parcels: 'current',
      permits: 'current',
    });
    elapse(world, 1);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({
      parcels: 'retired',
      permits: 'current',
    });
    expect(world.retired).toMatchObject([{ reason: 'left subscription sub_1: not listed any more' }]);
  });

  it('keeps a member that is listed again, without a reload', async () => {
    const world = await two({ sub_1: ['parcels', 'permits'], sub_2: [] });
    for (let times = 0; times < 3; times += 1) {
      world.service.members.set('sub_1', ['permits']);
      await catchUpTo(world, EXIT_CODES.caughtUp);
      elapse(world, 9 * MINUTE_MS);
      world.service.members.set('sub_1', ['parcels', 'permits']);
      await catchUpTo(world, EXIT_CODES.caughtUp);
      elapse(world, 9 * MINUTE_MS);
    }
    expect(world.retired).toEqual([]);
    expect(world.calls).not.toContain('download parcels');
  });

  it('F82 reloads a kept table whose dataset comes back changed without an event', async () => {
    const world = await two({ sub_1: ['parcels', 'permits'], sub_2: [] });
    Object.assign(world.parts.choices, { removedDatasets: 'keep' });
    world.service.members.set('sub_1', ['permits']);
    await world.catchUp();
    elapse(world, 10 * MINUTE_MS);
    // Another subscription cannot be read, so it is not retired yet.
    throwAt(world, /^events sub_2/, new ServiceUnavailableError('unreachable'));
    await world.catchUp();
    expect(world.retired).toEqual([]);
    calm(world);
    elapse(world, MINUTE_MS);
    changeContent(world);
    world.service.members.set('sub_1', ['parcels', 'permits']);
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'current' });
    expect(hasContent(world)).toBe(true);
  });

  it.each([
    ['where the service says that it is not found', true],
    ['where the service still has it', false],
  ])('retires a member that the record lacks, with a manifest for each dataset, %s', async (_, isGone) => {
    const world = await smallWorld();
    world.service.shape = 'dataset';
    const record = (...datasetIds: string[]) => subscription({ datasetIds, datasetCount: datasetIds.length });
    subscribe(world, record('parcels', 'permits'), 'parcels', 'permits');
    await catchUpTo(world, EXIT_CODES.caughtUp);
    world.service.subscriptions = [record('permits')];
    if (isGone) throwAt(world, /^entry parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    await catchUpTo(world, isGone ? EXIT_CODES.operatorMustAct : EXIT_CODES.caughtUp);
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({
      parcels: 'retired',
      permits: 'current',
    });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ permits: 'current' });
  });
});

describe('F56 the blast radius of retirements', () => {
  const MANY = Array.from({ length: 20 }, (_, index) => `dataset-${String(index).padStart(2, '0')}`);

  async function leaveInTurn(apartMs: number): Promise<readonly number[]> {
    const world = await two({ sub_1: MANY, sub_2: [] });
    const left: number[] = [];
    for (const until of [9, 18]) {
      for (const datasetId of MANY.slice(until - 9, until)) happens(world, 'dataset.removed', { datasetId });
      manifestsList(world, { sub_1: MANY.slice(until) });
      await world.catchUp();
      left.push(world.tables.size);
      elapse(world, apartMs);
    }
    return left;
  }

  it('suspends retirements of nine tables at a time within a day from the tenth on', async () => {
    expect(await leaveInTurn(60 * MINUTE_MS)).toEqual([11, 11]);
  });

  it('retires nine tables at a time that leave more than a day apart', async () => {
    expect(await leaveInTurn(DAY_MS)).toEqual([11, 2]);
  });

  it('retires nothing by a manifest that is empty twice within seconds', async () => {
    const world = await two({ sub_1: MANY.slice(0, 9), sub_2: [] });
    manifestsList(world, { sub_1: [] });
    for (let times = 0; times < 3; times += 1) {
      await catchUpTo(world, EXIT_CODES.caughtUp);
      elapse(world, 5_000);
    }
    expect(world.tables.size).toBe(9);
  });
});

describe('F54 F81 a log restart', () => {
  /** The numbers of `sub_1` begin again, and its manifest is of the new log. */
  function restartLog(world: World): void {
    world.service.logs.set('sub_1', []);
    const at = world.service.subscriptions.findIndex(({ id: one }) => one === 'sub_1');
    world.service.subscriptions[at] = {
      ...present(world.service.subscriptions[at], 'it is listed'),
      lastEventId: id(0),
    };
    world.service.watermarkCovers.set('sub_1', id(0));
  }

  function publishAnew(world: World, next: number): void {
    const log = present(world.service.logs.get('sub_1'), 'it has a log');
    elapse(world, MINUTE_MS);
    const reported = event(log.length + 1, 'dataset.updated', {
      version: next,
      createdAt: world.parts.clock.now(),
    });
    log.push(reported);
    const listed = world.service.versions.get('parcels') ?? [version('parcels', 1)];
    world.service.versions.set('parcels', [version('parcels', next), ...listed]);
    world.service.snapshots.set('parcels', entry('parcels', next));
    world.service.watermarkCovers.set('sub_1', reported.id);
  }

  it('reads a restarted log from its start within ten minutes, and applies what it announces', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    restartLog(world);
    publishAnew(world, 2);
    publishAnew(world, 3);
    await world.catchUp();
    elapse(world, 10 * MINUTE_MS);
    await catchUpTo(world, EXIT_CODES.caughtUp);
    expect(versions(world)).toEqual({ parcels: 3 });
    expect(world.checkpoint.followed().get('sub_1')).toMatchObject({ logNumber: 2, cursor: id(2) });
    publishAnew(world, 4);
    await catchUpTo(world, EXIT_CODES.caughtUp);
    expect(versions(world)).toEqual({ parcels: 4 });
  });

  it('F81 leaves nothing waiting forever that was owed under a number of the old log', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    // Without a digest only the number shows that it is other content.
    world.service.snapshots.set('parcels', entry('parcels', 1, null));
    happens(world, 'dataset.resync_required');
    expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toEqual({ parcels: 'waiting' });
    restartLog(world);
    expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toEqual({ parcels: 'waiting' });
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    calm(world);
    elapse(world, 10 * MINUTE_MS);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'current' });
    expect(world.calls).not.toContain('download parcels');
  });

  it('F81 satisfies a reload of the new log below a number that the table has satisfied', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    happens(world, 'dataset.resync_required');
    manifestsList(world, { sub_1: ['parcels'] });
    await catchUpTo(world, EXIT_CODES.caughtUp);
    restartLog(world);
    await world.catchUp();
    elapse(world, 10 * MINUTE_MS);
    await catchUpTo(world, EXIT_CODES.caughtUp);
    changeContent(world);
    const reported = event(1, 'dataset.resync_required', { createdAt: world.parts.clock.now() });
    world.service.logs.set('sub_1', [reported]);
    world.service.watermarkCovers.set('sub_1', reported.id);
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    expect(hasContent(world)).toBe(true);
  });

  it('F81 takes nothing from a frozen manifest of the old log, however high its number is', async () => {
    const world = await two({ sub_1: ['parcels'], sub_2: [] });
    happens(world, 'dataset.updated', { version: 1 });
    manifestsList(world, { sub_1: ['parcels'] });
    await catchUpTo(world, EXIT_CODES.caughtUp);
    // Frozen as it is now: it says that it reflects event 101.
    restartLog(world);
    world.service.watermarkCovers.set('sub_1', id(101));
    const reported = event(1, 'dataset.resync_required', { createdAt: world.parts.clock.now() });
    world.service.logs.set('sub_1', [reported]);
    for (let times = 0; times < 3; times += 1) {
      elapse(world, 10 * MINUTE_MS);
      await world.catchUp();
    }
    expect(world.calls).not.toContain('download parcels');
    expect(exitCodeOfResult(await world.catchUp())).toBe(EXIT_CODES.tryAgainLater);
    changeContent(world);
    world.service.watermarkCovers.set('sub_1', id(1));
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toEqual({ parcels: 'loaded' });
    expect(hasContent(world)).toBe(true);
  });
});

describe('ninety days without an event', () => {
  async function quiet(lastEventId: 'stated' | 'never stated'): Promise<World> {
    const world = await smallWorld();
    const record = subscription(lastEventId === 'stated' ? {} : { lastEventId: null });
    subscribe(world, record, 'parcels', 'permits');
    world.service.logs.set('sub_1', [event(100, 'dataset.updated', { version: 1 })]);
    await catchUpTo(world, EXIT_CODES.caughtUp);
    elapse(world, 91 * DAY_MS);
    world.service.keepsEventsFrom = 101n;
    return world;
  }

  it.each(['stated', 'never stated'] as const)(
    'F83 reads the manifest once where the newest event is %s, and loses no reload before or after',
    async (isStated) => {
      const world = await quiet(isStated);
      // What asked for this is past retention.
      changeContent(world);
      await catchUpTo(world, EXIT_CODES.caughtUp);
      expect(hasContent(world)).toBe(true);
      calm(world);
      await catchUpTo(world, EXIT_CODES.caughtUp);
      expect(world.calls.filter((call) => call === 'manifest sub_1')).toHaveLength(1);
      changeContent(world, 'parcels', 'once more');
      happens(world, 'dataset.resync_required');
      manifestsList(world, { sub_1: ['parcels', 'permits'] });
      await catchUpTo(world, EXIT_CODES.caughtUp);
      expect(hasContent(world, 'parcels', 'once more')).toBe(true);
    },
  );

  it('F87 loads a dataset whose entry that manifest lacked, once a later one names it', async () => {
    const world = await quiet('stated');
    changeContent(world, 'permits');
    world.service.members.set('sub_1', ['parcels']);
    expect(kinds(await catchUpTo(world, EXIT_CODES.tryAgainLater))).toMatchObject({ permits: 'waiting' });
    happens(world, 'dataset.resync_required', { datasetId: 'permits' });
    manifestsList(world, { sub_1: ['parcels', 'permits'] });
    expect(kinds(await catchUpTo(world, EXIT_CODES.caughtUp))).toMatchObject({ permits: 'loaded' });
    expect(hasContent(world, 'permits')).toBe(true);
    expect(world.retired).toEqual([]);
  });
});
