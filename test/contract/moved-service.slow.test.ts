/**
 * A service at another address whose logs are not those that were read: a copy that was restored from an older backup, or one
 * that has begun its logs anew. Once an operator has accepted it, the next catch-up has its rows, or says from when on it will.
 */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { smallContent } from '../support/small-content.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** The one amount in each version of parcels. Those that two services have in common, they have from one backup. */
const BEFORE = [1, 2, 3, 4, 5, 6] as const;
const OLDER_BACKUP = BEFORE.slice(0, 2);

interface Restored {
  readonly amounts: readonly number[];
  /** After the service before had begun. */
  readonly begunMs?: number;
}

async function serviceOf(
  { amounts, begunMs = 0 }: Restored,
  options: FixtureFeedOptions,
): Promise<FixtureFeed> {
  const feed = await startFixtureFeed({
    apiKey: CANARY_KEY,
    clock: stillClock('2026-03-01T12:00:00Z'),
    ...options,
  });
  onTestFinished(feed.close);
  feed.clock.advance(begunMs);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  feed.publisher.addDataset({ datasetId: 'parcels' });
  for (const amount of amounts) publish(feed, amount);
  return feed;
}

function publish(feed: FixtureFeed, amount: number): void {
  feed.clock.advance(MINUTE_MS);
  feed.publisher.publish('parcels', smallContent([['r0', amount]], [{ op: 'changed', row: ['r0', amount] }]));
}

interface Moved {
  readonly feed: FixtureFeed;
  readonly line: CommandLine;
}

/** A mirror of the service before, whose configuration names the restored one. */
async function movedTo(restored: Restored, options: FixtureFeedOptions = {}): Promise<Moved> {
  const before = await serviceOf({ amounts: BEFORE }, options);
  const feed = await serviceOf(restored, options);
  let now = () => before.clock.now();
  const environment = { FEED_SYNC_LOG_LEVEL: 'silent', FEED_SYNC_RETRY_MAX_ATTEMPTS: '2' };
  const line = commandLine({ feed: before, now: () => now(), environment });
  onTestFinished(() => line.remove());
  expect((await line.run('once')).exitCode).toBe(0);
  expect(await amountIn(line)).toBe('6');
  const aheadMs = before.clock.now().getTime() - feed.clock.now().getTime();
  feed.clock.advance(Math.max(0, aheadMs) + MINUTE_MS);
  now = () => feed.clock.now();
  line.environment['FEED_SYNC_BASE_URL'] = feed.baseUrl;
  return { feed, line };
}

const amountIn = async ({ dataDirectory }: CommandLine): Promise<unknown> =>
  (await inMirror(dataDirectory, 'SELECT amount FROM parcels'))[0]?.[0];

const SHORTER: readonly (readonly [string, Restored])[] = [
  ['a copy that was restored from an older backup', { amounts: OLDER_BACKUP }],
  ['one that went on after an older backup, and has fewer events', { amounts: [...OLDER_BACKUP, 13, 14] }],
  ['one that has begun its logs anew', { amounts: [21, 22], begunMs: DAY_MS }],
  [
    'one that has begun its logs anew, and has as many events',
    { amounts: [31, 32, 33, 34, 35, 36], begunMs: DAY_MS },
  ],
];

for (const [name, restored] of SHORTER) {
  for (const unknownPosition of ['refused', 'taken', 'expired'] as const) {
    it(`F54 the mirror has the rows of the accepted service: ${name}, old positions ${unknownPosition}`, async () => {
      const { feed, line } = await movedTo(restored, { answers: { unknownPosition } });
      const accepted = await line.run('resume', '--service-moved');
      expect(accepted).toMatchObject({ exitCode: 0, stderr: '' });
      expect(accepted.stdout).toContain('the next catch-up starts from the manifest of sub_1');
      expect((await line.run('once')).exitCode).toBe(0);
      expect(await amountIn(line)).toBe(String(restored.amounts.at(-1)));
      publish(feed, 99);
      expect((await line.run('once')).exitCode).toBe(0);
      expect(await amountIn(line)).toBe('99');
    });
  }
}

it('F54 waits for the manifest of an accepted service without event numbers until it surely is new: 75, with the time', async () => {
  const contract = { manifestLastEventId: false, recordLastEventId: false };
  const options = { contract, answers: { unknownPosition: 'taken' } } as const;
  const { feed, line } = await movedTo({ amounts: [...OLDER_BACKUP, 13] }, options);
  expect((await line.run('resume', '--service-moved')).exitCode).toBe(0);
  const waiting = await line.run('once');
  expect(waiting).toMatchObject({ exitCode: 75 });
  expect(waiting.stdout).toMatch(/Running it again helps from \S+ \S+ UTC on/);
  feed.clock.advance(16 * MINUTE_MS);
  expect((await line.run('once')).exitCode).toBe(0);
  expect(await amountIn(line)).toBe('13');
});

it('F54 takes an accepted service from its manifest though the checkpoint was lost', async () => {
  const { line } = await movedTo({ amounts: OLDER_BACKUP });
  rmSync(join(line.dataDirectory, 'checkpoint.sqlite'));
  const accepted = await line.run('resume', '--service-moved');
  expect(accepted.stdout).toContain('the next catch-up starts from the manifest of sub_1');
  expect((await line.run('once')).exitCode).toBe(0);
  expect(await amountIn(line)).toBe('2');
});

it('goes on with an accepted service that has the logs that were read, and loads nothing again', async () => {
  const { feed, line } = await movedTo({ amounts: BEFORE });
  const accepted = await line.run('resume', '--service-moved');
  expect(accepted.stdout).not.toContain('starts from the manifest');
  expect((await line.run('once')).stdout).toContain('0 loaded, 1 already up to date');
  expect(feed.requests.entries('file')).toEqual([]);
});

it('does not accept a service whose manifest cannot be read, so that no position of another log is kept: 75', async () => {
  const { feed, line } = await movedTo({ amounts: OLDER_BACKUP });
  feed.faults.add({
    match: { operation: 'manifest', times: 'always' },
    act: { kind: 'respond', status: 503 },
  });
  expect((await line.run('resume', '--service-moved')).exitCode).toBe(75);
  expect((await line.run('once')).exitCode).toBe(78);
  feed.faults.clear();
  expect((await line.run('resume', '--service-moved')).exitCode).toBe(0);
  expect((await line.run('once')).exitCode).toBe(0);
  expect(await amountIn(line)).toBe('2');
});
