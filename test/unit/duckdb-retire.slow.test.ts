/** Tables that retire and return; subscriptions that are given up. */

import { describe, expect, it, onTestFinished } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { present } from '../../src/lib/assert.ts';
import { observeDurableEffects } from '../../src/lib/files.ts';
import { DataError, StorageError } from '../../src/model/errors.ts';
import type { Retirement, RetirementJob, WriteJob } from '../../src/model/write-jobs.ts';
import { diagnose } from '../../src/staging/engine/errors.ts';
import { commitAll } from '../support/commit-all.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror, manualClock } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { column } from '../support/small-content.ts';

const people = sourceSchema([
  column('id', 'integer', false),
  { ...column('name', 'string'), description: "the person's" },
]);
const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

async function twoPeople(options: Parameters<typeof mirrorAtWork>[0] = {}) {
  const world = await mirrorAtWork(options);
  return { world, course: await world.loaded(firstContent(people, FIRST)) };
}

/** A table for each way to retire one, called like it, with a reload. */
async function tableForEveryWay() {
  const world = await mirrorAtWork();
  const courses = EVERY_WAY.map((how) => world.published(firstContent(people, FIRST), how));
  const reloads = reloadMarks([['sub_1', 7n]]);
  const loads = courses.map(async (course) => ({
    ...(await course.snapshot(course.newest(), null)),
    reloads,
  }));
  await world.execute(...(await Promise.all(loads)));
  return { world, courses };
}

async function retirements({ mirror }: MirrorAtWork): Promise<readonly RetirementJob[]> {
  const { datasets } = await mirror.has();
  return EVERY_WAY.map((how) => retirement(present(datasets.get(how), 'it is loaded'), how));
}

function archivedIn({ folder }: MirrorAtWork) {
  return inMirror(folder, 'SELECT table_name, version, reason FROM feed_sync.archived ORDER BY rowid');
}

const REASON = 'left subscription sub_1: left_coverage';
const EVERY_WAY: readonly Retirement[] = ['archive', 'drop', 'keep'];

describe('a retired table', () => {
  it('archives a retired table with its comments, outside the mirrored data', async () => {
    const { world, course } = await twoPeople({ clock: manualClock() });
    const name = 'parcels__1_20260101t000000z';
    expect(await world.retire(course, 'archive')).toEqual({
      kind: 'retired',
      datasetId: 'parcels',
      table: `archived.${name}`,
    });
    expect(await archivedIn(world)).toEqual([[name, '1', REASON]]);
    expect(await inMirror(world.folder, `FROM archived.${name} ORDER BY id`)).toEqual([
      ['1', 'one'],
      ['2', 'two'],
    ]);
    expect(
      await inMirror(
        world.folder,
        'SELECT column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL',
      ),
    ).toEqual([['name', "the person's"]]);
    expect(await world.differences()).toEqual([]);
  });

  it('drops a retired table', async () => {
    const { world, course } = await twoPeople();
    expect(await world.retire(course, 'drop')).toEqual({
      kind: 'retired',
      datasetId: 'parcels',
      table: null,
    });
    expect(await archivedIn(world)).toEqual([[null, '1', REASON]]);
    expect(await world.differences()).toEqual([]);
  });

  it('keeps a retired table in its place, and no longer mirrors it', async () => {
    const { world, course } = await twoPeople();
    expect(await world.retire(course, 'keep')).toEqual({
      kind: 'retired',
      datasetId: 'parcels',
      table: 'main.parcels',
    });
    expect(await archivedIn(world)).toEqual([['parcels', '1', REASON]]);
    expect(await inMirror(world.folder, 'SELECT count(*) FROM parcels')).toEqual([['2']]);
    expect(await world.differences()).toEqual([]);
  });

  it('keeps in the catalog only the name, the commits and the new place of a retired table', async () => {
    const { world, courses } = await tableForEveryWay();
    expect(await world.execute(...(await retirements(world)))).toMatchObject([
      { kind: 'retired', table: expect.stringMatching(/^archived\.archive__1_/) },
      { kind: 'retired', table: null },
      { kind: 'retired', table: 'main.keep' },
    ]);
    expect((await world.mirror.has()).datasets.size).toBe(0);
    const counts = ['datasets', 'columns', 'reloads', 'names'].map(
      (table) => `(SELECT count(*) FROM feed_sync.${table})`,
    );
    expect(await inMirror(world.folder, `SELECT ${counts.join(', ')}`)).toEqual([['0', '0', '0', '3']]);
    const commits = `SELECT dataset_id, from_version, to_version, added, changed, removed FROM feed_sync.commits
      WHERE kind = 'retire' ORDER BY commit_number`;
    expect(await inMirror(world.folder, commits)).toEqual([
      ['archive', '1', '1', '0', '0', '2'],
      ['drop', '1', '1', '0', '0', '2'],
      ['keep', '1', '1', '0', '0', '0'],
    ]);
    expect(await world.differences()).toEqual([]);

    // Datasets that return have their tables under their own names, and only the kept one is no longer listed.
    for (const course of courses) course.publishRows([[5, 'five']]);
    const loads = await Promise.all(courses.map((course) => course.snapshot(course.newest(), null)));
    expect(await world.execute(...loads)).toMatchObject(
      EVERY_WAY.map((tableName) => ({
        kind: 'committed',
        committed: { tableName, fromVersion: null, toVersion: 2, observed: { reloads: new Map() } },
      })),
    );
    expect(await world.differences(...courses)).toEqual([]);
    const listed = await inMirror(world.folder, 'SELECT dataset_id FROM feed_sync.archived ORDER BY rowid');
    expect(listed).toEqual([['archive'], ['drop']]);
  });

  it('reports a stale plan where the table to retire is another by now, or was retired', async () => {
    const { world } = await tableForEveryWay();
    const jobs = await retirements(world);
    const before = await world.dump();
    const stalePlan = EVERY_WAY.map((datasetId) => ({ kind: 'stale-plan', datasetId }));
    for (const other of [{ commitNumber: 7 }, { version: 2 }, { snapshotDigest: 'other' }]) {
      const stale = jobs.map((job) => ({ ...job, plannedFrom: { ...job.plannedFrom, ...other } }));
      expect(await world.execute(...stale)).toEqual(stalePlan);
    }
    expect(await world.dump()).toEqual(before);
    await world.execute(...jobs);
    expect(await world.execute(...jobs)).toEqual(stalePlan);
  });

  it('retires a table that was dropped by hand', async () => {
    const { world } = await tableForEveryWay();
    await world.byHand(...EVERY_WAY.map((table) => `DROP TABLE main."${table}"`));
    expect(await world.execute(...(await retirements(world)))).toEqual(
      EVERY_WAY.map((datasetId) => ({ kind: 'retired', datasetId, table: null })),
    );
    expect(await archivedIn(world)).toEqual(EVERY_WAY.map(() => [null, '1', REASON]));
    expect(await world.differences()).toEqual([]);
  });

  it('archives a table as it is, also where it was altered by hand', async () => {
    const { world, course } = await twoPeople();
    await world.byHand('ALTER TABLE parcels DROP name', 'INSERT INTO parcels VALUES (3)');
    const outcome = await world.retire(course, 'archive');
    const table = outcome.kind === 'retired' ? outcome.table : null;
    expect(await inMirror(world.folder, `SELECT id FROM ${table} ORDER BY id`)).toEqual([
      ['1'],
      ['2'],
      ['3'],
    ]);
    expect(await world.differences()).toEqual([]);
  });

  it('fails before the mirror is touched where the reason of a retirement cannot be stored in a database', async () => {
    const { world } = await twoPeople();
    const job = { ...retirement(await world.observed(), 'drop'), reason: 'left\0' };
    await expect(world.mirror.validate(job)).rejects.toThrow(DataError);
  });
});

describe('a dataset that returns', () => {
  it('archives a table that leaves several times at one timestamp under a name of its own each time', async () => {
    const { world, course } = await twoPeople({ clock: manualClock() });
    const name = 'parcels__1_20260101t000000z';
    for (const expected of [name, `${name}_2`, `${name}_3`]) {
      expect(await world.retire(course, 'archive')).toMatchObject({ table: `archived.${expected}` });
      await world.load(course);
    }
    expect((await archivedIn(world)).map(([table]) => table)).toEqual([name, `${name}_2`, `${name}_3`]);
  });

  it('loads a returning dataset at a lower version, where its kept table was dropped by hand', async () => {
    const { world, course } = await twoPeople();
    await world.retire(course, 'keep');
    await world.byHand('DROP TABLE parcels');
    const job = { ...(await course.snapshot(course.newest(), null)), version: 0 };
    expect(await world.execute(job)).toMatchObject([{ kind: 'committed', committed: { toVersion: 0 } }]);
    expect(await archivedIn(world)).toEqual([]);
  });

  it('never takes a table that an operator made in place of a retired one', async () => {
    const { world, course } = await twoPeople();
    await world.retire(course, 'drop');
    await world.byHand('CREATE TABLE parcels AS SELECT 42 AS mine');
    expect(errorOf(await world.load(course)).message).toContain('parcels');
    expect(await inMirror(world.folder, 'FROM parcels')).toEqual([[42]]);
  });
});

describe('a commit with an unknown outcome', () => {
  /** Commits so that an error comes right before or after DuckDB has committed. */
  async function commitWithUnknownOutcome(
    world: MirrorAtWork,
    timestamp: 'before' | 'after',
    jobs: readonly WriteJob[],
  ) {
    const prepared = await Promise.all(jobs.map((job) => world.mirror.validate(job)));
    let commits = 0;
    observeDurableEffects((name, when) => {
      if (name !== 'destination.commit' || when !== timestamp) return;
      commits += 1;
      // The first commit is that of the catalog.
      if (commits === 2)
        throw diagnose(new Error('{"exception_type":"TransactionContext","exception_message":"doubt"}'));
    });
    onTestFinished(() => observeDurableEffects(() => {}));
    return await commitAll(world.mirror, prepared);
  }

  async function jobsOfEveryKind() {
    const { world, course } = await twoPeople();
    const leaving = await world.loaded(firstContent(people, FIRST), 'leaving');
    const kept = await world.loaded(firstContent(people, FIRST), 'kept');
    const fresh = world.published(firstContent(people, FIRST), 'fresh');
    course.publishRows([
      [1, 'one'],
      [2, 'TWO'],
      [3, 'three'],
    ]);
    const jobs: readonly WriteJob[] = [
      await course.changes(await world.observed()),
      retirement(await world.observed(leaving.datasetId), 'archive'),
      retirement(await world.observed(kept.datasetId), 'keep'),
      await fresh.snapshot(fresh.newest(), null),
    ];
    return { world, course, fresh, jobs };
  }

  it('does not take a commit that failed for an earlier one of its version, while the clock stands still', async () => {
    const { world, course } = await twoPeople({ clock: manualClock() });
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    const again = await course.snapshot(course.newest(), await world.observed());
    expect(await commitWithUnknownOutcome(world, 'before', [again])).toMatchObject([{ kind: 'failed' }]);
    expect(await inMirror(world.folder, 'SELECT count(*) FROM feed_sync.commits')).toEqual([['2']]);
  });

  it.each(['before', 'after'] as const)(
    'reports every kind of write job as committed where the error comes %s the commit',
    async (timestamp) => {
      const { world, course, fresh, jobs } = await jobsOfEveryKind();
      const outcomes = await commitWithUnknownOutcome(world, timestamp, jobs);
      const { datasets } = await world.mirror.has();
      const measured = { bytes: 1, durationMs: 0 };
      expect(outcomes).toEqual([
        {
          kind: 'committed',
          datasetId: 'parcels',
          committed: {
            kind: 'changes',
            ...measured,
            versions: 1,
            tableName: 'parcels',
            fromVersion: 1,
            toVersion: 2,
            rowCount: 3,
            net: { added: 1, changed: 1, removed: 0 },
            observed: datasets.get('parcels'),
          },
        },
        {
          kind: 'retired',
          datasetId: 'leaving',
          table: expect.stringMatching(/^archived\.leaving__1_\d{8}t\d{6}z$/),
        },
        { kind: 'retired', datasetId: 'kept', table: 'main.kept' },
        {
          kind: 'committed',
          datasetId: 'fresh',
          committed: {
            kind: 'snapshot',
            ...measured,
            versions: 1,
            tableName: 'fresh',
            fromVersion: null,
            toVersion: 1,
            rowCount: 2,
            net: null,
            observed: datasets.get('fresh'),
          },
        },
      ]);
      expect(await world.differences(course, fresh)).toEqual([]);
    },
  );

  it('reports the lost history of a commit whose outcome was unknown', async () => {
    const history = { keeps: () => isKept, keepMs: Number.POSITIVE_INFINITY };
    let isKept = true;
    const { world, course } = await twoPeople({ history });
    isKept = false;
    course.publishRows([[1, 'uno']]);
    const outcomes = await commitWithUnknownOutcome(world, 'after', [
      await course.changes(await world.observed()),
    ]);
    expect(outcomes).toMatchObject([
      { kind: 'committed', committed: { lostPast: 'history was switched off' } },
    ]);
  });

  it('fails the only write job of a commit that did not happen', async () => {
    const { world, course } = await twoPeople();
    const outcomes = await commitWithUnknownOutcome(world, 'before', [
      retirement(await world.observed(), 'drop'),
    ]);
    expect(outcomes).toMatchObject([{ kind: 'failed', datasetId: 'parcels' }]);
    expect(outcomes[0]?.kind === 'failed' && outcomes[0].error).toBeInstanceOf(StorageError);
    expect(await world.differences(course)).toEqual([]);
  });
});

describe('a subscription that was given up', () => {
  const enrolment = { origin: 'https://feed.example', datasetIds: [], forgottenSubscriptionIds: [] };

  it('removes a subscription that was given up from the catalog, with its reloads', async () => {
    const { world, course } = await twoPeople();
    await world.mirror.enroll({ ...enrolment, subscriptionIds: ['sub_1', 'sub_2'] });
    const reloads = reloadMarks([
      ['sub_1', 7n],
      ['sub_2', 8n],
    ]);
    await world.execute({ ...(await course.snapshot(course.newest(), await world.observed())), reloads });
    await world.mirror.enroll({
      ...enrolment,
      subscriptionIds: ['sub_1'],
      forgottenSubscriptionIds: ['sub_2', 'never seen'],
    });
    const { service, datasets } = await world.mirror.has();
    expect(service?.subscriptionIds).toEqual(['sub_1']);
    expect(datasets.get('parcels')?.reloads).toEqual(reloadMarks([['sub_1', 7n]]));
  });

  it('keeps a subscription in the catalog that was given up and is followed nevertheless', async () => {
    const { world } = await twoPeople();
    await world.mirror.enroll({
      ...enrolment,
      subscriptionIds: ['sub_1'],
      forgottenSubscriptionIds: ['sub_1'],
    });
    expect((await world.mirror.has()).service?.subscriptionIds).toEqual(['sub_1']);
  });
});
