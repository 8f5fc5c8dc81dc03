/** A reload with history whose comparison does not fit into the least memory that may be configured. */

import { expect, it, onTestFinished } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import {
  column,
  inMirror,
  load,
  mirrorIn,
  parquet,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { ALL_HISTORY } from '../support/people.ts';

const LEAST_LIMIT_BYTES = 64_000_000;
/** Keys and texts that no compression makes much smaller: 96 bytes a row, more than the limit in all. */
const ROWS = 1_500_000;
/** A table that is written in the same write session. */
const OTHER_ROWS = 200_000;

interface Reloaded {
  readonly datasetId: string;
  readonly version: number;
  readonly rows: number;
  /** SQL of the row number `i`. */
  readonly amount: string;
  readonly key?: string;
}

async function jobOf(
  mirror: Destination,
  folder: string,
  { datasetId, version, rows, amount, key = 'i' }: Reloaded,
) {
  const select = `SELECT md5((${key})::VARCHAR) AS id, ${amount} AS amount, md5((-i)::VARCHAR) || md5((i * 7)::VARCHAR) AS text
    FROM range(${rows}) AS t(i)`;
  return snapshot({
    datasetId,
    version,
    digest: `digest-${version}`,
    columns: [
      column('id', 'string', { nullable: false }),
      column('amount', 'integer'),
      column('text', 'string'),
    ],
    keyColumns: ['id'],
    files: [await parquet(folder, `${datasetId}-${version}.parquet`, select)],
    plannedFrom: (await mirror.has()).datasets.get(datasetId) ?? null,
  });
}

/** A mirror with history and the least memory. Is closed and removed when the test has finished. */
async function leastMirror() {
  const folder = await temporaryFolder();
  const mirror = await mirrorIn(folder.path, { memoryLimitBytes: LEAST_LIMIT_BYTES, history: ALL_HISTORY });
  onTestFinished(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });
  return { folder: folder.path, mirror };
}

it('F68 judges a reload by keys where the memory is too small to compare the rows', async () => {
  const { folder, mirror } = await leastMirror();
  const parcels = { datasetId: 'parcels', rows: ROWS };
  await load(mirror, await jobOf(mirror, folder, { ...parcels, version: 1, amount: 'i' }));
  const next = await jobOf(mirror, folder, { ...parcels, version: 2, amount: 'i + 1', key: 'i + 3' });
  const limits = { ...NO_LIMITS, removedRows: { rows: 2, share: null } };
  const [result] = await load(mirror, { ...next, gate: { limits, approvedDigest: null } });
  const counts = { before: ROWS, after: ROWS, added: 3, changed: null, removed: 3, isByKey: true };
  expect(result).toMatchObject({ kind: 'awaiting', judged: { counts } });
});

it('F08 swaps a table whose comparison exceeds the memory, closes its log with the reason, and loads the others', async () => {
  const { folder, mirror } = await leastMirror();
  await mirror.enroll({
    origin: 'https://feed.example',
    subscriptionIds: ['sub_1'],
    forgottenSubscriptionIds: [],
    datasetIds: ['parcels', 'roads'],
  });
  const parcels = (version: number, amount: string) =>
    jobOf(mirror, folder, { datasetId: 'parcels', version, rows: ROWS, amount });
  const committed = { kind: 'committed' };
  expect(await load(mirror, await parcels(1, 'i'))).toMatchObject([committed]);
  const few = await parcels(2, 'i + CASE WHEN i % 100 = 0 THEN 1 ELSE 0 END');
  expect(await load(mirror, few)).toMatchObject([{ ...committed, committed: { net: { changed: 15_000 } } }]);

  const all = await parcels(3, 'i + 2');
  const other = await jobOf(mirror, folder, {
    datasetId: 'roads',
    version: 1,
    rows: OTHER_ROWS,
    amount: 'i',
  });
  const lostPast = 'comparing the rows of the table needed more memory than duckdb.memoryLimit allows';
  expect(await load(mirror, all, other)).toMatchObject([
    { ...committed, committed: { lostPast } },
    committed,
  ]);
  const logs =
    'SELECT log_name, closed_commit::VARCHAR, closed_reason FROM feed_sync.history_logs ORDER BY ALL';
  expect(await inMirror(folder, logs)).toEqual([
    ['parcels', '3', 'comparing the rows of the table needed more memory than duckdb.memoryLimit allows'],
    ['roads', null, null],
  ]);
  const sums = `SELECT (SELECT sum(amount) FROM parcels)::VARCHAR, (SELECT sum(amount) FROM roads)::VARCHAR`;
  const sumTo = (rows: number) => (rows * (rows - 1)) / 2;
  expect(await inMirror(folder, sums)).toEqual([[String(sumTo(ROWS) + 2 * ROWS), String(sumTo(OTHER_ROWS))]]);
});
