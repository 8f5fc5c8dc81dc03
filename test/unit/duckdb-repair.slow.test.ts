/** The comparison of a table with the content of the service, and its repair, which writes the rows that differ and no others (F70). */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { openComparer } from '../../src/destination/duckdb/compare-table.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { VersionContent } from '../../src/model/write-jobs.ts';
import { commitAll } from '../support/commit-all.ts';
import { damageBlock } from '../support/damaged-mirror.ts';
import { firstContent, publishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror, mirrorIn } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { ALTERED, contentFrom, repairJob } from '../support/repairing.ts';
import { column } from '../support/small-content.ts';

const HISTORY = { history: ALL_HISTORY };

async function threePeople(options: Parameters<typeof mirrorAtWork>[0] = {}, schema = PEOPLE) {
  const world = await mirrorAtWork(options);
  const course = world.published(firstContent(schema, THREE_PEOPLE));
  const first = course.newest();
  await world.load(course);
  return { world, course, first };
}

async function compare(world: MirrorAtWork, content: VersionContent) {
  const directory = join(world.folder, 'verify');
  mkdirSync(directory, { recursive: true });
  const comparer = await openComparer({
    path: world.path,
    directory,
    memoryLimitBytes: 500_000_000,
    threads: 1,
    reserveBytes: 0,
    waitMs: 10_000,
    clock: systemClock,
    random: { next: () => 0.5 },
    signal: new AbortController().signal,
  });
  try {
    return await comparer.compare(await world.observed(content.datasetId), content, () => {});
  } finally {
    comparer.close();
  }
}

async function repair(world: MirrorAtWork, content: VersionContent) {
  const [result] = await world.execute(await repairJob(world, content));
  if (result === undefined) throw new Error('a job has a result');
  return result;
}

const commits = (world: MirrorAtWork) =>
  inMirror(
    world.folder,
    'SELECT kind, added, changed, removed FROM feed_sync.commits ORDER BY commit_number',
  );
const rows = (world: MirrorAtWork) => inMirror(world.folder, 'FROM parcels ORDER BY ALL');

describe('a comparison', () => {
  it('finds a table equal that has the rows of the snapshot, or of the snapshot and the changes after it', async () => {
    const { world, course, first } = await threePeople();
    const equal = { kind: 'equal', unrecorded: null };
    expect(await compare(world, await contentFrom(first, course, world))).toEqual(equal);
    course.publishRows([
      [1, 'ONE'],
      [3, 'three'],
      [5, 'five'],
    ]);
    course.publishRows([
      [1, 'One'],
      [3, 'three'],
      [6, null],
    ]);
    await world.apply(course);
    expect(await compare(world, await contentFrom(first, course, world))).toEqual(equal);
    expect(await compare(world, await contentFrom(course.newest(), course, world))).toEqual(equal);
  });

  it('finds a row that was repeated by hand, and one whose key was made null', async () => {
    const { world, course, first } = await threePeople();
    await world.byHand(
      'INSERT INTO parcels SELECT * FROM parcels WHERE id = 1',
      'UPDATE parcels SET id = NULL WHERE id = 3',
    );
    expect(await compare(world, await contentFrom(first, course, world))).toMatchObject({
      kind: 'different',
      difference: { added: 1, changed: 0, removed: 2 },
    });
  });

  it('compares the rows of a table without keys as a multiset', async () => {
    const keyless = sourceSchema(PEOPLE.columns, { keyColumns: [] });
    const { world, course, first } = await threePeople({}, keyless);
    await world.byHand('INSERT INTO parcels SELECT * FROM parcels WHERE id = 1', ALTERED[0] ?? '');
    const content = await contentFrom(first, course, world);
    expect(await compare(world, content)).toEqual({
      kind: 'different',
      difference: { added: 1, changed: null, removed: 2 },
      keys: { added: [], changed: [], removed: [] },
    });
    expect(await repair(world, content)).toMatchObject({ kind: 'committed' });
    expect(await rows(world)).toEqual(THREE_PEOPLE.map((row) => row.map(String)));
  });

  it('returns the checksum of an equal table where the recorded one differs', async () => {
    const { world, course, first } = await threePeople();
    await world.byHand('UPDATE feed_sync.datasets SET checksum = checksum + 1');
    const content = await contentFrom(first, course, world);
    const compared = await compare(world, content);
    expect(compared).toMatchObject({ kind: 'equal', unrecorded: { sum: expect.any(BigInt) } });
    if (compared.kind !== 'equal' || compared.unrecorded === null) return;
    const { commitNumber, datasetId } = await world.observed();
    const stored = { datasetId, commitNumber, ...compared.unrecorded };
    expect(await world.mirror.storeChecksum({ ...stored, commitNumber: 7 })).toBe('stale');
    expect(await world.mirror.storeChecksum(stored)).toBe('stored');
    expect(await compare(world, content)).toEqual({ kind: 'equal', unrecorded: null });
    expect(await commits(world)).toHaveLength(1);
  });

  it('ends a comparison where the table got another commit meanwhile', async () => {
    const { world, course, first } = await threePeople();
    const content = await contentFrom(first, course, world);
    const before = await world.observed();
    await world.load(course);
    const directory = join(world.folder, 'verify');
    mkdirSync(directory, { recursive: true });
    expect(await compare({ ...world, observed: async () => before }, content)).toEqual({ kind: 'moved' });
  });

  it('names the column whose type was altered by hand', async () => {
    const { world, course, first } = await threePeople();
    await world.byHand('ALTER TABLE parcels ALTER COLUMN id TYPE VARCHAR');
    const content = await contentFrom(first, course, world);
    expect(await compare(world, content)).toMatchObject({ kind: 'other-columns' });
    expect(errorOf(await repair(world, content)).message).toContain('"id"');
  });

  it('names the column of a table in which a block cannot be read', async () => {
    const world = await mirrorAtWork();
    const many = Array.from({ length: 200_000 }, (_, id): Row => [id, `name ${(id * 7_919) % 1_000_003}`]);
    const course = world.published(firstContent(PEOPLE, many));
    await world.load(course);
    damageBlock(world.path, 'name 7919');
    const compared = await compare(world, await contentFrom(course.newest(), course, world));
    expect(compared).toMatchObject({ kind: 'damaged', columnName: 'name' });
  });
});

describe('a repair', () => {
  it('repairs the rows that differ and no others, in a commit of its own (F70)', async () => {
    const { world, course, first } = await threePeople();
    course.publishRows([...THREE_PEOPLE, [5, 'five']]);
    await world.apply(course);
    await world.byHand(...ALTERED);
    const before = await world.observed();
    const result = await repair(world, await contentFrom(first, course, world));
    if (result.kind !== 'committed') throw errorOf(result);
    const { appliedAt } = result.committed.observed;
    expect(result.committed.observed).toEqual({ ...before, commitNumber: 3, appliedAt });
    expect(await commits(world)).toEqual([
      ['load', null, null, null],
      ['changes', '1', '0', '0'],
      ['repair', '1', '1', '1'],
    ]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('repairs rows that were repeated, and rows with a null in the key', async () => {
    const { world, course, first } = await threePeople();
    await world.byHand(
      'INSERT INTO parcels SELECT * FROM parcels WHERE id = 1',
      'UPDATE parcels SET id = NULL WHERE id = 3',
    );
    expect(await repair(world, await contentFrom(first, course, world))).toMatchObject({ kind: 'committed' });
    expect(await world.differences(course)).toEqual([]);
  });

  it('repairs a table whose column hides the addresses of rows by writing it again', async () => {
    const hiding = sourceSchema([column('id', 'integer', false), column('rowid', 'string')]);
    const { world, course, first } = await threePeople({}, hiding);
    await world.byHand("UPDATE parcels SET rowid = 'x' WHERE id = 2");
    const content = await contentFrom(first, course, world);
    expect(await compare(world, content)).toMatchObject({ difference: { added: 0, changed: 1, removed: 0 } });
    expect(await repair(world, content)).toMatchObject({ kind: 'committed' });
    expect(await world.differences(course)).toEqual([]);
  });

  it('repairs nothing in a table that is equal, or that got another commit', async () => {
    const { world, course, first } = await threePeople();
    const content = await contentFrom(first, course, world);
    expect(errorOf(await repair(world, content)).message).toContain('nothing is to be repaired');
    const plannedFrom = { ...(await world.observed()), commitNumber: 9 };
    const job = { ...(await repairJob(world, content)), plannedFrom };
    expect(await world.execute(job)).toEqual([{ kind: 'stale-plan', datasetId: 'parcels' }]);
    expect(await commits(world)).toHaveLength(1);
  });

  it('refuses a repair with content whose row count differs from the one that the service states', async () => {
    const { world, course, first } = await threePeople();
    await world.byHand(...ALTERED);
    const content = await contentFrom(first, course, world);
    expect(errorOf(await repair(world, { ...content, rowCount: 4 })).message).toContain(
      'has 3 rows, and the service states 4',
    );
  });
});

describe('a repair of a table with history', () => {
  const log = (world: MirrorAtWork) =>
    inMirror(world.folder, 'SELECT closed_commit, closed_reason FROM feed_sync.history_logs');
  const entries = (world: MirrorAtWork) =>
    inMirror(world.folder, 'SELECT _commit, _operation, id FROM history.parcels ORDER BY ALL');
  const asOf = (world: MirrorAtWork, commit: number) =>
    inMirror(world.folder, `FROM history.parcels_as_of_commit(${commit}) ORDER BY ALL`);

  it('writes no entries for a repair that leads back to the committed rows, and leaves the log open (F70)', async () => {
    const { world, course, first } = await threePeople(HISTORY);
    course.publishRows(THREE_PEOPLE.slice(1));
    await world.apply(course);
    await world.byHand("UPDATE parcels SET name = 'TWO' WHERE id = 2");
    expect(await repair(world, await contentFrom(first, course, world))).toMatchObject({ kind: 'committed' });
    expect(await log(world)).toEqual([[null, null]]);
    expect(await entries(world)).toEqual([['2', 'removed', '1']]);
    expect(await asOf(world, 1)).toEqual(THREE_PEOPLE.map((row) => row.map(String)));
  });

  it('closes the log by a repair that changes more than the rows altered by hand, and names the reason (F70)', async () => {
    const { world } = await threePeople(HISTORY);
    await world.byHand("UPDATE parcels SET name = 'TWO' WHERE id = 2");
    // The service has other rows for the version by now.
    const other = publishedCourse(
      join(world.folder, 'other'),
      firstContent(PEOPLE, [[1, 'ONE'], ...THREE_PEOPLE.slice(1)]),
      'parcels',
    );
    const content = await contentFrom(other.newest(), other, world);
    expect(await repair(world, content)).toMatchObject({ kind: 'committed' });
    expect(await entries(world)).toEqual([]);
    expect(await log(world)).toEqual([['2', expect.stringContaining('altered outside feed-sync')]]);
    await expect(asOf(world, 1)).rejects.toThrow(/begins with commit 2 .*altered outside feed-sync/);
    expect(await world.differences(other)).toEqual([]);
  });

  const otherPeople = (world: MirrorAtWork) =>
    publishedCourse(
      join(world.folder, 'other'),
      firstContent(PEOPLE, [
        [1, 'ONE'],
        [2, 'two'],
        [4, 'four'],
      ]),
      'parcels',
    );

  it('fails a repair whose entries would take the reserve of the disk, and leaves table and log as they are', async () => {
    const { world } = await threePeople(HISTORY);
    const other = otherPeople(world);
    const job = await repairJob(world, await contentFrom(other.newest(), other, world));
    const before = await world.dump();
    const mirror = await mirrorIn(world.folder, { ...HISTORY, reserveBytes: 1e18 });
    expect(await commitAll(mirror, [await mirror.validate(job)])).toMatchObject([
      { kind: 'failed', error: { code: 'disk_full' } },
    ]);
    await mirror.close();
    expect(await world.dump()).toEqual(before);
  });

  it('logs a repair like any commit where the table has the committed rows', async () => {
    const { world } = await threePeople(HISTORY);
    const other = otherPeople(world);
    const result = await repair(world, await contentFrom(other.newest(), other, world));
    if (result.kind !== 'committed') throw errorOf(result);
    expect(await entries(world)).toEqual([
      ['2', 'added', '4'],
      ['2', 'changed', '1'],
      ['2', 'removed', '3'],
    ]);
    expect(await log(world)).toEqual([[null, null]]);
    expect(await asOf(world, 1)).toEqual(THREE_PEOPLE.map((row) => row.map(String)));
  });
});
