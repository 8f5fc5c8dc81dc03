/** Changes move a table along its versions, or change nothing (F38, F41). */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { present } from '../../src/lib/assert.ts';
import { DataError, InapplicableChangesError } from '../../src/model/errors.ts';
import type { Counts } from '../../src/model/records.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, mirrorAtWork, retirement } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { column } from '../support/small-content.ts';

/** A mirror with a table of three people. */
async function threePeople() {
  const world = await mirrorAtWork();
  return { world, course: await world.loaded(firstContent(PEOPLE, THREE_PEOPLE)) };
}

describe('changes of one version', () => {
  it('writes the changes of a version into the table and the catalog, and reports them', async () => {
    const { world, course } = await threePeople();
    const before = await world.observed();
    const version = course.publishRows([
      [1, 'one'],
      [2, 'TWO'],
      [4, 'four'],
      [5, null],
    ]);
    const outcome = await world.apply(course);
    const observed = await world.observed();
    expect(outcome).toEqual({
      kind: 'committed',
      datasetId: 'parcels',
      committed: {
        kind: 'changes',
        versions: 1,
        bytes: 1,
        durationMs: 0,
        tableName: 'parcels',
        fromVersion: 1,
        toVersion: 2,
        rowCount: 4,
        net: { added: 2, changed: 1, removed: 1 },
        observed,
      },
    });
    expect(observed).toEqual({
      ...before,
      commitNumber: 2,
      version: 2,
      rowCount: 4,
      publishedAt: new Date(version.publishedAt),
      appliedAt: observed.appliedAt,
    });
    expect(
      await inMirror(
        world.folder,
        'SELECT from_version, to_version, kind, added, changed, removed FROM feed_sync.commits',
      ),
    ).toEqual([
      [null, '1', 'load', null, null, null],
      ['1', '2', 'changes', '2', '1', '1'],
    ]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('raises the version by changes that leave every row as it is', async () => {
    const { world, course } = await threePeople();
    course.publishRows(THREE_PEOPLE);
    expect(await world.apply(course)).toMatchObject({
      kind: 'committed',
      committed: { toVersion: 2, net: { added: 0, changed: 0, removed: 0 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });

  it('counts an added row that was there as changed, and a removed row that was not there as nothing', async () => {
    const { world, course } = await threePeople();
    course.publish({
      ...firstContent(PEOPLE, [...THREE_PEOPLE.slice(0, 2), [3, 'THREE']]),
      changes: [
        { op: 'added', row: [3, 'THREE'] },
        { op: 'removed', key: [9] },
      ],
    });
    const { versions } = await course.changes(await world.observed());
    const uncounted = versions.map((each) => ({ ...each, rowCount: null, counts: null }));
    expect(await world.apply(course, { versions: uncounted })).toMatchObject({
      committed: { rowCount: 3, net: { added: 0, changed: 1, removed: 0 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });

  it('empties a table and fills it again by changes, and records the coordinate system of GeoJSON', async () => {
    const world = await mirrorAtWork();
    const schema = sourceSchema([column('id', 'integer', false), column('place', 'geometry')]);
    const course = await world.loaded(firstContent(schema, []));
    const crs = async () => (await world.observed()).columns.map((each) => each.crs);
    expect(await crs()).toEqual([null, null]);
    course.publishRows([[1, { type: 'Point', coordinates: [-97.7, 30.25] }]]);
    await world.apply(course);
    expect(await crs()).toEqual([null, 'OGC:CRS84']);
    expect(await world.differences(course)).toEqual([]);
    course.publishRows([]);
    expect(await world.apply(course)).toMatchObject({
      committed: { rowCount: 0, net: { added: 0, changed: 0, removed: 1 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });

  it('writes changed descriptions of columns into catalog and comments, and removes them', async () => {
    const world = await mirrorAtWork();
    const described = (description: string | null) =>
      sourceSchema([
        column('id', 'integer', false),
        { ...column('name', 'string'), ...(description === null ? {} : { description }) },
      ]);
    const course = await world.loaded(firstContent(described('before'), THREE_PEOPLE));
    for (const [index, description] of ["it's after", null, 'again'].entries()) {
      const schema = { ...described(description), schemaVersion: String(index + 2) };
      course.publish({ ...firstContent(schema, THREE_PEOPLE), changes: [] });
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
      expect(await world.differences(course)).toEqual([]);
    }
    const columnRows = () => inMirror(world.folder, 'SELECT rowid, * FROM feed_sync.columns');
    const before = await columnRows();
    course.publishRows([]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await columnRows(), 'rows of the catalog that are the same are not written again').toEqual(before);
  });
});

it('V9 does not check counts that the service does not state', async () => {
  const { world, course } = await threePeople();
  // The row that is listed as added is there already, so the sums would not be right.
  course.publish({ ...firstContent(PEOPLE, THREE_PEOPLE), changes: [{ op: 'added', row: [3, 'three'] }] });
  const { versions } = await course.changes(await world.observed());
  const uncounted = versions.map((each) => ({ ...each, counts: null, rowCount: null }));
  expect(await world.apply(course, { versions: uncounted })).toMatchObject({ committed: { rowCount: 3 } });
  expect(await world.differences(course)).toEqual([]);
});

describe('changes of several versions', () => {
  it('leaves tables equal to the snapshots, in every type, with several datasets in one batch', async () => {
    const world = await mirrorAtWork();
    const followed = generateDatasets({ seed: 5, counties: 1, rowsPerDataset: 25 })
      .map((source) => ({ source, content: source.initial() }))
      .filter(({ content }) => content.schema.keyColumns.length > 0)
      .map((one) => ({ ...one, course: world.published(one.content, one.source.datasetId) }));
    expect(followed.length).toBeGreaterThan(2);
    const courses = followed.map(({ course }) => course);
    await world.execute(
      ...(await Promise.all(courses.map((course) => course.snapshot(course.newest(), null)))),
    );
    for (const seeds of [[1], [2, 3, 4]]) {
      for (const seed of seeds) {
        for (const one of followed) {
          one.content = one.source.next(one.content, seed);
          one.course.publish(one.content);
        }
      }
      const { datasets } = await world.mirror.has();
      const jobs = await Promise.all(
        courses.map((course) => course.changes(present(datasets.get(course.datasetId), 'it is loaded'))),
      );
      const outcomes = await world.execute(...jobs);
      expect(outcomes.map(({ kind }) => kind)).toEqual(jobs.map(() => 'committed'));
      expect(await world.differences(...courses)).toEqual([]);
    }
  });

  it('V12 coalesces several versions into one transaction, in which the last operation of a key wins', async () => {
    const { world, course } = await threePeople();
    course.publishRows([
      [1, 'x'],
      [3, 'three'],
      [4, 'four'],
    ]);
    course.publishRows([
      [1, 'one'],
      [2, 'back'],
      [3, 'three'],
    ]);
    course.publishRows([
      [1, 'one'],
      [2, 'back'],
      [5, 'five'],
    ]);
    expect(await world.apply(course)).toMatchObject({
      // The row of key 1 is in the end what it was.
      committed: { fromVersion: 1, toVersion: 4, net: { added: 1, changed: 1, removed: 1 } },
    });
    expect(await world.differences(course)).toEqual([]);
    const commits = 'SELECT from_version, to_version FROM feed_sync.commits';
    expect(await inMirror(world.folder, commits)).toEqual([
      [null, '1'],
      ['1', '4'],
    ]);
  });
});

it('keeps the recorded snapshot and reloads of a table when changes are applied', async () => {
  const world = await mirrorAtWork();
  const course = world.published(firstContent(PEOPLE, THREE_PEOPLE));
  const loaded = {
    digestKind: 'computed' as const,
    loadedThrough: 'sub_1',
    loadedAt: new Date('2026-01-02T03:04:05.678Z'),
    reloads: new Map([
      ['sub_1', { logNumber: 2, eventNumber: 7n, createdAt: new Date('2026-01-02T03:00:00.001Z') }],
    ]),
  };
  const job = await course.snapshot(course.newest(), null);
  await world.execute({ ...job, ...loaded });
  course.publishRows(THREE_PEOPLE.slice(1));
  const before = await world.observed();
  const outcome = await world.apply(course);
  const { snapshotVersion, snapshotDigest } = before;
  const observed = await world.observed();
  expect(observed).toMatchObject({ ...loaded, version: 2, snapshotVersion, snapshotDigest });
  expect(outcome).toMatchObject({ kind: 'committed', committed: { observed } });
});

describe('a stale plan', () => {
  it('applies nothing to a table that is not the one that the changes were planned from', async () => {
    const { world, course } = await threePeople();
    course.publishRows(THREE_PEOPLE.slice(1));
    const observed = await world.observed();
    const others: readonly Partial<ObservedTable>[] = [
      { commitNumber: 7 },
      { version: 2 },
      { snapshotDigest: 'other' },
      { rowCount: 4 },
      { reloads: reloadMarks([['sub_1', 1n]]) },
    ];
    const before = await world.dump();
    const job = await course.changes(observed);
    const versions = job.versions.map((each) => ({ ...each, counts: null, rowCount: null }));
    for (const other of others) {
      const planned = { ...job, versions, plannedFrom: { ...observed, ...other } };
      expect(await world.execute(planned)).toEqual([{ kind: 'stale-plan', datasetId: 'parcels' }]);
    }
    expect(await world.dump()).toEqual(before);
  });

  it('applies nothing where the table was dropped since the changes were planned', async () => {
    const { world, course } = await threePeople();
    course.publishRows(THREE_PEOPLE.slice(1));
    const job = await course.changes(await world.observed());
    await world.retire(course, 'drop');
    expect(await world.execute(job)).toEqual([{ kind: 'stale-plan', datasetId: 'parcels' }]);
  });
});

describe('a failed proof of changes', () => {
  it.each<[string, Counts | null, number | null]>([
    ['the row count that the service states', null, 4],
    ['the rows before plus the counts of the service', { added: 1, changed: 0, removed: 0 }, null],
  ])(
    'V7 V10 changes nothing, and names the first version, where rows differ from %s',
    async (_, counts, rowCount) => {
      const { world, course } = await threePeople();
      // The row that is listed as added is there already, so the sums are right and the table is not.
      course.publish({
        ...firstContent(PEOPLE, THREE_PEOPLE),
        changes: [{ op: 'added', row: [3, 'three'] }],
      });
      const { versions } = await course.changes(await world.observed());
      const before = await world.dump();
      const error = errorOf(
        await world.apply(course, { versions: versions.map((each) => ({ ...each, counts, rowCount })) }),
      );
      expect(error).toBeInstanceOf(InapplicableChangesError);
      expect(error).toMatchObject({ datasetId: 'parcels', version: 2 });
      expect(error.message).toContain('would have 3 rows, and the service states 4 for version 2');
      expect(await world.dump()).toEqual(before);
    },
  );

  const COLUMNS = 'the columns of the table parcels are not those it was left with';
  const BY_HAND: readonly (readonly [sql: string, message: string])[] = [
    ['DELETE FROM parcels WHERE id = 1', 'it has 2 rows, and not 3'],
    ["INSERT INTO parcels VALUES (9, 'nine')", 'it has 4 rows, and not 3'],
    ['UPDATE parcels SET id = 2 WHERE id = 1', 'it has 2 rows of the keys that are changed, and not 1'],
    ['ALTER TABLE parcels ADD COLUMN mine INTEGER', COLUMNS],
    ['ALTER TABLE parcels RENAME name TO label', COLUMNS],
    ['ALTER TABLE parcels ALTER id TYPE INTEGER', COLUMNS],
    ['DROP TABLE parcels', 'parcels'],
    ['CREATE UNIQUE INDEX mine ON parcels (name)', 'violates unique constraint'],
  ];
  it('V7 V10 changes nothing where the table was altered by hand, until a load replaces it', async () => {
    const { world, course } = await threePeople();
    for (const [sql, message] of BY_HAND) {
      const { version } = course.publishRows(THREE_PEOPLE.with(1, [2, 'two, again']));
      course.publishRows(THREE_PEOPLE.with(1, [2, 'one']));
      await world.byHand(sql);
      const before = await world.dump();
      const error = errorOf(await world.apply(course));
      expect(error, sql).toBeInstanceOf(InapplicableChangesError);
      expect(error, sql).toMatchObject({ datasetId: 'parcels', version });
      expect(error.message).toContain(message);
      expect(await world.dump(), sql).toEqual(before);
      course.publishRows(THREE_PEOPLE);
      await world.load(course);
      expect(await world.differences(course), sql).toEqual([]);
    }
  });

  it('V7 fails changes of a row whose key was made null by hand', async () => {
    const { world, course } = await threePeople();
    await world.byHand('UPDATE parcels SET id = NULL WHERE id = 2');
    course.publishRows([
      [1, 'one'],
      [2, 'TWO'],
      [3, 'three'],
    ]);
    expect(errorOf(await world.apply(course)).message).toContain('would have 4 rows');
  });
});

it('commits the other write jobs of a batch of several kinds where some fail', async () => {
  const { world, course: good } = await threePeople();
  const [bad, leaving] = [
    await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), 'bad'),
    await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), 'leaving'),
  ];
  const fresh = world.published(firstContent(PEOPLE, THREE_PEOPLE), 'fresh');
  await world.byHand('DELETE FROM bad WHERE id = 3');
  for (const course of [good, bad]) course.publishRows([[1, 'changed'], ...THREE_PEOPLE.slice(1)]);
  const stale = await world.observed(leaving.datasetId);
  const outcomes = await world.execute(
    await good.changes(await world.observed()),
    await bad.changes(await world.observed('bad')),
    retirement(stale, 'archive'),
    await fresh.snapshot(fresh.newest(), null),
    retirement(stale, 'drop'),
  );
  expect(outcomes.map(({ kind, datasetId }) => [datasetId, kind])).toEqual([
    ['parcels', 'committed'],
    ['bad', 'failed'],
    ['leaving', 'retired'],
    ['fresh', 'committed'],
    ['leaving', 'stale-plan'],
  ]);
  const { datasets } = await world.mirror.has();
  expect([...datasets].map(([id, { version }]) => [id, version])).toEqual([
    ['bad', 1],
    ['fresh', 1],
    ['parcels', 2],
  ]);
});

describe('hostile names (F38, F39)', () => {
  it('changes columns with hostile names like others, and never executes a name', async () => {
    const world = await mirrorAtWork();
    const names = [
      'a"; DROP TABLE x; --',
      "it's",
      'present',
      'c0',
      'c1',
      'row_id',
      'feed-sync: table',
      'feed-sync: net',
      '__proto__',
      ' ',
      'x'.repeat(5_000),
    ];
    const columns = names.map((name) => column(name, 'integer'));
    const schema = sourceSchema(columns, { keyColumns: ['c1', names[0] ?? ''] });
    const rowOf = (number: number): Row => names.map((_, index) => number * 100 + index);
    const course = await world.loaded(firstContent(schema, [rowOf(1), rowOf(2)]));
    const changed = rowOf(2).with(1, -1);
    course.publishRows([changed, rowOf(3)]);
    expect(await world.apply(course)).toMatchObject({
      committed: { net: { added: 1, changed: 1, removed: 1 } },
    });
    expect((await world.observed()).columns.map(({ name }) => name)).toEqual(names);
    const stored = await inMirror(world.folder, 'FROM parcels ORDER BY c0');
    expect(stored).toEqual([changed, rowOf(3)].map((row) => row.map(String)));
  });

  it.each(['rowid', 'ROWID'])('changes a table whose column %s hides the addresses of rows', async (name) => {
    const world = await mirrorAtWork();
    const columns = [column(name, 'integer', false), column('name', 'string')];
    const course = await world.loaded(
      firstContent(sourceSchema(columns, { keyColumns: [name] }), THREE_PEOPLE),
    );
    const next: readonly Row[] = [
      [1, 'one'],
      [2, 'TWO'],
      [4, 'four'],
    ];
    course.publishRows(next);
    expect(await world.apply(course)).toMatchObject({
      committed: { net: { added: 1, changed: 1, removed: 1 }, rowCount: 3 },
    });
    expect(await world.differences(course)).toEqual([]);
    await world.byHand(`UPDATE parcels SET "${name}" = 2 WHERE "${name}" = 1`);
    course.publishRows(THREE_PEOPLE);
    const error = errorOf(await world.apply(course));
    expect(error.message).toContain('rows of the keys that are changed');
  });

  it('fails before the mirror is touched where a schema version cannot be stored in a database', async () => {
    const { world, course } = await threePeople();
    course.publishRows(THREE_PEOPLE.slice(1));
    const { schema } = await course.changes(await world.observed());
    const unstorable = { schema: { ...schema, schemaVersion: '2\0' } };
    await expect(world.apply(course, unstorable)).rejects.toThrow(DataError);
  });
});
