/** A slice of a scrub, in a process of its own with little memory (F58). */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { scrubSlice } from '../../src/destination/duckdb/damage/scrub.ts';
import { duckdb, temporaryFolder } from '../support/duckdb-mirror.ts';

const MEMORY_BYTES = 40_000_000;

/** A file with one table of so many values of so many megabytes each. */
async function fileOf(values: number, megabytes: number) {
  const folder = await temporaryFolder();
  onTestFinished(() => folder[Symbol.asyncDispose]());
  const path = join(folder.path, 'mirror.duckdb');
  await duckdb(
    `ATTACH '${path}' AS file`,
    `CREATE TABLE file.main.large AS
      SELECT i, repeat(md5(i::VARCHAR), ${megabytes * 31_250}) AS value FROM range(${values}) AS t(i)`,
    'CHECKPOINT file',
    'DETACH file',
  );
  return { path, memoryLimitBytes: MEMORY_BYTES, temporaryDirectory: join(folder.path, 'spill') };
}

it('F58 scrubs rows that together exceed its memory, and does not call their table damaged', async () => {
  const slice = await scrubSlice(await fileOf(30, 3), null);
  expect(slice).toEqual({ position: { table: 'main.large', row: 122_880 }, isAtEnd: true, damage: null });
});

it('F58 fails a scrub where one value exceeds its memory, and reports no damage', async () => {
  await expect(scrubSlice(await fileOf(1, 90), null)).rejects.toMatchObject({ code: 'storage_failed' });
});
