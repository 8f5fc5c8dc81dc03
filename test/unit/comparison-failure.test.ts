/** F07, F66: the error of a comparison of rows on a disk that takes nothing more, on a real file system. */

import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { hasSmallDisks, type SmallDisk, smallDisk } from '../support/small-disk.ts';

const COMPARISON = new URL('../../src/destination/comparison-failure.ts', import.meta.url).href;
const ENGINE = new URL('../../src/staging/engine/errors.ts', import.meta.url).href;

/** The error for the operator where DuckDB found no space for the rows of a table. */
function errorOn({ path, within }: SmallDisk): { readonly message: string; readonly hint: string } {
  const script = `import { comparisonFailure } from '${COMPARISON}';
    import { DuckDbError } from '${ENGINE}';
    const error = new DuckDbError('disk-full', false, 'Could not write', null);
    const places = { path: process.argv[1] + '/mirror.duckdb', directory: process.argv[1] };
    const { message, hint } = await comparisonFailure(error, { tableName: 'parcels' }, places);
    console.log(JSON.stringify({ message, hint }));`;
  const [command = '', ...words] = [...within, process.execPath, '--input-type=module', '-e', script, path];
  const { stdout, stderr } = spawnSync(command, words, { encoding: 'utf8' });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

describe.skipIf(!hasSmallDisks)('a comparison without free space', () => {
  it('F07 says that the disk of the folder is full, how much is free, and what a comparison keeps there', async () => {
    const disk = await smallDisk(1_000_000);
    disk.leave(0);
    const { message, hint } = errorOn(disk);
    expect(message).toContain(
      `The rows of the table parcels could not be compared. The disk of ${disk.path} is full`,
    );
    expect(message).toMatch(/\([\d.]+ (?:[KM]?B|bytes) free\): Could not write\.$/);
    expect(hint).toMatch(/^Free space on it: the content of one table at a time/);
  });

  it('F66 says that no inodes are left where bytes are free, and how they are counted', async () => {
    const disk = await smallDisk(1_000_000);
    disk.leaveInodes(0);
    const { message, hint } = errorOn(disk);
    expect(message).toContain(`no inodes left for another file in ${disk.path} (`);
    expect(message).not.toContain('is full');
    expect(hint).toMatch(/df -i/);
  });
});
