/** History in each destination: what the undo logs know of earlier states (F69, F70). */

import { describe, expect, it } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { withAddedColumn } from '../../fixtures/source/evolve.ts';
import { shownLog } from '../../src/destination/catalog/undo-logs.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import type { DiffRow } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import type { FeedSyncError } from '../../src/model/errors.ts';
import {
  type DestinationKind,
  type DestinationWorld,
  destinationKinds,
} from '../support/destination-kinds.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { ENROLMENT, errorOf } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, OWNERS, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { column } from '../support/small-content.ts';

const KINDS = destinationKinds();

const FIRST = THREE_PEOPLE;
const SECOND: readonly Row[] = [
  [1, 'one'],
  [2, 'TWO'],
  [4, 'four'],
];
const THIRD: readonly Row[] = [
  [2, 'two'],
  [4, null],
  [5, ''],
];
const texts = (rows: readonly Row[]) =>
  rows.map((row) => row.map((cell) => (cell === null ? null : String(cell))));

/** Runs one statement, with a time as it was then. */
async function read(world: DestinationWorld, sql: string, asOf?: Date) {
  const reader = await world.reader();
  try {
    const rows: (string | null)[][] = [];
    for await (const row of (await reader.query(sql, asOf)).rows) {
      rows.push(row.map((cell) => (cell === null ? null : String(cell))));
    }
    return rows;
  } finally {
    await reader.close();
  }
}

/** Why the commit has lost the past before it; null where it has not. */
function lostWith(result: JobResult): string | null {
  if (result.kind !== 'committed') throw new Error(`it was ${result.kind}`);
  return result.committed.lostPast ?? null;
}

const stateAfter = (world: DestinationWorld, commit: number) =>
  read(world, `SELECT * FROM ${world.historic('parcels_as_of_commit')}(${commit}) ORDER BY id`);

/** Loads three people, changes them, and loads the third version in their place: commits 1, 2 and 3. */
async function threeCommits(
  kind: DestinationKind,
  history: Parameters<DestinationKind['open']>[0] = ALL_HISTORY,
) {
  const world = await kind.open(history);
  const course = await world.loaded(firstContent(PEOPLE, FIRST));
  const times = [(await world.observed()).appliedAt];
  course.publishRows(SECOND);
  await world.apply(course);
  times.push((await world.observed()).appliedAt);
  course.publishRows(THIRD);
  await world.load(course);
  times.push((await world.observed()).appliedAt);
  return { world, course, times };
}

async function rollBack(world: DestinationWorld, toCommit: number): Promise<JobResult> {
  const plannedFrom = await world.observed();
  const fetched = { bytes: 0, elapsedMs: () => 0 };
  const job = { kind: 'rollback', datasetId: 'parcels', toCommit, version: 1, fetched, plannedFrom } as const;
  return present((await world.execute(job))[0], 'a job has a result');
}

describe.each(KINDS)('the destination $name', (kind) => {
  it('F69 answers for every commit with the rows that it left, and for every time', async () => {
    const { world, times } = await threeCommits(kind);
    for (const [index, rows] of [FIRST, SECOND, THIRD].entries()) {
      expect(await stateAfter(world, index + 1)).toEqual(texts(rows));
      expect(await read(world, 'SELECT * FROM parcels ORDER BY id', times[index])).toEqual(texts(rows));
    }
    expect(await read(world, `SELECT count(*) FROM ${world.historic('parcels')}`)).toEqual([['7']]);
    await expect(stateAfter(world, 0)).rejects.toThrow(/The history of parcels begins with commit 1 at/);
    const early = read(world, 'SELECT * FROM parcels', new Date('2020-01-01'));
    await expect(early).rejects.toThrow(/The history of parcels begins with commit 1 at/);
  });

  it('F69 lists the rows that differ between two states, in both directions', async () => {
    const { world } = await threeCommits(kind);
    const diff = async (from: number, to: number) => {
      const reader = await world.reader();
      try {
        const commit = (commitNumber: number) => ({ by: 'commit', commitNumber }) as const;
        const rows: DiffRow[] = [];
        const result = await reader.diff('parcels', { from: commit(from), to: commit(to) });
        for await (const row of result.rows) rows.push(row);
        expect([result.keys[0]?.[0], result.values[0]?.[0]]).toEqual(['id', 'name']);
        return rows.map((row) => [row.change, String(row.key[0]), row.before?.[0], row.after?.[0]]);
      } finally {
        await reader.close();
      }
    };
    expect(await diff(1, 2)).toEqual([
      ['changed', '2', 'two', 'TWO'],
      ['removed', '3', 'three', undefined],
      ['added', '4', undefined, 'four'],
    ]);
    expect(await diff(3, 1)).toEqual([
      ['added', '1', undefined, 'one'],
      ['added', '3', undefined, 'three'],
      ['removed', '4', null, undefined],
      ['removed', '5', '', undefined],
    ]);
  });

  it('F69 keeps the log where a column is added: it is null in earlier states', async () => {
    const { world, course } = await threeCommits(kind);
    course.publish(withAddedColumn(course.newest().content, column('age', 'integer'), () => 7));
    expect(await world.apply(course, { addsColumns: true })).toMatchObject({ kind: 'committed' });
    expect(await stateAfter(world, 1)).toEqual(texts(FIRST).map((row) => [...row, null]));
    expect(await stateAfter(world, 4)).toEqual(texts(THIRD).map((row) => [...row, '7']));
  });

  it('F69 freezes the log where a column goes, and query --as-of reads both sides', async () => {
    const { world, course, times } = await threeCommits(kind);
    course.publish(firstContent(OWNERS, [[1, 'Ann']]));
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    const sql = 'SELECT * FROM parcels ORDER BY id';
    expect(await read(world, sql, times[0])).toEqual(texts(FIRST));
    expect(await read(world, sql, times[2])).toEqual(texts(THIRD));
    expect(await read(world, sql, (await world.observed()).appliedAt)).toEqual([['1', 'Ann']]);
    const frozen = `SELECT * FROM ${world.historic('parcels__4_log_as_of_commit')}(2) ORDER BY id`;
    expect(await read(world, frozen)).toEqual(texts(SECOND));
    await expect(stateAfter(world, 2)).rejects.toThrow('begins with commit 4');
  });

  it('F69 freezes the log where a column goes after the columns have come in another order', async () => {
    const world = await kind.open(ALL_HISTORY);
    const columns = [column('id', 'integer', false), column('name', 'string'), column('age', 'integer')];
    const course = await world.loaded(firstContent(sourceSchema(columns), [[1, 'one', 7]]));
    const turned = sourceSchema(columns.toReversed(), { schemaVersion: '2' });
    course.publish(firstContent(turned, [[8, 'one', 1]]));
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    course.publish(firstContent({ ...OWNERS, schemaVersion: '3' }, [[1, 'Ann']]));
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    const frozen = (commit: number) =>
      read(world, `SELECT id, name, age FROM ${world.historic('parcels__3_log_as_of_commit')}(${commit})`);
    expect(await frozen(1)).toEqual([['1', 'one', '7']]);
    expect(await frozen(2)).toEqual([['1', 'one', '8']]);
  });

  it.each(['archive', 'keep'] as const)('F69 reads a retired table (%s) for the time before', async (how) => {
    const { world, course, times } = await threeCommits(kind);
    await world.retire(course, how);
    const sql = 'SELECT * FROM parcels ORDER BY id';
    expect(await read(world, sql, times[1])).toEqual(texts(SECOND));
    const later = read(world, sql, new Date(Date.now() + 1_000));
    await expect(later).rejects.toThrow(/The table parcels was retired by commit 4 at/);
    course.publishRows([[9, 'nine']]);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await read(world, sql, times[1])).toEqual(texts(SECOND));
    expect(await stateAfter(world, 5)).toEqual([['9', 'nine']]);
  });

  it('F69 forgets the log of a table that is dropped as it retires', async () => {
    const { world, course } = await threeCommits(kind);
    await world.retire(course, 'drop');
    expect(await read(world, 'SELECT count(*) FROM feed_sync.history_logs')).toEqual([['0']]);
    await expect(stateAfter(world, 2)).rejects.toMatchObject({ code: 'usage_invalid' });
  });

  it('F69 closes the log where history was switched off meanwhile, and begins one where it is switched on', async () => {
    let isOn = false;
    const { world, course } = await threeCommits(kind, { ...ALL_HISTORY, keeps: () => isOn });
    isOn = true;
    course.publishRows(FIRST);
    await world.apply(course);
    expect(await stateAfter(world, 3)).toEqual(texts(THIRD));
    isOn = false;
    course.publishRows(SECOND);
    expect(lostWith(await world.apply(course))).toBe('history was switched off');
    course.publishRows(FIRST);
    expect(lostWith(await world.apply(course))).toBeNull();
    isOn = true;
    course.publishRows(THIRD);
    expect(lostWith(await world.apply(course))).toBeNull();
    await expect(stateAfter(world, 5)).rejects.toThrow('history was switched off');
    expect(await stateAfter(world, 6)).toEqual(texts(FIRST));
  });

  it('F69 states no reason of a closing once the states after it are forgotten, too', async () => {
    let isOn = true;
    const { world, course } = await threeCommits(kind, { keeps: () => isOn, keepMs: 86_400_000 });
    isOn = false;
    course.publishRows(FIRST);
    await world.apply(course);
    isOn = true;
    for (const rows of [SECOND, THIRD]) {
      course.publishRows(rows);
      await world.apply(course);
    }
    await expect(stateAfter(world, 3)).rejects.toThrow(
      /begins with commit 4 at .*: history was switched off\./,
    );
    await world.byHand(`UPDATE feed_sync.commits SET applied_at = applied_at - INTERVAL '2 DAY'
      WHERE commit_number < 6`);
    await world.destination.has();
    expect(await world.destination.forgetPast()).toBe('all');
    await expect(stateAfter(world, 4)).rejects.toThrow(/begins with commit 5 at \S+ \S+\. Earlier states/);
    expect(await stateAfter(world, 5)).toEqual(texts(SECOND));
  });

  it('F70 closes the log where rows were altered by hand before a reload', async () => {
    const { world, course } = await threeCommits(kind);
    await world.byHand(`UPDATE ${world.table} SET name = 'by hand' WHERE id = 5`);
    course.publishRows(FIRST);
    expect(lostWith(await world.load(course))).toBe(
      'rows of the table were altered outside feed-sync before',
    );
    await expect(stateAfter(world, 3)).rejects.toThrow('rows of the table were altered outside feed-sync');
    expect(await stateAfter(world, 4)).toEqual(texts(FIRST));
  });

  it('F70 refuses a log that was emptied by hand, and starts another where it was dropped', async () => {
    const { world, course, times } = await threeCommits(kind);
    await world.byHand(`DELETE FROM ${world.historic('parcels')}`);
    const emptied = read(world, 'SELECT * FROM parcels', times[0]);
    await expect(emptied).rejects.toMatchObject({ code: 'dataset_storage_failed' });
    await world.byHand(`DROP TABLE ${world.historic('parcels')}`);
    course.publishRows(FIRST);
    expect(lostWith(await world.apply(course))).toBe('the log was dropped or altered by hand');
    await expect(stateAfter(world, 2)).rejects.toThrow('the log was dropped or altered by hand');
    expect([await stateAfter(world, 3), await stateAfter(world, 4)]).toEqual([texts(THIRD), texts(FIRST)]);
  });

  it('F70 F58 starts a log with the load that follows where table and log are gone', async () => {
    const { world, course } = await threeCommits(kind);
    await world.byHand(`DROP TABLE ${world.historic('parcels')}`);
    await world.byHand(`DROP TABLE ${world.table} CASCADE`);
    course.publishRows(FIRST);
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    await expect(stateAfter(world, 3)).rejects.toThrow('begins with commit 4');
    expect(await stateAfter(world, 4)).toEqual(texts(FIRST));
  });

  it('F69 forgets states beyond the retention where nothing is committed any more', async () => {
    const { world, course } = await threeCommits(kind, { ...ALL_HISTORY, keepMs: 86_400_000 });
    course.publish(firstContent(OWNERS, [[1, 'Ann']]));
    await world.load(course);
    const forget = async (firstKept: number) => {
      await world.byHand(`UPDATE feed_sync.commits SET applied_at = applied_at - INTERVAL '2 DAY'
        WHERE commit_number < ${firstKept}`);
      await world.destination.has();
      const forgotten = await world.destination.forgetPast();
      const logs = 'SELECT log_name, first_commit FROM feed_sync.history_logs ORDER BY first_commit DESC';
      return [forgotten, ...(await read(world, logs)).map(([name, first]) => [shownLog(name ?? ''), first])];
    };
    const log = [world.historic('parcels'), '4'];
    expect(await forget(1)).toEqual(['nothing', log, [world.historic('parcels__4_log'), '1']]);
    expect(await forget(5)).toEqual(['all', log]);
    expect(await read(world, 'SELECT count(*) FROM parcels')).toEqual([['1']]);
  });

  it.each([true, false])(
    'F69 rewrites as-of functions of another program at the next start, with a readable frozen log: %s',
    async (isReadable) => {
      const { world, course } = await threeCommits(kind);
      course.publish(firstContent(OWNERS, [[1, 'Ann']]));
      await world.load(course);
      const frozen = 'parcels__4_log_as_of_commit';
      for (const name of ['parcels_as_of_commit', frozen]) {
        const [what, of] = kind.name === 'DuckDB' ? ['MACRO TABLE', ''] : ['FUNCTION', '(bigint)'];
        await world.byHand(`DROP ${what} ${world.historic(name)}${of}`);
      }
      await world.destination.enroll(ENROLMENT);
      await expect(stateAfter(world, 4)).rejects.toThrow('_as_of_commit');
      await world.byHand(`UPDATE feed_sync.meta SET value = 'another' WHERE "key" = 'as_of_functions'`);
      if (!isReadable) await world.byHand(`DROP TABLE ${world.historic('parcels__4')}`);
      await world.destination.enroll(ENROLMENT);
      expect(await stateAfter(world, 4)).toEqual([['1', 'Ann']]);
      const first = read(world, `SELECT * FROM ${world.historic(frozen)}(1) ORDER BY id`);
      if (isReadable) expect(await first).toEqual(texts(FIRST));
      else await expect(first).rejects.toThrow('parcels__4');
    },
  );

  it('F69 refuses by name a table without history, and a statement that reads around --as-of', async () => {
    const keeps = (id: string) => id === 'parcels';
    const { world, times } = await threeCommits(kind, { ...ALL_HISTORY, keeps });
    await world.loaded(firstContent(PEOPLE, FIRST), 'zones');
    const now = new Date(Date.now() + 1_000);
    await expect(read(world, 'SELECT * FROM zones', now)).rejects.toThrow('The table zones has no history');
    const around = read(world, `SELECT * FROM ${world.historic('parcels')}`, now);
    await expect(around).rejects.toThrow('which --as-of does not change');
    const sql = "SELECT row_count FROM feed_sync.datasets WHERE dataset_id = 'parcels'";
    expect(await read(world, sql, times[0])).toEqual([['3']]);
    const joined = `SELECT p.id FROM parcels p JOIN feed_sync.datasets d ON d.table_name = 'parcels' ORDER BY 1`;
    expect(await read(world, joined, times[0])).toEqual([['1'], ['2'], ['3']]);
    await expect(read(world, 'SELEC', now)).rejects.toMatchObject({ code: 'usage_invalid' });
  });

  it('F70 a log that was emptied by hand refuses its table alone, and no table whose name contains that name', async () => {
    const { world, times } = await threeCommits(kind);
    await world.loaded(firstContent(PEOPLE, FIRST), 'old-parcels');
    const now = new Date(Date.now() + 1_000);
    await world.byHand(`DELETE FROM ${world.historic('parcels')}`);
    expect(await read(world, 'SELECT id FROM old_parcels ORDER BY 1', now)).toEqual([['1'], ['2'], ['3']]);
    await expect(read(world, 'SELECT id FROM parcels', times[0])).rejects.toThrow(
      `The undo log ${world.historic('parcels')} of parcels was dropped or altered`,
    );
  });

  it('F69 records with each commit what a rollback needs, and nothing without history', async () => {
    const recorded = `SELECT count(checksum), count(columns) FROM feed_sync.commits`;
    expect(await read((await threeCommits(kind)).world, recorded)).toEqual([['3', '3']]);
    const without = await threeCommits(kind, { ...ALL_HISTORY, keeps: () => false });
    expect(await read(without.world, recorded)).toEqual([['0', '0']]);
    expect(await read(without.world, 'SELECT count(*) FROM feed_sync.history_logs')).toEqual([['0']]);
  });

  it('F69 rolls back to a commit, pins the table there, and commits nothing until the pin is lifted', async () => {
    const { world, course } = await threeCommits(kind);
    const back = await rollBack(world, 1);
    expect(back).toMatchObject({
      kind: 'committed',
      committed: { net: { added: 2, changed: 0, removed: 2 } },
    });
    expect(await world.rows()).toEqual(texts(FIRST));
    expect(await world.observed()).toMatchObject({ version: 1, pinnedSince: expect.any(Date) });
    const refused = errorOf(await world.load(course));
    expect(refused.message).toContain('The table of parcels is pinned at version 1');
    expect(errorOf(await rollBack(world, 1)).message).toContain('there is nothing to roll back');
    await world.destination.unpin('parcels');
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    for (const [index, rows] of [FIRST, SECOND, THIRD, FIRST, THIRD].entries()) {
      expect(await stateAfter(world, index + 1)).toEqual(texts(rows));
    }
  });

  it('F70 refuses to roll back rows that were altered by hand, and changes nothing', async () => {
    const { world } = await threeCommits(kind);
    await world.byHand(`UPDATE ${world.table} SET name = 'by hand' WHERE id = 2`);
    await world.byHand(`INSERT INTO ${world.table} VALUES (8, 'by hand')`);
    const refused = errorOf(await rollBack(world, 1));
    expect(refused.message).toMatch(/^parcels cannot be rolled back to commit 1: .*Nothing was changed\.$/);
    expect(await world.rows()).toHaveLength(4);
  });

  it('F70 refuses to roll back to a commit with a checksum of another hash, and names the states that can be restored', async () => {
    const { world } = await threeCommits(kind);
    await world.byHand("UPDATE feed_sync.commits SET checksum_version = 'another' WHERE commit_number = 1");
    const refused = errorOf(await rollBack(world, 1)) as FeedSyncError;
    expect(refused.message).toBe(
      'parcels cannot be rolled back to commit 1: its checksum was computed by another version of the hash, ' +
        'so that nothing proves its rows. Nothing was changed.',
    );
    const [, sql = ''] =
      /^Name a later state: feed-sync query "([^"]+)" lists/.exec(refused.hint ?? '') ?? [];
    expect((await read(world, sql)).map(([commit]) => commit)).toEqual(['2', '3']);
    expect(await rollBack(world, 2)).toMatchObject({ kind: 'committed' });
  });

  it('F70 diff and the preview of a rollback name a column that was altered by hand, and the table is loaded again', async () => {
    const { world, course } = await threeCommits(kind);
    const first = { by: 'commit', commitNumber: 1 } as const;
    const refused = {
      code: 'data_invalid',
      message:
        'The table parcels has not the columns that the catalog lists: "name". Its earlier states cannot be computed from it.',
    };
    for (const change of ['ALTER name TYPE BYTEA USING NULL', 'DROP COLUMN name']) {
      await world.byHand(`ALTER TABLE ${world.table} ${change}`);
      const reader = await world.reader();
      try {
        await expect(reader.diff('parcels', { from: first, to: null })).rejects.toMatchObject(refused);
        await expect(reader.simulateRollback('parcels', first)).rejects.toMatchObject(refused);
      } finally {
        await reader.close();
      }
    }
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    course.publishRows(FIRST);
    await world.apply(course);
    expect(await stateAfter(world, 4)).toEqual(texts(THIRD));
  });

  it('F69 rolls back past a schema change and restores the columns of that commit', async () => {
    const { world, course } = await threeCommits(kind);
    course.publish(firstContent(OWNERS, [[1, 'Ann']]));
    await world.load(course);
    expect(await rollBack(world, 2)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual(texts(SECOND));
    expect(await stateAfter(world, 5)).toEqual(texts(SECOND));
    expect(await rollBack(world, 4)).toMatchObject({ kind: 'committed' });
    expect(await world.rows()).toEqual([['1', 'Ann']]);
  });
});
