/** The contract of a destination, run against each: DuckDB, and PostgreSQL as npm brings it. */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { present } from '../../src/lib/assert.ts';
import type { CommitPosition } from '../../src/model/commits.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { type DestinationKind, destinationKinds } from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

/** One of the three is gone, one has changed, and one is new. */
const NEXT_PEOPLE: readonly Row[] = [
  [2, 'TWO'],
  [3, 'three'],
  [4, 'four'],
];

/** What all commits to the table have in common once it is gone. */
const COMMIT = { datasetId: 'parcels', tableName: 'parcels', rowCount: null };

const KINDS = destinationKinds();

/** A destination with a table of three people. */
async function threePeople(kind: DestinationKind) {
  const world = await kind.open();
  return { world, course: await world.loaded(firstContent(PEOPLE, THREE_PEOPLE)) };
}

describe.each(KINDS)('the destination $name', (kind) => {
  it('a destination is empty until a dataset is enrolled', async () => {
    const world = await kind.open();
    const { service, datasets, progress, retired } = await world.destination.has();
    expect(service).toEqual({ origin: 'https://feed.example', subscriptionIds: ['sub_1'] });
    expect([datasets.size, progress, retired]).toEqual([0, null, []]);
  });

  it('loads a snapshot and records it in the same transaction', async () => {
    const { world } = await threePeople(kind);
    expect(await world.rows()).toEqual([
      ['1', 'one'],
      ['2', 'two'],
      ['3', 'three'],
    ]);
    expect(await world.observed()).toMatchObject({
      tableName: 'parcels',
      commitNumber: 1,
      version: 1,
      rowCount: 3,
      keyColumns: ['id'],
    });
  });

  it('lists its commits in order, from a position on, and from the first for a position of another mirror', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows([[4, 'four']]);
    await world.apply(course);
    await world.retire(course, 'archive');
    const all = await world.source.commits(null, { limit: 9, upTo: null });
    expect(all.commits.map(({ appliedAt, ...commit }) => commit)).toEqual([
      { ...COMMIT, commitNumber: 1, kind: 'load', fromVersion: null, toVersion: 1, net: null },
      {
        ...COMMIT,
        commitNumber: 2,
        kind: 'changes',
        fromVersion: 1,
        toVersion: 2,
        net: { added: 1, changed: 0, removed: 3 },
      },
      {
        ...COMMIT,
        commitNumber: 3,
        kind: 'retire',
        fromVersion: 2,
        toVersion: 2,
        net: { added: 0, changed: 0, removed: 1 },
      },
    ]);
    expect(all.hasMore).toBe(false);
    const first = await world.source.commits(null, { limit: 1, upTo: null });
    expect([first.commits.length, first.hasMore]).toEqual([1, true]);
    const next = await world.source.commits(first.position, { limit: 9, upTo: 2 });
    expect([next.commits.map(({ commitNumber }) => commitNumber), next.hasMore]).toEqual([[2], false]);
    expect((await world.source.commits(all.position, { limit: 9, upTo: null })).commits).toEqual([]);
    const foreign = { ...all.position, mark: 'of another mirror' };
    expect((await world.source.commits(foreign, { limit: 9, upTo: null })).commits).toHaveLength(3);
  });

  it('stores how far the command after commits got, which counts where it is later, and of this mirror', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows([[4, 'four']]);
    await world.apply(course);
    await world.retire(course, 'archive');
    const commitsAfter = async (after: CommitPosition | null): Promise<readonly number[]> => {
      const { commits } = await world.source.commits(after, { limit: 9, upTo: null });
      return commits.map(({ commitNumber }) => commitNumber);
    };
    const upTo = async (number: number) =>
      (await world.source.commits(null, { limit: 9, upTo: number })).position;
    const [first, second, third] = [await upTo(1), await upTo(2), await upTo(3)];
    await world.source.storeBookmark(second);
    expect(await commitsAfter(null)).toEqual([3]);
    expect(await commitsAfter(first)).toEqual([3]);
    expect(await commitsAfter(third)).toEqual([]);
    await world.source.storeBookmark({ ...third, mark: 'ofanother' });
    expect(await commitsAfter(null)).toEqual([1, 2, 3]);
    expect(await commitsAfter(first)).toEqual([2, 3]);
    await world.source.storeBookmark(first);
    await world.byHand("UPDATE feed_sync.meta SET value = 'altered' WHERE key = 'hook'");
    expect(await commitsAfter(null)).toEqual([1, 2, 3]);
  });

  it('applies changes and counts what was added, changed and removed', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows([
      [1, 'one'],
      [2, 'TWO'],
      [4, ''],
      [5, null],
    ]);
    const result = await world.apply(course);
    expect(result).toMatchObject({
      kind: 'committed',
      committed: {
        kind: 'changes',
        fromVersion: 1,
        toVersion: 2,
        rowCount: 4,
        net: { added: 2, changed: 1, removed: 1 },
      },
    });
    expect(result).toMatchObject({ committed: { observed: await world.observed() } });
    expect(await world.rows()).toEqual([
      ['1', 'one'],
      ['2', 'TWO'],
      ['4', ''],
      ['5', null],
    ]);
  });

  it('coalesces a backlog, so that a key that was removed and came back is one row', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows([[2, 'two']]);
    course.publishRows([
      [1, 'again'],
      [2, 'two'],
    ]);
    expect(await world.apply(course)).toMatchObject({
      committed: { versions: 2, net: { added: 0, changed: 1, removed: 1 } },
    });
    expect(await world.rows()).toEqual([
      ['1', 'again'],
      ['2', 'two'],
    ]);
  });

  it('loads a snapshot in the place of a table, and counts the difference by key', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows(NEXT_PEOPLE);
    expect(await world.load(course)).toMatchObject({
      kind: 'committed',
      committed: { kind: 'snapshot', fromVersion: 1, toVersion: 2, net: { added: 1, removed: 1 } },
    });
    expect(await world.rows()).toEqual([
      ['2', 'TWO'],
      ['3', 'three'],
      ['4', 'four'],
    ]);
  });

  it('writes no row of a reload without differences, and counts them without an index of the key, too', async () => {
    const { world, course } = await threePeople(kind);
    const changed = kind.name === 'DuckDB' ? null : 0;
    expect(await world.load(course)).toMatchObject({ committed: { net: { added: 0, changed, removed: 0 } } });
    await world.withoutKey();
    course.publishRows(NEXT_PEOPLE);
    expect(await world.load(course)).toMatchObject({
      committed: { net: { added: 1, changed: kind.name === 'DuckDB' ? null : 1, removed: 1 } },
    });
    expect(await world.rows()).toHaveLength(3);
    await world.withoutKey();
    await world.byHand(`INSERT INTO ${world.table} VALUES (2, 'two'), (NULL, 'none')`);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual([
      ['2', 'TWO'],
      ['3', 'three'],
      ['4', 'four'],
    ]);
  });

  it('adds a column with the changes that fill it', async () => {
    const { world, course } = await threePeople(kind);
    const schema = { ...sourceSchema([...PEOPLE.columns, column('age', 'integer')]), schemaVersion: '2' };
    const rows: readonly Row[] = [
      [1, 'one', 11],
      [2, 'two', null],
      [3, 'three', null],
    ];
    const change = { op: 'changed', row: [1, 'one', 11] } as const;
    course.publish({ schema, rowCount: 3, rows: () => rows, changes: [change] });
    expect(await world.apply(course)).toMatchObject({
      kind: 'committed',
      committed: { net: { changed: 1 } },
    });
    expect(await world.rows()).toEqual([
      ['1', 'one', '11'],
      ['2', 'two', null],
      ['3', 'three', null],
    ]);
  });

  it('loads a snapshot of another schema, with other keys', async () => {
    const { world, course } = await threePeople(kind);
    const schema = {
      ...sourceSchema([column('code', 'string', false), column('id', 'number')]),
      schemaVersion: '2',
      keyColumns: ['code'],
    };
    const rows: readonly Row[] = [['a', 1.5]];
    course.publish({ schema, rowCount: 1, rows: () => rows, changes: null });
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual([['a', '1.5']]);
    expect(await world.observed()).toMatchObject({ keyColumns: ['code'], schemaVersion: '2' });
  });

  it('retires a table to the archive, and loads it again under its name', async () => {
    const { world, course } = await threePeople(kind);
    const retired = await world.retire(course, 'archive');
    const name = new RegExp(`^${world.archive}\\.parcels__1_\\d{8}t\\d{6}z$`);
    expect(retired).toMatchObject({ kind: 'retired', table: expect.stringMatching(name) });
    expect((await world.destination.has()).datasets.size).toBe(0);
    expect((await world.destination.has()).retired).toMatchObject([{ datasetId: 'parcels' }]);
    expect(await world.load(course)).toMatchObject({ kind: 'committed', committed: { fromVersion: null } });
    expect(await world.rows()).toHaveLength(3);
    await world.retire(course, 'archive');
  });

  it('keeps a retired table where it is, and loads it again under its name', async () => {
    const { world, course } = await threePeople(kind);
    expect(await world.retire(course, 'keep')).toMatchObject({ kind: 'retired' });
    course.publishRows([[7, 'seven']]);
    expect(await world.load(course)).toMatchObject({ kind: 'committed', committed: { fromVersion: null } });
    expect(await world.rows()).toEqual([['7', 'seven']]);
  });

  it('changes nothing for a job that was planned from another state', async () => {
    const { world, course } = await threePeople(kind);
    const before = await world.observed();
    course.publishRows([[1, 'one']]);
    const late = await course.changes(before);
    await world.apply(course);
    expect(await world.execute(late)).toMatchObject([{ kind: 'stale-plan' }]);
    expect(await world.execute(await course.snapshot(course.newest(), before))).toMatchObject([
      { kind: 'stale-plan' },
    ]);
  });

  it('refuses repeated keys and leaves the table and the other jobs as they are', async () => {
    const { world, course } = await threePeople(kind);
    const other = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE), 'roads');
    const rows: readonly Row[] = [
      [1, 'one'],
      [1, 'again'],
    ];
    course.publish({ schema: PEOPLE, rowCount: 2, rows: () => rows, changes: null });
    other.publishRows([[9, 'nine']]);
    const results = await world.execute(
      await course.snapshot(course.newest(), await world.observed()),
      await other.changes(await world.observed('roads')),
    );
    expect(results.map(({ kind: of }) => of)).toEqual(['failed', 'committed']);
    const error = errorOf(present(results[0], 'it failed'));
    expect(errorCodeOf(error)).toBe('data_invalid');
    expect(error.message).toMatch(/key id = "1" of parcels is there 2 times/);
    expect(await world.rows()).toHaveLength(3);
    expect(await world.rows('roads')).toEqual([['9', 'nine']]);
  });

  it('refuses a snapshot whose row count is not the one that the manifest states', async () => {
    const { world, course } = await threePeople(kind);
    const job = await course.snapshot(course.newest(), await world.observed());
    const wrong = { ...job, expectedRowCounts: [{ rowCount: 4, statedBy: 'the manifest' }] };
    const refused = await world.destination.validate(wrong).catch((error: unknown) => error);
    expect(errorCodeOf(refused)).toBe('data_invalid');
  });

  it('falls back to the snapshot where the table was dropped or altered by hand, which restores it', async () => {
    const { world, course } = await threePeople(kind);
    course.publishRows([[1, 'ONE']]);
    await world.byHand(`ALTER TABLE ${world.table} DROP COLUMN name`);
    expect(errorCodeOf(errorOf(await world.apply(course)))).toBe('changes_inapplicable');
    await world.byHand(`DROP TABLE ${world.table}`);
    expect(errorCodeOf(errorOf(await world.apply(course)))).toBe('changes_inapplicable');
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual([['1', 'ONE']]);
  });

  it('F70 adds no column to rows that were altered by hand: it falls back to the snapshot, which restores them', async () => {
    const { world, course } = await threePeople(kind);
    await world.byHand(`UPDATE ${world.table} SET name = 'uno' WHERE id = 1`);
    course.publish(withAddedColumn(course.newest().content, column('age', 'integer'), () => 7));
    const refused = errorOf(await world.apply(course, { addsColumns: true }));
    expect(errorCodeOf(refused)).toBe('changes_inapplicable');
    expect(refused.message).toContain('the rows of the table parcels are not those it was left with');
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual([
      ['1', 'one', '7'],
      ['2', 'two', '7'],
      ['3', 'three', '7'],
    ]);
  });

  it.each([
    ['the key column', [column('id', 'integer', false), column('name', 'string')], ['id']],
    [
      'one of two key columns',
      [column('id', 'integer', false), column('name', 'string', false)],
      ['id', 'name'],
    ],
  ])(
    'applies no changes where the catalog has lost %s of the table, and blames the catalog',
    async (_, columns, keys) => {
      const world = await kind.open();
      const course = await world.loaded(
        firstContent(sourceSchema(columns, { keyColumns: keys }), THREE_PEOPLE),
      );
      await world.byHand("DELETE FROM feed_sync.columns WHERE column_name = 'id'");
      course.publishRows([[4, 'one']]);
      const refused = await world.apply(course).then(errorOf, (error: unknown) => error);
      expect(errorCodeOf(refused)).toBe('changes_inapplicable');
      expect(String(refused)).toContain(
        'feed_sync.columns does not list the key columns of the table parcels',
      );
      expect(await world.load(course)).toMatchObject({ kind: 'committed' });
      expect(await world.rows()).toContainEqual(['4', 'one']);
    },
  );

  it('finds a value, a row and a column that were changed by hand', async () => {
    const { world } = await threePeople(kind);
    const counted = async () => {
      const reader = await world.reader();
      try {
        return (await reader.count(['parcels'], () => false))[0]?.table;
      } finally {
        await reader.close();
      }
    };
    expect(await counted()).toMatchObject({ rowCount: 3, hasRecordedChecksum: true, strayColumns: [] });
    await world.byHand(`UPDATE ${world.table} SET name = 'uno' WHERE id = 1`);
    expect(await counted()).toMatchObject({ rowCount: 3, hasRecordedChecksum: false });
    await world.byHand(`DELETE FROM ${world.table} WHERE id = 1`);
    expect(await counted()).toMatchObject({ rowCount: 2 });
    await world.byHand(`ALTER TABLE ${world.table} ADD COLUMN extra INTEGER`);
    expect(await counted()).toMatchObject({ strayColumns: [{ columnName: 'extra', expected: null }] });
    await world.byHand(`DROP TABLE ${world.table}`);
    expect(await counted()).toBeNull();
  });

  it('never touches a table of an operator under the name of a dataset', async () => {
    const world = await kind.open();
    await world.destination.enroll({
      origin: 'https://feed.example',
      subscriptionIds: ['sub_1'],
      forgottenSubscriptionIds: [],
      datasetIds: ['parcels'],
    });
    await world.byHand(`CREATE TABLE ${world.table} (mine INTEGER)`);
    const course = world.published(firstContent(PEOPLE, THREE_PEOPLE));
    expect(errorCodeOf(errorOf(await world.load(course)))).toBe('dataset_storage_failed');
    await world.byHand(`DROP TABLE ${world.table}`);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
  });

  it('stores progress, replaces it, and forgets a subscription', async () => {
    const { world } = await threePeople(kind);
    const progress = {
      subscriptions: [
        {
          subscriptionId: 'sub_1',
          name: 'Counties',
          logNumber: 1,
          eventNumber: 9_007_199_254_740_993n,
          eventCreatedAt: new Date('2026-01-01T00:00:00.123Z'),
          positionAt: new Date('2026-01-02T00:00:00Z'),
          statesLastEvent: true,
        },
      ],
      members: [{ subscriptionId: 'sub_1', datasetId: 'parcels', addedEvent: 1n, droppedEvent: null }],
      owed: [
        { datasetId: 'parcels', subscriptionId: 'sub_1', logNumber: 1, eventNumber: 8n, createdAt: null },
      ],
    };
    expect(await world.destination.storeProgress(progress, 'wait')).toBe(true);
    expect((await world.destination.has()).progress).toEqual(progress);
    const later = { ...progress, owed: [] };
    expect(await world.destination.storeProgress(later, 'if-free')).toBe(true);
    expect((await world.destination.has()).progress).toEqual(later);
    await world.destination.enroll({
      origin: 'https://feed.example',
      subscriptionIds: ['sub_2'],
      forgottenSubscriptionIds: ['sub_1'],
      datasetIds: [],
    });
    const { service, progress: left } = await world.destination.has();
    expect([service?.subscriptionIds, left]).toEqual([['sub_2'], null]);
  });

  it('F72 keeps the resyncs of operators beside the reloads that logs ask for, if several instances use it', async () => {
    const { world } = await threePeople(kind);
    const { destination } = world;
    const owed = { datasetId: 'parcels', logNumber: 1, eventNumber: 8n, createdAt: null };
    const ofLog = { ...owed, subscriptionId: 'sub_1' };
    const ofOperator = { ...owed, subscriptionId: '', createdAt: new Date('2026-01-01T00:00:00.123Z') };
    await destination.storeProgress({ subscriptions: [], members: [], owed: [ofLog] }, 'wait');
    await destination.keepResyncs?.([ofOperator]);
    const later = { ...ofOperator, eventNumber: 9n };
    await destination.keepResyncs?.([later]);
    const { progress } = await destination.has();
    expect(
      progress?.owed.toSorted((one, other) => one.subscriptionId.localeCompare(other.subscriptionId)),
    ).toEqual(destination.keepResyncs === undefined ? [ofLog] : [later, ofLog]);
    expect(destination.keepResyncs === undefined).toBe(kind.name === 'DuckDB');
    await destination.storeProgress({ subscriptions: [], members: [], owed: [ofLog] }, 'wait');
    expect((await destination.has()).progress?.owed).toEqual([ofLog]);
  });

  it('reads with SQL, and refuses to write', async () => {
    const { world } = await threePeople(kind);
    const reader = await world.reader();
    try {
      const { columnNames, rows } = await reader.query('SELECT id, name FROM parcels ORDER BY id LIMIT 2');
      const read = [];
      for await (const row of rows) read.push(row.map(String));
      expect([columnNames, read]).toEqual([
        ['id', 'name'],
        [
          ['1', 'one'],
          ['2', 'two'],
        ],
      ]);
    } finally {
      await reader.close();
    }
    const again = await world.reader();
    try {
      const deletion = again.query(`DELETE FROM ${world.table}`);
      await expect(deletion).rejects.toMatchObject({ code: 'usage_invalid' });
    } finally {
      await again.close();
    }
  });
});

describe.skipIf(KINDS.length < 2)('the content in DuckDB and in PostgreSQL', () => {
  const sources = generateDatasets({ seed: 5, counties: 1, rowsPerDataset: 25 });

  it.each(sources.map((source) => [source.topic, source] as const))(
    'DuckDB and PostgreSQL have equal content for %s in every type, after a load, changes and a reload',
    async (_topic, source) => {
      const worlds = await Promise.all(KINDS.map((kind) => kind.open()));
      let content = source.initial();
      const published = worlds.map((world) => ({
        world,
        course: world.published(content, source.datasetId),
      }));
      const takesChanges = content.schema.keyColumns.length > 0;
      for (const [seed, how] of (['load', 'apply', 'load', 'apply'] as const).entries()) {
        if (seed > 0) content = source.next(content, seed);
        const contents = published.map(async ({ world, course }) => {
          if (seed > 0) course.publish(content);
          const result = await (takesChanges ? world[how](course) : world.load(course));
          expect(result, how).toMatchObject({ kind: 'committed' });
          return await world.rows(source.datasetId);
        });
        const [duckDb, postgres] = await Promise.all(contents);
        expect(duckDb?.length).toBe(content.rowCount);
        expect(postgres).toEqual(duckDb);
      }
    },
  );
});
