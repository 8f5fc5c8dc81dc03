/** A text whose length is damaged, as other processes read it (F58). */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { asRead } from '../../src/destination/duckdb/damage/damage.ts';
import { examineFile } from '../../src/destination/duckdb/damage/examine.ts';
import { scrubSlice } from '../../src/destination/duckdb/damage/scrub.ts';
import { diagnose } from '../../src/staging/engine/errors.ts';
import { writeLength } from '../support/damaged-mirror.ts';
import { duckdb, temporaryFolder } from '../support/duckdb-mirror.ts';

const MEMORY_BYTES = 40_000_000;
const LONG = 'of a deed '.repeat(1_000);

/** A file with a small table, and with one of a long text. */
async function fileOf(text: string) {
  const folder = await temporaryFolder();
  onTestFinished(() => folder[Symbol.asyncDispose]());
  const path = join(folder.path, 'mirror.duckdb');
  await duckdb(
    `ATTACH '${path}' AS file`,
    'CREATE TABLE file.main.small AS SELECT 1 AS i',
    `CREATE TABLE file.main.texts AS SELECT ${text} AS value`,
    'CHECKPOINT file',
    'DETACH file',
  );
  return { path, memoryLimitBytes: MEMORY_BYTES, temporaryDirectory: join(folder.path, 'spill') };
}

it('F58 finds the table of a text whose length is far beyond that of the file, and no lack of memory', async () => {
  const file = await fileOf(`'${LONG}'`);
  writeLength(file.path, LONG, 0x61656420);
  const why = expect.stringContaining('could not allocate block of size 1.5 GiB');
  expect(await examineFile(file)).toMatchObject({
    tables: [
      { name: 'main.small', state: 'sound' },
      { name: 'main.texts', state: 'ends-process', why },
    ],
    unreadable: null,
  });
  expect(await scrubSlice(file, { table: 'main.texts', row: 0 })).toMatchObject({
    damage: { tableName: 'main.texts', why },
  });
});

it('F58 takes a text that exceeds the memory for no damage where the file has it', async () => {
  const file = await fileOf(`repeat(md5('deed'), 2000000)`);
  await expect(examineFile(file)).rejects.toMatchObject({ code: 'storage_failed' });
});

it.each([
  ['block of size 4.0 GiB (9.5 MiB/1.8 GiB used)', 'unreadable'],
  // Tables of hashes and of rows may be larger than a small file.
  ['block of size 4.0 MiB (57.0 MiB/57.2 MiB used)', 'out-of-memory'],
  ['block of size 256.0 KiB (57.0 MiB/57.2 MiB used)', 'out-of-memory'],
])('F58 a lack of memory for a %s while a small file is read is diagnosed as %s', async (block, fault) => {
  const { path } = await fileOf('1');
  const message = JSON.stringify({
    exception_type: 'Out of Memory',
    exception_message: `could not allocate ${block}`,
  });
  expect(await asRead(diagnose(new Error(message)), path)).toMatchObject({ fault });
});

it('F58 a compressed text may be longer than its file: a lack of memory for it is no damage', async () => {
  const { path } = await fileOf('1');
  const message = 'Out of Memory Error: failed to allocate data of size 4.0 GiB (368.0 KiB/57.2 MiB used)';
  expect(await asRead(diagnose(new Error(message)), path)).toMatchObject({ fault: 'out-of-memory' });
});
