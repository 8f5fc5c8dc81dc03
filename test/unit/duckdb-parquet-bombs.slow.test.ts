/** F18 F43 files of few bytes that would be much larger once read are refused with the file's name, and no other dataset waits. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { DataError } from '../../src/model/errors.ts';
import { column, type SnapshotSpecification, snapshot } from '../support/duckdb-mirror.ts';
import { type Forgery, forgeParquet } from '../support/forged-parquet.ts';
import { mirrorOfEachTest } from '../support/own-mirror.ts';

const TEN_BILLION = 10_000_000_000;
const TWO_BILLION = 2_000_000_000;

const own = mirrorOfEachTest({ memoryLimitBytes: 200_000_000 });

function forged(datasetId: string, forgery: Forgery, rest: Partial<SnapshotSpecification> = {}) {
  const path = join(own.path, `${datasetId}.parquet`);
  forgeParquet(path, forgery);
  return snapshot({ datasetId, columns: [column('name', 'string')], files: [path], ...rest });
}

it('loads a file that the forging helper wrote without a forgery', async () => {
  const job = forged('sound', { rows: 3, value: 'Zoë' });
  expect(await own.load(job)).toMatchObject([{ kind: 'committed' }]);
  expect(await own.query('FROM sound')).toEqual([['Zoë'], ['Zoë'], ['Zoë']]);
});

it.each<[string, Forgery, string]>([
  [
    'F18 refuses by the footer a file with more rows than the version record states',
    { rows: 1_000, statedRows: { file: TEN_BILLION, group: TEN_BILLION } },
    'has 10,000,000,001 rows, but the version record states 1,000. Most of them are in the file bomb.parquet.',
  ],
  [
    'F18 refuses by the footer a file with more rows than its own metadata state',
    { rows: TWO_BILLION, statedRows: { file: 1_000 } },
    'The file bomb.parquet of bomb has contradicting metadata about its rows.',
  ],
])('%s', async (_, forgery, message) => {
  const sound = join(own.path, 'sound.parquet');
  forgeParquet(sound, { rows: 1 });
  const job = forged('bomb', forgery, {
    files: [sound, join(own.path, 'bomb.parquet')],
    expectedRowCounts: [{ rowCount: 1_000, statedBy: 'the version record' }],
  });
  const error = await own.mirror.validate(job).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(DataError);
  expect(String(error)).toContain(message);
});

it.each<[string, Forgery['statedPageBytes']]>([
  ['a dictionary of 2 GB', { dictionary: 2 ** 31 - 1 }],
  ['a dictionary of more than the limit of memory', { dictionary: 700_000_000 }],
  ['a page of 2 GB', { data: 2 ** 31 - 1 }],
  ['a page of more than the limit of memory', { data: 700_000_000 }],
])('F18 takes no memory for what claims to be %s, and fails only its dataset', async (_, statedPageBytes) => {
  const before = process.resourceUsage().maxRSS;
  const outcomes = await own.load(
    forged('bomb', { rows: 1_000, ...(statedPageBytes === undefined ? {} : { statedPageBytes }) }),
    forged('sound', { rows: 3 }),
  );
  expect(outcomes).toMatchObject([
    {
      kind: 'failed',
      error: { message: expect.stringContaining('The file bomb.parquet of bomb cannot be read') },
    },
    { kind: 'committed' },
  ]);
  expect(outcomes[0]).toHaveProperty('error', expect.any(DataError));
  // In kilobytes; the peak of the process.
  expect(process.resourceUsage().maxRSS - before).toBeLessThan(200_000);
});
