/** Write jobs of a batch are committed together, with the same result as when each is committed alone. */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { insertRows, MAX_ROWS_CHARACTERS } from '../../src/destination/catalog/writes.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { statementsOf } from '../../src/destination/duckdb/catalog/rows.ts';
import { batches, MAX_BATCH_JOBS } from '../../src/destination/duckdb/commit.ts';
import { InapplicableChangesError } from '../../src/model/errors.ts';
import type { SnapshotJob, WriteJob } from '../../src/model/write-jobs.ts';
import { firstContent, type PublishedCourse } from '../support/duckdb-changes.ts';
import { inMirror, manualClock } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { reloadMarks } from '../support/reload-marks.ts';

const FIRST = THREE_PEOPLE.slice(0, 2);
const SECOND: readonly Row[] = [[1, 'ONE'], ...FIRST.slice(1)];
const LOADED = ['changed', 'stale', 'broken', 'leaving', 'back', 'again', 'described', 'taken'];

/** A text that a service may write into names and descriptions, with half a character, which no database stores. */
const HOSTILE = `'; DROP TABLE x; -- "quoted" \\u0000 \\ \u{1f600} \u2028 \n\t \u0001 null [] {"a": 1} \ud800.`;

/** Returns write jobs of every kind and result, for a mirror that an operator altered by hand. */
async function prepared(): Promise<{ world: MirrorAtWork; jobs: readonly WriteJob[] }> {
  const world = await mirrorAtWork({ clock: manualClock() });
  const courses = new Map<string, PublishedCourse>();
  for (const id of LOADED) courses.set(id, await world.loaded(firstContent(PEOPLE, FIRST), id));
  for (const id of ['fresh', 'Fresh!']) courses.set(id, world.published(firstContent(PEOPLE, FIRST), id));
  const course = (id: string): PublishedCourse =>
    courses.get(id) ?? world.published(firstContent(PEOPLE, FIRST), id);
  const stale = await course('stale').snapshot(course('stale').newest(), await world.observed('stale'));
  await world.load(course('stale'));
  await world.retire(course('back'), 'keep');
  await world.retire(course('taken'), 'drop');
  await world.byHand('DELETE FROM broken WHERE id = 2', 'CREATE VIEW Taken AS SELECT 42 AS mine');
  for (const id of ['changed', 'broken', 'back', 'again']) course(id).publishRows(SECOND);
  const snapshot = async (id: string, isLive: boolean): Promise<SnapshotJob> =>
    course(id).snapshot(course(id).newest(), isLive ? await world.observed(id) : null);
  const described = await snapshot('described', true);
  const columns = described.schema.columns.map((each) => ({
    ...each,
    description: HOSTILE,
    sourceName: HOSTILE,
  }));
  const jobs = [
    await course('changed').changes(await world.observed('changed')),
    { ...stale, plannedFrom: { commitNumber: 1, version: 7, snapshotDigest: 'other' } },
    await course('broken').changes(await world.observed('broken')),
    retirement(await world.observed('leaving'), 'archive'),
    await snapshot('back', false),
    { ...(await snapshot('again', true)), reloads: reloadMarks([['sub_1', 2n ** 62n]]) },
    { ...described, schema: { ...described.schema, columns }, digest: HOSTILE },
    await snapshot('taken', false),
    await snapshot('fresh', false),
    await snapshot('Fresh!', false),
  ];
  return { world, jobs };
}

const reported = (outcomes: readonly JobResult[]) => outcomes.map(({ datasetId, kind }) => [datasetId, kind]);
const COMMITS =
  'SELECT dataset_id, from_version, to_version, kind, added, changed, removed FROM feed_sync.commits';

describe('a batch', () => {
  it('commits a batch of every kind, with failures and stale plans, as if each write job came alone', async () => {
    const [together, oneByOne] = [await prepared(), await prepared()];
    const outcomes = await together.world.execute(...together.jobs);
    expect(reported(outcomes)).toEqual([
      ['changed', 'committed'],
      ['stale', 'stale-plan'],
      ['broken', 'failed'],
      ['leaving', 'retired'],
      ['back', 'committed'],
      ['again', 'committed'],
      ['described', 'committed'],
      ['taken', 'failed'],
      ['fresh', 'committed'],
      ['Fresh!', 'committed'],
    ]);
    expect(errorOf(outcomes[2] as JobResult)).toBeInstanceOf(InapplicableChangesError);
    expect(errorOf(outcomes[7] as JobResult)).toMatchObject({ code: 'dataset_storage_failed' });

    const alone: JobResult[] = [];
    for (const job of oneByOne.jobs) alone.push(...(await oneByOne.world.execute(job)));
    expect(alone).toEqual(outcomes);
    expect(await together.world.dump()).toEqual(await oneByOne.world.dump());
    expect(await inMirror(together.world.folder, COMMITS)).toEqual(
      await inMirror(oneByOne.world.folder, COMMITS),
    );
  });

  it('commits a batch without failures in one transaction, and reports tables as the catalog records them', async () => {
    const { world, jobs } = await prepared();
    const sound = jobs.filter(({ datasetId }) => !['broken', 'taken'].includes(datasetId));
    const outcomes = await world.execute(...sound);
    const { datasets } = await world.mirror.has();
    for (const outcome of outcomes) {
      if (outcome.kind === 'committed')
        expect(outcome.committed.observed).toEqual(datasets.get(outcome.datasetId));
    }
    expect(datasets.get('again')?.reloads).toEqual(reloadMarks([['sub_1', 2n ** 62n]]));
    const written = HOSTILE.toWellFormed();
    expect(datasets.get('described')?.snapshotDigest).toBe(written);
    const recorded = `SELECT DISTINCT description, source_name FROM feed_sync.columns WHERE dataset_id = 'described'`;
    expect(await inMirror(world.folder, recorded)).toEqual([[written, written]]);
    expect(await inMirror(world.folder, COMMITS).then((lines) => lines.slice(-sound.length + 1))).toEqual([
      ['changed', '1', '2', 'changes', '0', '1', '0'],
      ['leaving', '1', '1', 'retire', '0', '0', '2'],
      ['back', null, '2', 'return', null, null, null],
      ['again', '1', '2', 'reload', '0', null, '0'],
      ['described', '1', '1', 'reload', '0', null, '0'],
      ['fresh', null, '1', 'load', null, null, null],
      ['Fresh!', null, '1', 'load', null, null, null],
    ]);
  });
});

describe('the write jobs of one transaction', () => {
  const job = (datasetId: string) => ({ datasetId, rowCount: 1, bytes: 1 });
  const cut = (jobs: readonly ReturnType<typeof job>[]) =>
    batches(jobs, ({ datasetId }) => datasetId).map((batch) =>
      batch.map(({ datasetId }) => datasetId).join(''),
    );

  it('never puts two write jobs of one dataset into one transaction', () => {
    expect(cut(['a', 'b', 'a', 'c', 'b', 'b'].map(job))).toEqual(['ab', 'acb', 'b']);
  });
  it(`puts ${MAX_BATCH_JOBS} write jobs at most into one transaction`, () => {
    const many = Array.from({ length: MAX_BATCH_JOBS + 1 }, (_, index) => job(String(index)));
    expect(batches(many, ({ datasetId }) => datasetId).map(({ length }) => length)).toEqual([
      MAX_BATCH_JOBS,
      1,
    ]);
  });
});

describe('the rows of one statement', () => {
  it('bounds the rows of a statement by their characters, with a longer row by itself', () => {
    const rows = [10, MAX_ROWS_CHARACTERS, MAX_ROWS_CHARACTERS / 2, 10, MAX_ROWS_CHARACTERS / 2].map(
      (length) => ['x'.repeat(length), 'name'],
    );
    const lengths = statementsOf([insertRows('names', rows)]).map(
      (statement) => (statement.match(/"name"/g) ?? []).length,
    );
    expect(lengths).toEqual([1, 1, 2, 1]);
  });
  it('makes no statement for no rows', () => expect(statementsOf([insertRows('names', [])])).toEqual([]));
});
