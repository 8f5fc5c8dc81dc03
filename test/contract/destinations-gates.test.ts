/** Gates in each destination: a commit is judged inside its transaction, before readers see any of it (F67, F68). */

import { describe, expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import { type GateLimits, NO_LIMITS } from '../../src/model/gate.ts';
import { type DestinationKind, destinationKinds } from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
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
import { column } from '../support/small-content.ts';

const KINDS = destinationKinds();

const NOT_EMPTIED: GateLimits = { ...NO_LIMITS, emptied: true };

async function tenPeople(kind: DestinationKind, schema: SourceSchema = AGED_PEOPLE) {
  const world = await kind.open();
  return { world, course: await world.loaded(firstContent(schema, rowsOf(10))) };
}

describe.each(KINDS)('the destination $name', (kind) => {
  describe.each([
    ['changes', apply],
    ['a reload', reload],
  ] as const)('with %s', (_, commit) => {
    it('F67 leaves no trace of a commit that waits, and commits it with the approval of exactly its digest', async () => {
      const { world, course } = await tenPeople(kind);
      const before = [await world.observed(), await world.rows()];
      course.publishRows(rowsOf(8));
      const { digest, counts, keys } = judged(await commit(world, course, gate(NONE_REMOVED)));
      expect(counts).toMatchObject({ before: 10, after: 8, added: 0, removed: 2, isByKey: true });
      expect(keys).toEqual({ added: [], changed: [], removed: [['9'], ['10']] });
      expect([await world.observed(), await world.rows()]).toEqual(before);
      const other = await commit(world, course, gate(NONE_REMOVED, 'f'.repeat(64)));
      expect(judged(other).digest).toBe(digest);
      expect(await commit(world, course, gate(NONE_REMOVED, digest))).toMatchObject({ kind: 'committed' });
      expect(await world.rows()).toHaveLength(8);
      expect(await world.approvals()).toEqual([null, 'true']);
    });

    it('F68 counts changed rows where a limit concerns them, and shows five keys of each kind', async () => {
      const { world, course } = await tenPeople(kind);
      const changed = rowsOf(10)
        .slice(2)
        .map(([id = null, name = null], index) => [id, name, index < 7 ? 31 : 30] as const);
      course.publishRows([...changed, ...rowsOf(6, 20)]);
      const { counts, keys } = judged(await commit(world, course, gate(NONE_CHANGED)));
      expect(counts).toMatchObject({ before: 10, after: 14, added: 6, changed: 7, removed: 2 });
      expect(keys).toEqual({
        added: [20, 21, 22, 23, 24].map((id) => [String(id)]),
        changed: [3, 4, 5, 6, 7].map((id) => [String(id)]),
        removed: [['1'], ['2']],
      });
    });

    it('F68 does not count the values of a new column as changed rows', async () => {
      const { world, course } = await tenPeople(kind);
      const schema = {
        ...sourceSchema([...AGED_PEOPLE.columns, column('height', 'integer')]),
        schemaVersion: '2',
      };
      const rows: readonly Row[] = rowsOf(10).map((row) => [...row, 180]);
      const changes = rows.map((row) => ({ op: 'changed', row }) as const);
      course.publish({ schema, rowCount: 10, rows: () => rows, changes });
      expect(await commit(world, course, gate(NONE_CHANGED))).toMatchObject({ kind: 'committed' });
      expect((await world.rows())[0]).toHaveLength(4);
    });

    it('F68 commits within the limits', async () => {
      const { world, course } = await tenPeople(kind);
      course.publishRows(rowsOf(9));
      const limits = { ...NONE_CHANGED, removedRows: { rows: 1, share: null }, emptied: true };
      expect(await commit(world, course, gate(limits))).toMatchObject({
        kind: 'committed',
        committed: { net: { added: 0, changed: 0, removed: 1 } },
      });
      expect(await world.rows()).toHaveLength(9);
    });

    it('F68 suspends a commit that empties the table', async () => {
      const { world, course } = await tenPeople(kind);
      course.publishRows([]);
      expect(judged(await commit(world, course, gate(NOT_EMPTIED))).counts).toMatchObject({ after: 0 });
      expect(await world.rows()).toHaveLength(10);
    });

    it('F67 commits other jobs beside a commit that waits', async () => {
      const { world, course } = await tenPeople(kind);
      const other = await world.loaded(firstContent(AGED_PEOPLE, rowsOf(3)), 'permits');
      course.publishRows(rowsOf(1));
      other.publishRows(rowsOf(4));
      const results = await world.execute(
        { ...(await course.changes(await world.observed())), gate: gate(NONE_REMOVED) },
        await other.changes(await world.observed('permits')),
      );
      expect(results.map(({ kind: of }) => of)).toEqual(['awaiting', 'committed']);
      expect(await world.rows('permits')).toHaveLength(4);
    });
  });

  it('F68 names texts as keys in the order of their bytes, and of a long key the beginning', async () => {
    const schema = { ...sourceSchema([column('code', 'string', false)]), keyColumns: ['code'] };
    const world = await kind.open();
    const rows: readonly Row[] = [['b'], ['B'], ['ä'], ['a'.repeat(100)]];
    const course = await world.loaded(firstContent(schema, rows));
    course.publishRows([]);
    const { keys } = judged(await apply(world, course, gate(NONE_REMOVED)));
    expect(keys.removed).toEqual([['B'], ['a'.repeat(80)], ['b'], ['ä']]);
  });

  it('F68 judges a reload without a common key by its row counts alone', async () => {
    const { world, course } = await tenPeople(kind);
    const schema = { ...AGED_PEOPLE, schemaVersion: '2', keyColumns: ['name'] };
    const rows = rowsOf(7, 100);
    course.publish({ schema, rowCount: 7, rows: () => rows, changes: null });
    const { counts, keys } = judged(await reload(world, course, gate(NONE_REMOVED)));
    expect(counts).toEqual({ before: 10, after: 7, added: 0, changed: null, removed: 3, isByKey: false });
    expect(keys).toEqual({ added: [], changed: [], removed: [] });
    expect(await world.rows()).toHaveLength(10);
  });

  it('F68 judges a reload in the place of a table that was dropped by hand with its recorded row count', async () => {
    const { world, course } = await tenPeople(kind);
    await world.byHand(`DROP TABLE ${world.table}`);
    course.publishRows(rowsOf(8));
    const { counts } = judged(await reload(world, course, gate(NONE_REMOVED)));
    expect(counts).toEqual({ before: 10, after: 8, added: 0, changed: null, removed: 2, isByKey: false });
  });
});
