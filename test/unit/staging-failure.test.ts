/** F07 F08: the error where DuckDB cannot render the rows of a dataset for PostgreSQL: for lack of memory, of space, or of itself. */

import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { stagingFailure } from '../../src/destination/postgres/staging-failure.ts';
import { DuckDbError, type Fault } from '../../src/staging/engine/errors.ts';

it.each<[Fault, string, RegExp, RegExp | undefined]>([
  [
    'out-of-memory',
    'dataset_storage_failed',
    /could not be written into PostgreSQL: it said so\.$/,
    /duckdb\.memoryLimit/,
  ],
  [
    'disk-full',
    'disk_full',
    /into PostgreSQL\. The disk of .* is full \(.* free\): it said so\.$/,
    /^Free space on it/,
  ],
  ['no-space', 'disk_full', /no more than disk\.reserve is left in it said so\.$/, /^Free space on it/],
  ['gave-up', 'dataset_storage_failed', /could not be written into PostgreSQL: it said so\.$/, undefined],
  ['interrupted', 'interrupted', /^The work on the rows of parcels was interrupted\.$/, undefined],
])(
  'F07 F08 names the dataset, the cause and what to do where DuckDB fails by the fault %s',
  async (fault, code, message, hint) => {
    const error = new DuckDbError(fault, false, 'it said so\nand more', null);
    const failure = await stagingFailure(error, 'parcels', tmpdir());
    expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
    if (hint === undefined) expect(failure.hint ?? null).toBeNull();
    else expect(failure.hint).toMatch(hint);
  },
);
