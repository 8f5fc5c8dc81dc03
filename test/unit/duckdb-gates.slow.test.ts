/** Gates in the mirror judge a commit inside its transaction (F68). */

import { describe, expect, it } from 'vitest';
import type { SourceSchema } from '../../fixtures/source/content.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import type { ChangesJob } from '../../src/model/write-jobs.ts';
import { commitAll } from '../support/commit-all.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror, mirrorIn } from '../support/duckdb-mirror.ts';
import {
  AGED_PEOPLE,
  apply,
  gate,
  judged,
  NONE_CHANGED,
  NONE_REMOVED,
  reload,
  rowsOf,
} from '../support/gated.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { ALL_HISTORY } from '../support/people.ts';
import { column } from '../support/small-content.ts';

const APPROVED = 'SELECT approved FROM feed_sync.commits ORDER BY commit_number';

async function people(schema: SourceSchema = AGED_PEOPLE) {
  const world = await mirrorAtWork();
  return { world, course: await world.loaded(firstContent(schema, rowsOf(10))) };
}

describe.each([
  ['a gate before changes', apply],
  ['a gate before a reload', reload],
] as const)('%s', (_, commit) => {
  it('leaves no trace of a commit that awaits approval, and commits it with the approval of its digest', async () => {
    const { world, course } = await people();
    const before = await world.dump();
    course.publishRows(rowsOf(8));
    const { digest, counts, keys } = judged(await commit(world, course, gate(NONE_REMOVED)));
    expect(counts).toMatchObject({ before: 10, after: 8, added: 0, removed: 2, isByKey: true });
    expect(keys).toEqual({ added: [], changed: [], removed: [['9'], ['10']] });
    expect(await world.dump()).toEqual(before);
    const other = await commit(world, course, gate(NONE_REMOVED, 'f'.repeat(64)));
    expect(judged(other).digest).toBe(digest);
    expect(await commit(world, course, gate(NONE_REMOVED, digest))).toMatchObject({ kind: 'committed' });
    expect(await inMirror(world.folder, APPROVED)).toEqual([[null], [true]]);
    expect(await world.differences(course)).toEqual([]);
  });

  it('commits within the limits of the gate', async () => {
    const { world, course } = await people();
    course.publishRows(rowsOf(9));
    const limits = {
      ...NO_LIMITS,
      removedRows: { rows: 1, share: null },
      changedRows: { rows: 0, share: null },
    };
    const result = await commit(world, course, gate({ ...limits, emptied: true }));
    expect(result).toMatchObject({
      kind: 'committed',
      committed: { net: { added: 0, changed: 0, removed: 1 } },
    });
    expect(await world.differences(course)).toEqual([]);
  });
});

it('F07 does not compare a reload on a disk without the reserve, and leaves the table as it is', async () => {
  const { world, course } = await people();
  course.publishRows(rowsOf(9));
  const snapshot = await course.snapshot(course.newest(), await world.observed());
  const job = { ...snapshot, gate: gate(NONE_CHANGED) };
  const before = await world.dump();
  for (const [reserveBytes, result] of [
    [1e18, { kind: 'failed', error: { code: 'disk_full' } }],
    [0, { kind: 'committed', committed: { net: { removed: 1 } } }],
  ] as const) {
    const mirror = await mirrorIn(world.folder, { reserveBytes });
    expect(await commitAll(mirror, [await mirror.validate(job)])).toMatchObject([result]);
    await mirror.close();
    if (reserveBytes > 0) expect(await world.dump()).toEqual(before);
  }
});

describe('the digest of a candidate', () => {
  it('computes the digest of changes from the net change, whatever their pages, versions and order', async () => {
    const { world, course } = await people();
    course.publishRows(rowsOf(7));
    course.publishRows([...rowsOf(6), [7, 'seven', 1], [30, 'new', null]]);
    const digestOf = async (rest: Partial<ChangesJob>): Promise<string> =>
      judged(await world.apply(course, { gate: gate(NONE_REMOVED), ...rest })).digest;
    const { versions } = await course.changes(await world.observed());
    const turned = versions.map((one) => ({ ...one, pages: one.pages.toReversed() }));
    expect(await digestOf({ versions: turned })).toBe(await digestOf({}));

    const inOne = await people();
    inOne.course.publishRows([...rowsOf(6), [7, 'seven', 1], [30, 'new', null]]);
    const once = judged(await apply(inOne.world, inOne.course, gate(NONE_REMOVED)));
    expect(once.digest).toBe(await digestOf({}));
    inOne.course.publishRows([...rowsOf(6), [7, 'seven', 2], [30, 'new', null]]);
    expect(judged(await apply(inOne.world, inOne.course, gate(NONE_REMOVED))).digest).not.toBe(once.digest);
  });
});

describe('a reload whose rows cannot be compared by key', () => {
  it.each([
    ['F68 judges a reload without keys', { keyColumns: [] }, {}],
    ['F68 judges a reload with other key columns', {}, { keyColumns: ['name'] }],
  ])('%s by its row count', async (_, before, after) => {
    const { world, course } = await people({ ...AGED_PEOPLE, ...before });
    course.publish({
      ...firstContent({ ...AGED_PEOPLE, ...before, ...after, schemaVersion: '2' }, rowsOf(4, 100)),
    });
    expect(
      judged(
        await reload(
          world,
          course,
          gate({ ...NONE_REMOVED, ...NONE_CHANGED, removedRows: { rows: 5, share: null } }),
        ),
      ),
    ).toMatchObject({
      counts: { before: 10, after: 4, added: 0, changed: null, removed: 6, isByKey: false },
      keys: { added: [], changed: [], removed: [] },
    });
    const enough = gate({ ...NONE_CHANGED, removedRows: { rows: 6, share: null } });
    expect(await reload(world, course, enough)).toMatchObject({ kind: 'committed' });
  });

  it.each([
    ['F68 judges a reload of a table with a renamed column', 'ALTER TABLE parcels RENAME COLUMN id TO other'],
    ['F68 judges a reload of a table that was dropped by hand', 'DROP TABLE parcels'],
  ])('%s by its recorded row count', async (_, damage) => {
    const { world, course } = await people();
    await world.byHand(damage);
    course.publishRows(rowsOf(9));
    expect(judged(await reload(world, course, gate(NONE_REMOVED)))).toMatchObject({
      counts: { before: 10, after: 9, removed: 1, isByKey: false },
    });
  });
});

describe('a reload with another schema', () => {
  it('F68 counts rows of a reload as changed only by columns that both schemas have with one type', async () => {
    const { world, course } = await people();
    const retyped = sourceSchema(
      [
        column('id', 'integer', false),
        column('name', 'string'),
        column('age', 'string'),
        column('more', 'string'),
      ],
      { schemaVersion: '2' },
    );
    const rows = rowsOf(10).map(
      ([id = null, name = null]) => [id, id === 4 ? 'changed' : name, '99', 'x'] as const,
    );
    course.publish(firstContent(retyped, rows));
    expect(judged(await reload(world, course, gate(NONE_CHANGED)))).toMatchObject({
      counts: { added: 0, changed: 1, removed: 0 },
      keys: { added: [], changed: [['4']], removed: [] },
    });
  });

  it('F68 counts rows as changed only by earlier columns where changes add a column', async () => {
    const { world, course } = await people();
    const wider = {
      ...AGED_PEOPLE,
      schemaVersion: '2',
      columns: [...AGED_PEOPLE.columns, column('more', 'string')],
    };
    const rows = rowsOf(10).map((row, index) => [...row.slice(0, 2), index === 0 ? 99 : 30, 'x'] as const);
    const changes = rows.map((row) => ({ op: 'changed' as const, row }));
    course.publish({ ...firstContent(wider, rows), changes });
    expect(judged(await apply(world, course, gate(NONE_CHANGED)))).toMatchObject({
      counts: { changed: 1 },
      keys: { changed: [['1']] },
    });
  });

  it('counts a reload whose rows all get other keys as all removed and all added', async () => {
    const { world, course } = await people();
    course.publishRows(rowsOf(10, 100));
    expect(judged(await reload(world, course, gate(NONE_REMOVED)))).toMatchObject({
      counts: { before: 10, after: 10, added: 10, removed: 10, isByKey: true },
    });
  });
});

describe('commits that replace no rows, and history', () => {
  it('F68 does not judge a first load, nor a return after retirement', async () => {
    const world = await mirrorAtWork();
    const course = world.published(firstContent(AGED_PEOPLE, []));
    const strict = gate({ ...NONE_REMOVED, ...NONE_CHANGED, emptied: true });
    const load = async () => {
      const [result] = await world.execute({
        ...(await course.snapshot(course.newest(), null)),
        gate: strict,
      });
      return result;
    };
    expect(await load()).toMatchObject({ kind: 'committed' });
    await world.retire(course, 'drop');
    expect(await load()).toMatchObject({ kind: 'committed' });
  });

  it('F68 keeps the history of a table whose reload awaited approval', async () => {
    const world = await mirrorAtWork({ history: ALL_HISTORY });
    const course = await world.loaded(firstContent(AGED_PEOPLE, rowsOf(3)));
    course.publishRows(rowsOf(2));
    judged(await reload(world, course, gate(NONE_REMOVED)));
    const approved = judged(await reload(world, course, gate(NONE_REMOVED))).digest;
    expect(await reload(world, course, gate(NONE_REMOVED, approved))).toMatchObject({ kind: 'committed' });
    expect(await inMirror(world.folder, APPROVED)).toEqual([[null], [true]]);
    expect(await inMirror(world.folder, 'SELECT count(*) FROM history.parcels_as_of_commit(1)')).toEqual([
      ['3'],
    ]);
  });
});
