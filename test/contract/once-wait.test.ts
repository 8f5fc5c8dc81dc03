/** `once` beside rules that wait for time to pass: it says when running it again helps, and waits for it with --wait. */

import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const MINUTE_MS = 60_000;
const DATASETS = ['parcels', 'permits'];

/**
 * A feed of two datasets and their mirror; one of them has left its subscription since, and no event says so. `stopping` is
 * stopped by the first wait for time to pass.
 */
async function leftWithoutEvent(stopping: AbortController | null = null) {
  const clock = stillClock('2026-03-01T08:00:00Z');
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: DATASETS });
  for (const datasetId of DATASETS) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
  }
  /** Those for time to pass, in milliseconds: what else a command waits for takes no minute. */
  const waits: number[] = [];
  const installed = commandLine({
    feed,
    now: clock.now,
    onWait: (durationMs) => {
      if (durationMs < MINUTE_MS) return;
      waits.push(durationMs);
      clock.advance(durationMs);
      stopping?.abort(new InterruptedError('The process was asked to stop.'));
    },
    ...(stopping === null ? {} : { signal: stopping.signal }),
  });
  onTestFinished(() => installed.remove());
  expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
  clock.advance(MINUTE_MS);
  feed.publisher.remove('permits', 'source_retired', { announce: false });
  return { clock, installed, waits };
}

it('once names the earliest time at which running it again helps, and does not wait for it by itself', async () => {
  const { clock, installed, waits } = await leftWithoutEvent();
  const once = await installed.run('once');
  expect(once.exitCode).toBe(0);
  expect(once.stdout).toContain('2 already up to date');
  expect(once.stdout).toContain(
    'Running it again helps from 2026-03-01 08:11 UTC on, in 10 m 0 s.\n→ feed-sync once --wait 11m waits for it.',
  );
  expect(waits).toEqual([]);
  clock.advance(10 * MINUTE_MS);
  const again = await installed.run('once');
  expect(again.stdout).toContain('1 retired');
  expect(again.stdout).not.toContain('again helps');
});

it('once --wait waits until it helps, catches up again, and says so once', async () => {
  const { installed, waits } = await leftWithoutEvent();
  const once = await installed.run('once', '--wait', '11m');
  expect(once.exitCode).toBe(0);
  expect(once.stdout).toContain('1 retired');
  expect(once.stdout.match(/datasets? in 1 subscription/g)).toHaveLength(1);
  expect(waits).toEqual([10 * MINUTE_MS + 1_000]);
  const waiting = once.stderr.split('\n').find((line) => line.includes('Waiting until'));
  expect(JSON.parse(waiting ?? '')).toMatchObject({ level: 'info', until: '2026-03-01T08:11:00.000Z' });
});

it('once --wait waits no longer than its duration, and ends immediately where that is too short', async () => {
  const { installed, waits } = await leftWithoutEvent();
  const once = await installed.run('once', '--wait', '10m');
  expect(once.stdout).toContain('→ feed-sync once --wait 11m waits for it.');
  expect(waits).toEqual([]);
});

it('F12 once --wait that is interrupted while it waits ends with 75', async () => {
  const { installed, waits } = await leftWithoutEvent(new AbortController());
  const once = await installed.run('once', '--wait', '11m');
  expect(once.exitCode).toBe(75);
  expect(once.stdout).toContain('The process was asked to stop.');
  expect(waits).toHaveLength(1);
});

it.each([
  [['--wait', 'soon'], "--wait is 'soon', which is not a duration; for example 20m."],
  [['--wait', '20m', '--dry-run'], '--wait does not go with --dry-run, which changes nothing.'],
])('once ends with 64 for %j', async (words, says) => {
  const { installed } = await leftWithoutEvent();
  const once = await installed.run('once', ...words);
  expect(once.exitCode).toBe(64);
  expect(once.stderr).toContain(says);
});
