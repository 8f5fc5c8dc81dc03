/**
 * F08: `feed-sync once` with the least memory that may be configured, and a snapshot several times as large: what does not fit
 * is spilled into the data directory, and the process stays within what is documented.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { publishFiles, queried } from '../support/bad-content.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { once } from '../support/expect-mirrored.ts';
import { type Program, program } from '../support/program.ts';
import { column, SMALL_SCHEMA } from '../support/small-content.ts';

const LEAST_LIMIT = '64MB';
const ROWS = 1_500_000;
/** Of a row: a key of 32 characters and a text of 64, which no compression makes much smaller. */
const ROW_BYTES = 96;
const LIMIT_BYTES = 64e6;
/**
 * What the process takes beside DuckDB's limit, at most, with room for noise: some 180 MB were measured, and 270 as long as V8 and
 * DuckDB kept what was free. docs/guide.md asks for 512 MB in all.
 */
const BESIDE_BYTES = 230e6;

const SCHEMA = { ...SMALL_SCHEMA, columns: [...SMALL_SCHEMA.columns, column('text', 'string')] };

/** Runs `once` and measures it while it runs. */
async function watched(installed: Program) {
  const running = installed.start('once');
  const seen = { peakBytes: 0, spilled: false };
  const measuring = setInterval(() => {
    try {
      const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${running.pid}/status`, 'utf8')) ?? [];
      seen.peakBytes = Math.max(seen.peakBytes, Number(kilobytes ?? 0) * 1_024);
      seen.spilled ||= readdirSync(join(installed.dataDirectory, 'duckdb-temporary-large')).length > 0;
    } catch {
      // It has ended, or has spilled nothing yet.
    }
  }, 10);
  const ended = await running.ended;
  clearInterval(measuring);
  return { ended, ...seen };
}

it(`F08 once loads ${ROWS * ROW_BYTES} bytes with ${LEAST_LIMIT}, and loads them again over the old table`, async () => {
  const feed = await startFixtureFeed();
  const installed = await program({ feed, environment: { FEED_SYNC_DUCKDB_MEMORY_LIMIT: LEAST_LIMIT } });
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  feed.publisher.addDataset({ datasetId: 'parcels' });
  const publish = async (version: number) => {
    const row = `md5(i::VARCHAR) AS id, i + ${version} AS amount, md5((-i)::VARCHAR) || md5((i * 7)::VARCHAR) AS text`;
    const select = `SELECT ${row} FROM range(${ROWS}) AS t(i)`;
    publishFiles(
      feed,
      'parcels',
      [await queried(installed.home, `v${version}.parquet`, select, ROWS)],
      SCHEMA,
    );
  };
  for (const version of [1, 2]) {
    await publish(version);
    const { ended, peakBytes, spilled } = await watched(installed);
    expect(ended).toMatchObject({ exitCode: 0, signal: null });
    process.stdout.write(
      `F08: ${Math.round(peakBytes / 1e6)} MB resident at most, with ${LEAST_LIMIT} for DuckDB\n`,
    );
    expect(spilled).toBe(true);
    expect(peakBytes).toBeGreaterThan(LIMIT_BYTES);
    expect(peakBytes).toBeLessThan(LIMIT_BYTES + BESIDE_BYTES);
    const sum = (ROWS * (ROWS - 1)) / 2 + version * ROWS;
    expect(
      await inMirror(
        installed.dataDirectory,
        'SELECT count(*), count(DISTINCT id), sum(amount)::VARCHAR FROM parcels',
      ),
    ).toEqual([[String(ROWS), String(ROWS), String(sum)]]);
  }
  expect((await once(installed)).stdout).toContain('0 loaded, 1 already up to date');
  await feed.close();
});
