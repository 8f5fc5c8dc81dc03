/** Stored progress beside the tables of the mirror: written by itself, and in the write session of a commit (F01, F10). */

import { existsSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { replaceProgress } from '../../src/destination/catalog/progress.ts';
import type { JobQueue, JobResult, StoredProgress, ValidatedJob } from '../../src/destination/destination.ts';
import { statementsOf } from '../../src/destination/duckdb/catalog/rows.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { silentLog } from '../../src/lib/log.ts';
import { BusyError, StorageError } from '../../src/model/errors.ts';
import { type Child, startChild } from '../support/child.ts';
import { queueOf } from '../support/commit-all.ts';
import { compactAt } from '../support/compacting.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { inMirror, manualClock, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { leftAtEffects } from '../support/killed-mirror.ts';
import { type MirrorAtWork, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { PEOPLE } from '../support/people.ts';

const ENROLMENT = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1'],
  forgottenSubscriptionIds: [],
  datasetIds: [],
};

const ROW_GROUP_ROWS = 122_880;

const NONE: StoredProgress = { subscriptions: [], members: [], owed: [] };

/** Progress in the order in which it is read. */
const PROGRESS: StoredProgress = {
  subscriptions: [
    {
      subscriptionId: 'sub_1',
      name: 'Travis',
      logNumber: 1,
      eventNumber: 12n,
      eventCreatedAt: new Date('2026-01-02T03:04:05.678Z'),
      positionAt: new Date('2026-01-02T03:04:06Z'),
      statesLastEvent: true,
    },
    {
      subscriptionId: 'sub_2',
      name: null,
      logNumber: 3,
      eventNumber: null,
      eventCreatedAt: null,
      positionAt: new Date('2026-01-02T03:04:07Z'),
      statesLastEvent: false,
    },
  ],
  members: [
    { subscriptionId: 'sub_1', datasetId: 'parcels', addedEvent: 4n, droppedEvent: null },
    { subscriptionId: 'sub_1', datasetId: 'roads', addedEvent: null, droppedEvent: null },
    { subscriptionId: 'sub_2', datasetId: 'parcels', addedEvent: 2n ** 62n, droppedEvent: 2n ** 63n - 1n },
  ],
  owed: [
    {
      datasetId: 'parcels',
      subscriptionId: 'sub_1',
      logNumber: 1,
      eventNumber: 9n,
      createdAt: new Date('2026-01-02T03:04:05.678Z'),
    },
    { datasetId: 'parcels', subscriptionId: 'sub_1', logNumber: 1, eventNumber: 11n, createdAt: null },
    { datasetId: 'roads', subscriptionId: 'sub_2', logNumber: 3, eventNumber: 1n, createdAt: null },
  ],
};

function at(eventNumber: bigint): StoredProgress {
  const [first, ...others] = PROGRESS.subscriptions;
  if (first === undefined) throw new Error('the progress has a subscription');
  return { ...PROGRESS, subscriptions: [{ ...first, eventNumber }, ...others] };
}

/** Returns a list that receives the effects that begin from now on, in order. */
function effects(): string[] {
  const started: string[] = [];
  observeDurableEffects((name, timestamp) => {
    if (timestamp === 'before') started.push(name.replace('destination.', ''));
  });
  onTestFinished(() => observeDurableEffects(() => {}));
  return started;
}

async function holdMirror(path: string): Promise<Child> {
  const child = startChild('duckdb-holder-child.ts', path);
  onTestFinished(() => child.kill());
  expect(await child.nextLine()).toBe('held');
  return child;
}

/** A queue of these write jobs, which gives `progress` at the end. */
function recordedQueue(jobs: readonly ValidatedJob[], progress: StoredProgress | null) {
  const calls: string[] = [];
  const outcomes: JobResult[] = [];
  const queue: JobQueue = {
    ...queueOf(jobs),
    report(job, outcome) {
      calls.push(`${job.job.datasetId} ${outcome.kind}`);
      outcomes.push(outcome);
    },
    async progressToStore() {
      calls.push('asked');
      return progress;
    },
  };
  return { queue, calls };
}

async function preparedLoad({ mirror, published }: MirrorAtWork, datasetId: string): Promise<ValidatedJob> {
  const course = published(firstContent(PEOPLE, [[1, 'Ann']]), datasetId);
  return await mirror.validate(await course.snapshot(course.newest(), null));
}

async function progressOf({ mirror }: Pick<MirrorAtWork, 'mirror'>): Promise<StoredProgress | null> {
  return (await mirror.has()).progress;
}

describe('stored progress', () => {
  it('reads stored progress back as it was written, and replaces it as a whole', async () => {
    const world = await mirrorAtWork();
    expect(await progressOf(world)).toBeNull();
    expect(await world.mirror.storeProgress(PROGRESS, 'wait')).toBe(true);
    expect(await progressOf(world)).toEqual(PROGRESS);
    const [first] = PROGRESS.members;
    const other = {
      ...at(13n),
      members: first === undefined ? [] : [{ ...first, droppedEvent: 13n }],
      owed: [],
    };
    expect(await world.mirror.storeProgress(other, 'if-free')).toBe(true);
    expect(await progressOf(world)).toEqual(other);
    const [subscription] = PROGRESS.subscriptions;
    if (subscription === undefined) throw new Error('the progress has a subscription');
    const timestamp = new Date('2026-01-03T00:00:00Z');
    for (const changed of [
      { eventCreatedAt: null },
      { eventCreatedAt: timestamp },
      { positionAt: timestamp },
      { statesLastEvent: false },
    ]) {
      const progress = { ...PROGRESS, subscriptions: [{ ...subscription, ...changed }] };
      expect(await world.mirror.storeProgress(progress, 'wait')).toBe(true);
      expect(await progressOf(world)).toEqual(progress);
    }
    expect(await world.mirror.storeProgress(NONE, 'wait')).toBe(true);
    expect(await progressOf(world)).toBeNull();
  });

  it('does not open the mirror for writing where the stored progress does not differ', async () => {
    const world = await mirrorAtWork();
    await world.mirror.storeProgress(PROGRESS, 'wait');
    const before = statSync(world.path).mtimeMs;
    const started = effects();
    const inAnotherOrder = {
      subscriptions: PROGRESS.subscriptions.toReversed(),
      members: PROGRESS.members.toReversed(),
      owed: PROGRESS.owed.toReversed(),
    };
    for (const same of [PROGRESS, inAnotherOrder]) {
      expect(await world.mirror.storeProgress(same, 'wait')).toBe(true);
      expect(await world.mirror.storeProgress(same, 'if-free')).toBe(true);
    }
    expect(started).toEqual([]);
    expect(statSync(world.path).mtimeMs).toBe(before);
  });

  it('stores no progress where there is no mirror, and creates none', async () => {
    const folder = await temporaryFolder();
    const mirror = await mirrorIn(folder.path);
    expect(await mirror.storeProgress(PROGRESS, 'wait')).toBe(false);
    expect(existsSync(join(folder.path, 'mirror.duckdb'))).toBe(false);
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });

  it('leaves out ids that no database can store, and finds ids that are no Unicode equal when stored again', async () => {
    const world = await mirrorAtWork();
    const [member] = PROGRESS.members;
    if (member === undefined) throw new Error('there is a member');
    const [first] = at(1n).subscriptions;
    if (first === undefined) throw new Error('there is a subscription');
    const odd = {
      subscriptions: [{ ...first, name: "it's\0odd" }],
      members: [
        { ...member, datasetId: 'half \ud800' },
        { ...member, datasetId: 'nul \0' },
      ],
      owed: [],
    };
    expect(await world.mirror.storeProgress(odd, 'wait')).toBe(true);
    expect(await progressOf(world)).toEqual({
      subscriptions: [{ ...first, name: "it's\ufffdodd" }],
      members: [{ ...member, datasetId: 'half \ufffd' }],
      owed: [],
    });
    const started = effects();
    expect(await world.mirror.storeProgress(odd, 'wait')).toBe(true);
    expect(started).toEqual([]);
  });

  it('removes the stored progress of a subscription that was given up, and of a retired table', async () => {
    const world = await mirrorAtWork();
    await world.mirror.enroll({ ...ENROLMENT, subscriptionIds: ['sub_1', 'sub_2'] });
    for (const how of ['archive', 'drop', 'keep'] as const) {
      await world.loaded(firstContent(PEOPLE, [[1, 'Ann']]));
      await world.mirror.storeProgress(PROGRESS, 'wait');
      await world.execute(retirement(await world.observed(), how));
      expect(await progressOf(world)).toEqual({
        subscriptions: PROGRESS.subscriptions,
        members: PROGRESS.members.filter(({ datasetId }) => datasetId !== 'parcels'),
        owed: PROGRESS.owed.filter(({ datasetId }) => datasetId !== 'parcels'),
      });
    }
    await world.mirror.storeProgress(PROGRESS, 'wait');
    await world.mirror.enroll({ ...ENROLMENT, forgottenSubscriptionIds: ['sub_2'] });
    const ofFirst = ({ subscriptionId }: { readonly subscriptionId: string }) => subscriptionId === 'sub_1';
    expect(await progressOf(world)).toEqual({
      subscriptions: PROGRESS.subscriptions.filter(ofFirst),
      members: PROGRESS.members.filter(ofFirst),
      owed: PROGRESS.owed.filter(ofFirst),
    });
  });

  it('keeps stored progress through a load, changes and a compaction', async () => {
    const world = await mirrorAtWork();
    await world.mirror.storeProgress(PROGRESS, 'wait');
    const course = await world.loaded(firstContent(PEOPLE, [[1, 'Ann']]));
    course.publishRows([[1, 'Bob']]);
    await world.apply(course);
    expect(await progressOf(world)).toEqual(PROGRESS);
    await compactAt(world.path);
    expect(await progressOf(world)).toEqual(PROGRESS);
    expect(await world.differences(course)).toEqual([]);
  });

  it('publishes stored progress with the copy, and makes no new copy for progress alone', async () => {
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const copy = join(folder.path, 'mirror.duckdb');
    const world = await mirrorAtWork({ publish: { path: copy, keptPaths: [], reserveBytes: 0 } });
    const course = await world.loaded(firstContent(PEOPLE, [[1, 'Ann']]));
    await world.mirror.storeProgress(PROGRESS, 'wait');
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    expect(
      await inMirror(folder.path, 'SELECT event_number FROM feed_sync.subscriptions ORDER BY ALL'),
    ).toEqual([['12'], [null]]);
    await world.mirror.storeProgress(at(13n), 'wait');
    expect(await world.mirror.publish()).toMatchObject({ kind: 'current' });
    await world.load(course);
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    const restored = await mirrorIn(folder.path);
    expect(await progressOf({ mirror: restored })).toEqual(at(13n));
    await restored.close();
  });
});

describe('F10 progress while a reader has the mirror open', () => {
  it('gives up storing progress at once where it is to be stored only in a free mirror', async () => {
    const clock = manualClock();
    const world = await mirrorAtWork({ clock, lockWaitMs: 10_000 });
    await world.mirror.storeProgress(PROGRESS, 'wait');
    await holdMirror(world.path);
    expect(await world.mirror.storeProgress(PROGRESS, 'if-free')).toBe(true);
    expect(await world.mirror.storeProgress(at(13n), 'if-free')).toBe(false);
    expect(clock.slept).toEqual([]);
    expect(await progressOf(world)).toEqual(PROGRESS);
  });

  it('stores progress that may wait once the reader has gone, and fails after the longest wait', async () => {
    const children: Child[] = [];
    let goes = false;
    const clock = manualClock(async () => {
      if (goes) for (const child of children) await child.kill();
    });
    const world = await mirrorAtWork({ clock, lockWaitMs: 10_000 });
    children.push(await holdMirror(world.path));
    await expect(world.mirror.storeProgress(PROGRESS, 'wait')).rejects.toThrow(BusyError);
    goes = true;
    expect(await world.mirror.storeProgress(PROGRESS, 'wait')).toBe(true);
    expect(await progressOf(world)).toEqual(PROGRESS);
  });

  it('gives up storing progress while other work on the mirror waits for the reader', async () => {
    const asleep = Promise.withResolvers<void>();
    const children: Child[] = [];
    const tries = Promise.withResolvers<void>();
    const clock = manualClock(async () => {
      asleep.resolve();
      await tries.promise;
      for (const child of children) await child.kill();
    });
    const world = await mirrorAtWork({ clock, lockWaitMs: 10_000 });
    children.push(await holdMirror(world.path));
    const loading = world.loaded(firstContent(PEOPLE, [[1, 'Ann']]));
    await asleep.promise;
    expect(await world.mirror.storeProgress(PROGRESS, 'if-free')).toBe(false);
    tries.resolve();
    await loading;
    expect(await world.mirror.storeProgress(PROGRESS, 'if-free')).toBe(true);
  });
});

describe('progress in the write session of a commit', () => {
  it('asks for progress once every write job is reported, and stores it before the mirror is closed', async () => {
    const world = await mirrorAtWork();
    const jobs = [await preparedLoad(world, 'parcels'), await preparedLoad(world, 'roads')];
    const { queue, calls } = recordedQueue(jobs, PROGRESS);
    const started = effects();
    await world.mirror.commit(queue);
    expect(calls).toEqual(['parcels committed', 'roads committed', 'asked']);
    // The first COMMIT is that of the catalog, which is looked after whatever became of the mirror.
    expect(started).toEqual([
      ...['attach', 'commit', 'sync-entries', 'commit', 'sync-entries'],
      ...['store-progress', 'checkpoint'],
    ]);
    expect(await progressOf(world)).toEqual(PROGRESS);
  });

  it('asks for progress in the last write session only, where large and small tables have one each', async () => {
    const world = await mirrorAtWork();
    const rows = Array.from({ length: ROW_GROUP_ROWS + 1 }, (_, index) => [index, null] as const);
    const large = world.published(firstContent(PEOPLE, rows), 'large');
    const jobs = [
      await preparedLoad(world, 'parcels'),
      await world.mirror.validate(await large.snapshot(large.newest(), null)),
    ];
    const { queue, calls } = recordedQueue(jobs, PROGRESS);
    await world.mirror.commit(queue);
    expect(calls).toEqual(['parcels committed', 'large committed', 'asked']);
    expect(await progressOf(world)).toEqual(PROGRESS);
  });

  it('keeps the stored progress where the queue has none yet', async () => {
    const world = await mirrorAtWork();
    await world.mirror.storeProgress(PROGRESS, 'wait');
    const { queue, calls } = recordedQueue([await preparedLoad(world, 'parcels')], null);
    await world.mirror.commit(queue);
    expect(calls).toEqual(['parcels committed', 'asked']);
    expect(await progressOf(world)).toEqual(PROGRESS);
  });

  it('does not ask for progress where a write job failed, which is reported only afterwards', async () => {
    const world = await mirrorAtWork();
    const good = await preparedLoad(world, 'parcels');
    const bad = await preparedLoad(world, 'roads');
    await world.mirror.enroll({ ...ENROLMENT, datasetIds: ['roads'] });
    await world.byHand('CREATE TABLE roads (mine INTEGER)');
    const { queue, calls } = recordedQueue([good, bad], PROGRESS);
    await world.mirror.commit(queue);
    expect(calls).toEqual(['parcels committed', 'roads failed']);
    expect(await progressOf(world)).toBeNull();
  });

  it('logs progress that cannot be stored, and fails no write job', async () => {
    const lines: string[] = [];
    const note = (_: object, message: string): void => void lines.push(message);
    const log = { ...silentLog, warn: note };
    const world = await mirrorAtWork({ log });
    observeDurableEffects((name, timestamp) => {
      if (name === 'destination.store-progress' && timestamp === 'before')
        throw new StorageError('The disk is full.');
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    const { queue, calls } = recordedQueue([await preparedLoad(world, 'parcels')], PROGRESS);
    await world.mirror.commit(queue);
    expect(calls).toEqual(['parcels committed', 'asked']);
    expect(lines).toContain('The progress was not stored in the mirror; its tables are committed.');
    expect([...(await world.mirror.has()).datasets.keys()]).toEqual(['parcels']);
    expect(await progressOf(world)).toBeNull();
  });

  it('does not store progress in a mirror that was lost and created again meanwhile', async () => {
    const world = await mirrorAtWork();
    await world.loaded(firstContent(PEOPLE, [[1, 'Ann']]));
    await rm(world.path);
    const { queue, calls } = recordedQueue([await preparedLoad(world, 'roads')], PROGRESS);
    await world.mirror.commit(queue);
    expect(calls).toEqual(['roads committed']);
    expect(await world.mirror.storeProgress(PROGRESS, 'wait')).toBe(false);
    expect(await progressOf(world)).toBeNull();
    // A caller that has read the state of the mirror since then knows that a table is gone.
    expect(await world.mirror.storeProgress(PROGRESS, 'wait')).toBe(true);
  });
});

describe('F01 a process that is killed while progress is stored', () => {
  /** Returns tables and progress of the mirror in the folder; its log is put into the file by the first write. */
  async function foundIn(folder: string) {
    const mirror = await mirrorIn(folder);
    await mirror.enroll({ ...ENROLMENT, datasetIds: ['another'] });
    const { datasets, progress } = await mirror.has();
    await mirror.close();
    return { tables: [...datasets.keys()], progress };
  }

  it('leaves the earlier or the new progress, whole, when killed while it is stored', async () => {
    const world = await mirrorAtWork();
    await world.mirror.storeProgress(PROGRESS, 'wait');
    const next = { ...at(13n), members: PROGRESS.members.slice(1), owed: [] };
    const left = await leftAtEffects(world.path, () => world.mirror.storeProgress(next, 'wait'));
    const found = [];
    for (const [timestamp, folder] of left) found.push([timestamp, (await foundIn(folder)).progress]);
    expect(found).toEqual([
      ['before attach', PROGRESS],
      ['after attach', PROGRESS],
      ['before store-progress', PROGRESS],
      ['after store-progress', next],
      ['before sync-entries', next],
      ['after sync-entries', next],
      ['before checkpoint', next],
      ['after checkpoint', next],
    ]);
  });

  it('leaves no progress without the tables that it describes when killed in the write session of a commit', async () => {
    const world = await mirrorAtWork();
    const { queue } = recordedQueue([await preparedLoad(world, 'parcels')], PROGRESS);
    const left = await leftAtEffects(world.path, () => world.mirror.commit(queue));
    const found = [];
    for (const [timestamp, folder] of left) found.push([timestamp, await foundIn(folder)]);
    const before = { tables: [], progress: null };
    const committed = { tables: ['parcels'], progress: null };
    const stored = { tables: ['parcels'], progress: PROGRESS };
    expect(found).toEqual([
      ['before attach', before],
      ['after attach', before],
      ['before commit', before],
      ['after commit', committed],
      ['before sync-entries', committed],
      ['after sync-entries', committed],
      ['before store-progress', committed],
      ['after store-progress', stored],
      ['before checkpoint', stored],
      ['after checkpoint', stored],
    ]);
  });
});

describe('the statements that write progress', () => {
  const many = 3_000;
  const large: StoredProgress = {
    ...PROGRESS,
    members: Array.from({ length: many }, (_, index) => {
      return {
        subscriptionId: 'sub_1',
        datasetId: `dataset-${index}`,
        addedEvent: BigInt(index),
        droppedEvent: null,
      };
    }),
  };

  it('writes nothing of progress that is stored already, however large it is', () => {
    expect(replaceProgress(large, large)).toEqual([]);
    expect(replaceProgress(null, NONE)).toEqual([]);
  });

  it('writes only the part of the progress that differs', () => {
    const members = large.members.map((member) =>
      member.datasetId === 'dataset-7' ? { ...member, droppedEvent: 99n } : member,
    );
    const statements = statementsOf(replaceProgress(large, { ...large, members }));
    expect(statements.map((sql) => sql.slice(0, 6))).toEqual(['DELETE', 'INSERT']);
    expect(statements.join().match(/dataset-\d+/g)).toEqual(['dataset-7', 'dataset-7']);
  });

  it('writes all owed reloads of a dataset and subscription where any of them differs', () => {
    const owed = PROGRESS.owed.slice(1);
    const statements = statementsOf(replaceProgress(PROGRESS, { ...PROGRESS, owed })).join();
    expect(statements.match(/parcels/g)?.length).toBe(2);
    expect(statements).not.toContain('roads');
  });
});
