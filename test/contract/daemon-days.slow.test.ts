/** Days of a daemon in this process, on the HTTP fixture and real stores: only its clock is the test's. */

import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored } from '../support/expect-mirrored.ts';
import { fixtureDaemon } from '../support/fixture-daemon.ts';
import { program } from '../support/program.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** What is in use, without what nobody refers to any more. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}

describe('24 quiet hours', () => {
  it('are a request a minute and an audit an hour, without a line in the log and without growing', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed });
    const { daemon, logged, pass, end } = await fixtureDaemon(installed, feed);
    await pass(2 * MINUTE_MS, 10_000);
    await expectMirrored(installed, feed);
    feed.requests.clear();
    logged.length = 0;
    await pass(HOUR_MS, 5_000);
    const before = heapBytes();
    await pass(23 * HOUR_MS, 5_000);
    const grownBytes = heapBytes() - before;
    const polls = feed.requests.entries('events').length;
    expect(polls).toBeGreaterThan(24 * 60 * 0.9);
    expect(polls).toBeLessThan(24 * 60 * 1.1 + 24);
    expect(feed.requests.entries('manifest').length).toBeLessThanOrEqual(25);
    expect(feed.requests.entries().length - polls).toBeLessThanOrEqual(25 * 3);
    expect(downloadsOf(feed)).toEqual([]);
    expect(logged).toEqual([]);
    // The deadlines of requests go by the system's clock: those of all the hours are pending still, some 3 KB each.
    expect(grownBytes).toBeLessThan(8e6);
    expect(daemon.state().subscriptions.get('sub_1')?.standing).toBe('idle');
    await end();
  });
});

describe('a hundred publishes', () => {
  it('with outages, restarts and a moved retention between them are all in the mirror', async () => {
    const { feed, datasetIds, publishNext } = await countyFeed();
    const installed = await program({ feed });
    let running = await fixtureDaemon(installed, feed);
    await running.pass(2 * MINUTE_MS, 10_000);
    for (let published = 0; published < 100; published += 1) {
      const datasetId = datasetIds[published % datasetIds.length] ?? '';
      publishNext(datasetId);
      if (published % 20 === 7) {
        const outage = feed.faults.add({ match: { times: 'always' }, act: { kind: 'respond', status: 503 } });
        await running.pass(3 * MINUTE_MS, 30_000);
        feed.faults.remove(outage.id);
      }
      if (published % 25 === 13) {
        await running.end();
        running = await fixtureDaemon(installed, feed);
      }
      if (published === 60) feed.clock.advance(91 * 24 * HOUR_MS);
      await running.pass(MINUTE_MS, 30_000);
    }
    await running.pass(20 * MINUTE_MS, 30_000);
    expect(running.daemon.state()).toMatchObject({ holds: [], troubles: [] });
    await running.end();
    await expectMirrored(installed, feed);
  });
});
