/** F18 a file of a few hundred bytes whose rows are a terabyte: it takes no more of the disk than it may, and fails alone. */

import { globSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { column, inMirror, load, mirrorIn, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import { forgeParquet } from '../support/forged-parquet.ts';

const MEMORY_LIMIT_BYTES = 200_000_000;
const VALUE_BYTES = 100_000;
/** So many are copied before DuckDB counts them as its memory. */
const ROWS_AT_ONCE = 2_048;
/** Of the disk, before less than the reserve is left. */
const USABLE_BYTES = 500_000_000;
const RESERVE_BYTES = 1_000_000_000;

/** What lies on the disk: it has no room for anything else, and nobody else writes on it, whatever else the machine does. */
const disk = vi.hoisted(() => ({ folder: '' }));

vi.mock(import('../../src/lib/files.ts'), async (actual) => ({
  ...(await actual()),
  freeBytes: async () => RESERVE_BYTES + USABLE_BYTES - bytesBelow(disk.folder),
}));

/** Files may come and go meanwhile. */
function bytesBelow(folder: string): number {
  const paths = globSync('**/*', { cwd: folder });
  const blocks = paths.map((path) => statSync(join(folder, path), { throwIfNoEntry: false })?.blocks ?? 0);
  return blocks.reduce((sum, count) => sum + count, 0) * 512;
}

it('F18 stops a text that ten million rows repeat at the disk reserve, and frees the space', async () => {
  await using folder = await temporaryFolder();
  disk.folder = folder.path;
  await using opened = new AsyncDisposableStack();
  const mirror = await mirrorIn(folder.path, {
    memoryLimitBytes: MEMORY_LIMIT_BYTES,
    reserveBytes: RESERVE_BYTES,
  });
  opened.defer(() => mirror.close());
  const job = (datasetId: string, rows: number, value: string) => {
    const path = join(folder.path, `${datasetId}.parquet`);
    forgeParquet(path, { rows, value });
    return snapshot({ datasetId, columns: [column('name', 'string')], files: [path] });
  };
  const bomb = job('bomb', 10_000_000, 'x'.repeat(VALUE_BYTES));
  expect((await stat(bomb.files[0]?.path ?? '')).size).toBeLessThan(1_000);
  const before = process.resourceUsage().maxRSS;
  const outcomes = await load(mirror, bomb, job('sound', 3, 'x'));
  expect(outcomes).toMatchObject([{ kind: 'failed', datasetId: 'bomb' }, { kind: 'committed' }]);
  expect(outcomes[0]).toHaveProperty('error.code', 'disk_full');
  expect(outcomes[0]).toHaveProperty(
    'error.message',
    expect.stringMatching(/^Not enough space in \S+ \([\d.]+ [KMGT]B free\): .*beyond disk\.reserve\.$/),
  );
  const grownBytes = (process.resourceUsage().maxRSS - before) * 1_024;
  expect(grownBytes).toBeLessThan(MEMORY_LIMIT_BYTES + 2 * ROWS_AT_ONCE * VALUE_BYTES + 200_000_000);
  expect(await inMirror(folder.path, 'SELECT count(*) FROM sound')).toEqual([['3']]);
  expect((await stat(join(folder.path, 'mirror.duckdb'))).size).toBeLessThan(10_000_000);
  const spilled = await readdir(join(folder.path, 'duckdb-temporary-large')).catch(() => []);
  expect(spilled).toEqual([]);
});
