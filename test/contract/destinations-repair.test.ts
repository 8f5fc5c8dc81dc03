/** The comparison with the service's content, and the repair of what differs, in each destination (F70). */

import { describe, expect, it } from 'vitest';
import type { Row, SourceSchema } from '../../fixtures/source/content.ts';
import type { ContentComparison } from '../../src/destination/comparer.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import type { RollbackJob, VersionContent } from '../../src/model/write-jobs.ts';
import {
  type DestinationKind,
  type DestinationWorld,
  destinationKinds,
} from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { ALTERED, contentFrom, repairJob } from '../support/repairing.ts';
import { column } from '../support/small-content.ts';

const KINDS = destinationKinds();

const WITHOUT_KEYS: SourceSchema = { ...PEOPLE, keyColumns: [] };
const ALL_TYPES = sourceSchema([
  column('id', 'integer', false),
  column('flag', 'boolean'),
  column('weight', 'number'),
  column('day', 'date'),
  column('moment', 'timestamp'),
  column('document', 'json'),
]);

async function threePeople(kind: DestinationKind, schema = PEOPLE, history?: typeof ALL_HISTORY) {
  const world = await kind.open(history);
  const course = await world.loaded(firstContent(schema, THREE_PEOPLE));
  return { world, course, first: course.newest() };
}

async function compare(world: DestinationWorld, content: VersionContent): Promise<ContentComparison> {
  const comparer = await world.comparer();
  try {
    return await comparer.compare(await world.observed(content.datasetId), content, () => {});
  } finally {
    await comparer.close();
  }
}

/** @throws the error of a repair that failed */
async function repair(world: DestinationWorld, content: VersionContent): Promise<JobResult> {
  const [one] = await world.execute(await repairJob(world, content));
  const result = present(one, 'a job has a result');
  if (result.kind === 'failed') throw result.error;
  return result;
}

const EQUAL = { kind: 'equal', unrecorded: null };

const byHand = async ({ byHand: run, table }: DestinationWorld, ...statements: readonly string[]) => {
  for (const statement of statements) await run(statement.replace('parcels', table));
};

describe.each(KINDS)('the destination $name', (kind) => {
  describe('comparisons', () => {
    it('F70 finds a table equal to its snapshot, and to a snapshot with the changes after it', async () => {
      const { world, course, first } = await threePeople(kind);
      expect(await compare(world, await contentFrom(first, course, world))).toEqual(EQUAL);
      course.publishRows([
        [1, 'ONE'],
        [3, 'three'],
        [5, 'five'],
      ]);
      await world.apply(course);
      expect(await compare(world, await contentFrom(first, course, world))).toEqual(EQUAL);
      expect(await compare(world, await contentFrom(course.newest(), course, world))).toEqual(EQUAL);
    });

    it('F70 compares values of every type, and empty tables', async () => {
      const world = await kind.open();
      const rows: readonly Row[] = [
        [1, true, 0.1, '2026-01-02', '2026-01-02T03:04:05.678901Z', { json: { b: [1, 2.5], a: null } }],
        [2, null, null, null, null, null],
      ];
      const course = await world.loaded(firstContent(ALL_TYPES, rows));
      expect(await compare(world, await contentFrom(course.newest(), course, world))).toEqual(EQUAL);
      course.publishRows([]);
      await world.apply(course);
      expect(await compare(world, await contentFrom(course.newest(), course, world))).toEqual(EQUAL);
    });

    it('F70 finds rows that were altered, deleted and inserted by hand, and names them', async () => {
      const { world, course, first } = await threePeople(kind);
      await byHand(world, ...ALTERED);
      expect(await compare(world, await contentFrom(first, course, world))).toEqual({
        kind: 'different',
        difference: { added: 1, changed: 1, removed: 1 },
        keys: {
          added: [new Map([['id', '3']])],
          changed: [{ key: new Map([['id', '2']]), columns: ['name'] }],
          removed: [new Map([['id', '4']])],
        },
      });
    });

    it('F70 compares a table without keys row by row', async () => {
      const { world, course, first } = await threePeople(kind, WITHOUT_KEYS);
      expect(await compare(world, await contentFrom(first, course, world))).toEqual(EQUAL);
      await byHand(world, "INSERT INTO parcels VALUES (1, 'one')", 'DELETE FROM parcels WHERE id = 3');
      expect(await compare(world, await contentFrom(first, course, world))).toMatchObject({
        kind: 'different',
        difference: { added: 1, changed: null, removed: 1 },
      });
    });

    it('F70 finds repeated rows in a table whose index of the key is gone', async () => {
      const { world, course, first } = await threePeople(kind);
      await world.withoutKey();
      await byHand(
        world,
        'INSERT INTO parcels SELECT * FROM parcels WHERE id = 1'.replace(
          'FROM parcels',
          `FROM ${world.table}`,
        ),
      );
      expect(await compare(world, await contentFrom(first, course, world))).toMatchObject({
        kind: 'different',
        difference: { added: 0, removed: 1 },
      });
    });

    it('F70 compares nothing where the table is at another commit by now, or has other columns', async () => {
      const { world, course, first } = await threePeople(kind);
      const content = await contentFrom(first, course, world);
      const before = await world.observed();
      course.publishRows(THREE_PEOPLE.slice(1));
      await world.apply(course);
      const comparer = await world.comparer();
      expect(await comparer.compare(before, content, () => {})).toEqual({ kind: 'moved' });
      await comparer.close();
      await byHand(world, 'ALTER TABLE parcels ADD COLUMN by_hand integer');
      const compared = await compare(world, await contentFrom(course.newest(), course, world));
      expect(compared).toMatchObject({ kind: 'other-columns', why: expect.stringContaining('by_hand') });
    });
  });

  describe('repairs', () => {
    it('F70 repairs the rows that differ in a commit of its own, which makes the checksum right again', async () => {
      const { world, course, first } = await threePeople(kind);
      await byHand(world, ...ALTERED);
      const content = await contentFrom(first, course, world);
      expect(await repair(world, content)).toMatchObject({
        kind: 'committed',
        committed: { kind: 'repair', net: { added: 1, changed: 1, removed: 1 } },
      });
      expect(await compare(world, content)).toEqual(EQUAL);
      await expect(repair(world, content)).rejects.toThrow('nothing is to be repaired');
    });

    it.each([
      ['without keys', WITHOUT_KEYS],
      ['that has lost its index of the key', PEOPLE],
    ])('F70 repairs a table %s', async (what, schema) => {
      const { world, course, first } = await threePeople(kind, schema);
      if (what !== 'without keys') await world.withoutKey();
      await byHand(
        world,
        `INSERT INTO parcels SELECT * FROM ${world.table} WHERE id = 1`,
        'DELETE FROM parcels WHERE id = 3',
      );
      const content = await contentFrom(first, course, world);
      expect(await repair(world, content)).toMatchObject({
        kind: 'committed',
        committed: { kind: 'repair', net: { added: 1, removed: 1 } },
      });
      expect(await compare(world, content)).toEqual(EQUAL);
      expect(await world.rows()).toHaveLength(3);
    });

    it('F70 repairs an alteration by hand back to the commit before, and history still knows every state', async () => {
      const { world, course, first } = await threePeople(kind, PEOPLE, ALL_HISTORY);
      course.publishRows(THREE_PEOPLE.slice(1));
      await world.apply(course);
      await byHand(world, "UPDATE parcels SET name = 'TWO' WHERE id = 2");
      await repair(world, await contentFrom(first, course, world));
      const reader = await world.reader();
      const [log] = await reader.pastLogs();
      expect(log).toMatchObject({ closedReason: null, firstCommit: 1 });
      const commits = await reader.commits('parcels');
      expect(commits.map(({ kind: one }) => one)).toEqual(['load', 'changes', 'repair']);
      await reader.close();
    });

    it('F70 closes the log of an alteration that a commit took over, and proves a rollback to the stored checksum', async () => {
      const { world, course, first } = await threePeople(kind, PEOPLE, ALL_HISTORY);
      await byHand(world, "UPDATE parcels SET name = 'TWO' WHERE id = 2");
      course.publishRows([[1, 'one'], [2, 'zwei'], ...THREE_PEOPLE.slice(2)]);
      await world.apply(course);
      const right = await world.rows();
      const found = await compare(world, await contentFrom(first, course, world));
      if (found.kind !== 'equal' || found.unrecorded === null) throw new Error(`it is ${found.kind}`);
      const checksum = { datasetId: 'parcels', commitNumber: 2, ...found.unrecorded };
      expect(await world.destination.storeChecksum({ ...checksum, commitNumber: 1 })).toBe('stale');
      expect(await world.destination.storeChecksum(checksum)).toBe('log-closed');
      expect(await world.destination.storeChecksum(checksum)).toBe('stored');
      expect(await compare(world, await contentFrom(first, course, world))).toEqual(EQUAL);
      const reader = await world.reader();
      expect(await reader.pastLogs()).toMatchObject([
        { firstCommit: 2, closedReason: expect.stringContaining('altered outside feed-sync') },
      ]);
      await reader.close();
      course.publishRows(THREE_PEOPLE.slice(1));
      await world.apply(course);
      const job: RollbackJob = {
        kind: 'rollback',
        datasetId: 'parcels',
        toCommit: 2,
        version: 2,
        fetched: { bytes: 0, elapsedMs: () => 0 },
        plannedFrom: await world.observed(),
      };
      expect(await world.execute(job)).toMatchObject([{ kind: 'committed' }]);
      expect(await world.rows()).toEqual(right);
    });

    it('F70 repairs nothing where the table has moved since it was compared', async () => {
      const { world, course, first } = await threePeople(kind);
      const content = await contentFrom(first, course, world);
      const job = await repairJob(world, content);
      await byHand(world, ...ALTERED);
      course.publishRows(THREE_PEOPLE.slice(1));
      await world.load(course);
      expect(await world.execute(job)).toMatchObject([{ kind: 'stale-plan' }]);
    });
  });
});
