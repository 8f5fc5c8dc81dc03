/** A load by several threads is proven no less than one by a single thread: each thread scans a part of the rows. */

import { describe, expect, it } from 'vitest';
import { manualClock, column as mirrorColumn, parquet, snapshot } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';

const ROWS = 200_000;

describe.each([1, 2, 3])('a large table, loaded by %i threads', (threads) => {
  it.each([
    ['V8 commits a large table whose keys differ', 'i', null],
    ['V8 commits a large table whose composite keys differ in one part', 'i // 2', null],
    ['V8 refuses a large table with a repeated key', 'if(i = 199999, 7, i)', 'is there 2 times'],
    [
      'V8 refuses a large table with a null in a key',
      'if(i = 150000, NULL, i)',
      'is null in 1 of 200,000 rows',
    ],
  ])('%s', async (_, id, refusal) => {
    const world = await mirrorAtWork({ clock: manualClock(), threads });
    const path = await parquet(
      world.folder,
      'large.parquet',
      `SELECT ${id} AS id, i % 2 AS part FROM range(${ROWS}) AS r(i)`,
    );
    const columns = ['id', 'part'].map((name) => mirrorColumn(name, 'integer'));
    const keyColumns = id === 'i' ? ['id'] : ['id', 'part'];
    const job = snapshot({ datasetId: 'large', columns, keyColumns, files: [path] });
    const [outcome] = await world.execute(job);
    if (refusal === null) {
      expect(outcome).toMatchObject({ kind: 'committed', committed: { rowCount: ROWS } });
    } else {
      expect(outcome).toMatchObject({ kind: 'failed' });
      expect(String(outcome?.kind === 'failed' ? outcome.error : '')).toContain(refusal);
    }
  });

  it('V8 proves a large table with a column that hides the addresses of its rows', async () => {
    const world = await mirrorAtWork({ clock: manualClock(), threads });
    const load = async (id: string) => {
      const sql = `SELECT ${id} AS id, 1 AS rowid FROM range(${ROWS}) AS r(i)`;
      const files = [await parquet(world.folder, 'hiding.parquet', sql)];
      const columns = ['id', 'rowid'].map((name) => mirrorColumn(name, 'integer'));
      return await world.execute(snapshot({ datasetId: 'hiding', columns, keyColumns: ['id'], files }));
    };
    const [refused] = await load('i % 199999');
    expect(String(refused?.kind === 'failed' ? refused.error : '')).toContain('is there 2 times');
    const [outcome] = await load('i');
    expect(outcome).toMatchObject({ kind: 'committed', committed: { rowCount: ROWS } });
  });
});
