/** Rollback: a commit that restores the state after an earlier one, proven, and pins the table there (F69). */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import type { ObservedTable, RollbackJob } from '../../src/model/write-jobs.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { errorOf, type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { ALL_HISTORY, OWNERS, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

const FIRST = THREE_PEOPLE;
const SECOND: readonly Row[] = [
  [1, 'ONE'],
  [3, 'three'],
  [4, 'four'],
];

async function world() {
  const made = await mirrorAtWork({ history: ALL_HISTORY });
  return { world: made, course: await made.loaded(firstContent(PEOPLE, FIRST)) };
}

async function rollBack(
  { execute, observed }: MirrorAtWork,
  toCommit: number,
  version: number,
  changed: Partial<RollbackJob> = {},
): Promise<JobResult> {
  const plannedFrom = await observed();
  const fetched = { bytes: 0, elapsedMs: () => 0 };
  const [result] = await execute({
    kind: 'rollback',
    datasetId: 'parcels',
    toCommit,
    version,
    fetched,
    plannedFrom,
    ...changed,
  });
  if (result === undefined) throw new Error('a job has a result');
  return result;
}

async function rolledBack(world: MirrorAtWork, toCommit: number, version: number) {
  const result = await rollBack(world, toCommit, version);
  if (result.kind !== 'committed') throw errorOf(result);
  expect(result.committed.observed).toEqual(await world.observed());
  return result.committed;
}

const ROWS = 'FROM parcels ORDER BY ALL';

/** Returns the part of a table that a rollback restores, without the time of the commit. */
function restored({ appliedAt: _, pinnedSince: _since, commitNumber: _number, ...table }: ObservedTable) {
  return table;
}

describe('a rollback', () => {
  it('F69 restores rows, columns and catalog of a commit, in a commit of its own that pins the table', async () => {
    const { world: at, course } = await world();
    const first = await at.observed();
    const rows = await inMirror(at.folder, ROWS);
    course.publishRows(SECOND);
    await at.apply(course);
    expect(await rolledBack(at, 1, 1)).toMatchObject({
      kind: 'rollback',
      fromVersion: 2,
      toVersion: 1,
      net: { added: 1, changed: 1, removed: 1 },
    });
    const table = await at.observed();
    expect(restored(table)).toEqual(restored(first));
    expect(table.pinnedSince).toEqual(table.appliedAt);
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
    const commits = 'SELECT kind, from_version, to_version, row_count FROM feed_sync.commits ORDER BY ALL';
    expect(await inMirror(at.folder, `${commits} DESC LIMIT 1`)).toEqual([['rollback', '2', '1', '3']]);
  });

  it.each([
    ['a view stands in the place of the table', 'DROP TABLE parcels; CREATE VIEW parcels AS SELECT 1 AS id'],
    ['its log cannot be renamed', 'CREATE INDEX mine ON history.parcels (_commit)'],
  ])('F69 fails a rollback across columns where %s, and leaves the log as it is', async (_, byHand) => {
    const { world: at, course } = await world();
    course.publish(withAddedColumn(course.newest().content, column('note', 'string'), () => 'new'));
    await at.load(course);
    course.publishRows([[1, 'ONE', 'new']]);
    await at.load(course);
    await writeMirror(at.path, byHand);
    const log = 'SELECT * FROM history.parcels ORDER BY ALL';
    const logged = await inMirror(at.folder, log);
    expect(await rollBack(at, 1, 1)).toMatchObject({ kind: 'failed' });
    expect(await inMirror(at.folder, log)).toEqual(logged);
  });

  it('F69 rolls a rollback back, and keeps every earlier state known', async () => {
    const { world: at, course } = await world();
    const states = [await inMirror(at.folder, ROWS)];
    course.publishRows(SECOND);
    await at.apply(course);
    states.push(await inMirror(at.folder, ROWS));
    course.publishRows([[9, 'nine']]);
    await at.load(course);
    states.push(await inMirror(at.folder, ROWS));
    await rolledBack(at, 1, 1);
    states.push(await inMirror(at.folder, ROWS));
    await rolledBack(at, 3, 3);
    states.push(await inMirror(at.folder, ROWS));
    expect(states[3]).toEqual(states[0]);
    expect(states[4]).toEqual(states[2]);
    for (const [index, state] of states.entries()) {
      const asOf = `SELECT * FROM history.parcels_as_of_commit(${index + 1}) ORDER BY ALL`;
      expect(await inMirror(at.folder, asOf), `commit ${index + 1}`).toEqual(state);
    }
  });

  it('F69 rolls back past a schema change, to the rows of the frozen table and its log', async () => {
    const { world: at, course } = await world();
    const first = await at.observed();
    const rows = await inMirror(at.folder, ROWS);
    course.publish(firstContent(OWNERS, [[1, 'Ann']]));
    await at.load(course);
    await rolledBack(at, 1, 1);
    expect(restored(await at.observed())).toEqual(restored(first));
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
    await rolledBack(at, 2, 2);
    expect(await inMirror(at.folder, ROWS)).toEqual([['1', 'Ann']]);
  });

  it('F69 removes columns that were added since the restored commit', async () => {
    const { world: at, course } = await world();
    const first = await at.observed();
    const rows = await inMirror(at.folder, ROWS);
    course.publish(withAddedColumn(course.newest().content, column('note', 'string'), () => 'new'));
    await at.apply(course);
    await rolledBack(at, 1, 1);
    expect(restored(await at.observed())).toEqual(restored(first));
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
    await rolledBack(at, 2, 2);
    expect(await inMirror(at.folder, 'SELECT DISTINCT note FROM parcels')).toEqual([['new']]);
  });

  it('F69 owes the reloads again that the restored state does not satisfy', async () => {
    const { world: at, course } = await world();
    const satisfied = { logNumber: 1, eventNumber: 7n, createdAt: new Date('2026-01-01T00:00:00Z') };
    const job = await course.snapshot(course.newest(), await at.observed());
    await at.execute({ ...job, reloads: new Map([['sub_1', satisfied]]) });
    expect((await at.observed()).reloads).toEqual(new Map([['sub_1', satisfied]]));
    await rolledBack(at, 1, 1);
    expect((await at.observed()).reloads).toEqual(new Map());
    expect(await inMirror(at.folder, 'SELECT * EXCLUDE (created_at) FROM feed_sync.owed')).toEqual([
      ['parcels', 'sub_1', '1', '7'],
    ]);
    await rolledBack(at, 2, 1);
    expect((await at.observed()).reloads).toEqual(new Map([['sub_1', satisfied]]));
  });

  it('F70 refuses a rollback where rows were altered by hand, and advises to repair the table first', async () => {
    const { world: at, course } = await world();
    course.publishRows(SECOND);
    await at.apply(course);
    await at.byHand("UPDATE parcels SET name = 'by hand' WHERE id = 3");
    const before = await at.dump();
    const error = errorOf(await rollBack(at, 1, 1));
    expect(error).toMatchObject({
      code: 'data_invalid',
      message: expect.stringMatching(/^parcels cannot be rolled back to commit 1: .*Nothing was changed\.$/),
      hint: 'Repair the table first: feed-sync verify --deep --repair parcels',
    });
    expect(await at.dump()).toEqual(before);
  });

  it('F69 restores a table that got a further column by hand, and keeps its rows in the history', async () => {
    const { world: at, course } = await world();
    const rows = await inMirror(at.folder, ROWS);
    course.publishRows(SECOND);
    await at.apply(course);
    await at.byHand('ALTER TABLE parcels ADD COLUMN mine VARCHAR');
    await rolledBack(at, 1, 1);
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
    const before = 'FROM history.parcels__3_log_as_of_commit(2) ORDER BY ALL';
    expect(await inMirror(at.folder, before)).toEqual(SECOND.map((row) => row.map(String)));
  });

  it('restores a row that was altered by hand where the rollback concerns it', async () => {
    const { world: at, course } = await world();
    const rows = await inMirror(at.folder, ROWS);
    course.publishRows(SECOND);
    await at.apply(course);
    await at.byHand("UPDATE parcels SET name = 'by hand' WHERE id = 1");
    await rolledBack(at, 1, 1);
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
  });

  it('F69 refuses changes and loads of a pinned table, but not its own content after damage', async () => {
    const { world: at, course } = await world();
    const own = course.newest();
    course.publishRows(SECOND);
    await at.apply(course);
    await rolledBack(at, 1, 1);
    const rows = await inMirror(at.folder, ROWS);
    const refused = {
      code: 'dataset_storage_failed',
      message: expect.stringContaining('pinned at version 1'),
    };
    expect(errorOf(await at.apply(course))).toMatchObject(refused);
    expect(errorOf(await at.load(course))).toMatchObject(refused);
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);

    await at.byHand("UPDATE parcels SET name = 'by hand' WHERE id = 3");
    const [mended] = await at.execute(await course.snapshot(own, await at.observed()));
    expect(mended).toMatchObject({ kind: 'committed' });
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
    expect((await at.observed()).pinnedSince).not.toBeNull();
    await at.mirror.unpin('parcels');
    expect((await at.observed()).pinnedSince).toBeNull();
    expect(await at.load(course)).toMatchObject({ kind: 'committed' });
  });

  it('F69 ends the pin with the retirement of the table', async () => {
    const { world: at, course } = await world();
    course.publishRows(SECOND);
    await at.apply(course);
    await rolledBack(at, 1, 1);
    expect(await at.retire(course, 'archive')).toMatchObject({ kind: 'retired' });
    await at.load(course);
    expect((await at.observed()).pinnedSince).toBeNull();
  });

  it('F71 rolls back past a retirement and a return', async () => {
    const { world: at, course } = await world();
    const rows = await inMirror(at.folder, ROWS);
    await at.retire(course, 'archive');
    course.publishRows(SECOND);
    await at.load(course);
    await rolledBack(at, 1, 1);
    expect(await inMirror(at.folder, ROWS)).toEqual(rows);
  });

  it('rolls nothing back where the table is not the one that the rollback was planned from', async () => {
    const { world: at, course } = await world();
    const plannedFrom = await at.observed();
    course.publishRows(SECOND);
    await at.apply(course);
    expect(await rollBack(at, 1, 1, { plannedFrom })).toEqual({ kind: 'stale-plan', datasetId: 'parcels' });
  });

  it('refuses a rollback to a state that the log does not reach', async () => {
    let isOn = false;
    const at = await mirrorAtWork({ history: { ...ALL_HISTORY, keeps: () => isOn } });
    const course = await at.loaded(firstContent(PEOPLE, FIRST));
    course.publishRows(SECOND);
    await at.apply(course);
    await expect(rollBack(at, 1, 1).then(errorOf)).resolves.toMatchObject({
      message: 'parcels has no history: its earlier states are not known.',
    });
    isOn = true;
    course.publishRows([[1, 'x']]);
    await at.apply(course);
    await expect(rollBack(at, 1, 1).then(errorOf)).resolves.toMatchObject({ code: 'usage_invalid' });
    await rolledBack(at, 2, 2);
    expect(await inMirror(at.folder, ROWS)).toHaveLength(3);
  });
});
