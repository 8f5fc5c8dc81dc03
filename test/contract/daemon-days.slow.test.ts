/** Days of a daemon in this process, on the HTTP fixture and real stores: only its clock is the test's. */

import { statSync } from 'node:fs';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { breakableLink } from '../support/breakable-link.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored } from '../support/expect-mirrored.ts';
import { fixtureDaemon } from '../support/fixture-daemon.ts';
import { type Program, program } from '../support/program.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The loop goes round this often. */
const TICK_MS = 500;

/** What is in use, without what nobody refers to any more. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}

/** What the heap may grow by in 23 hours. */
const MOST_GROWN_BYTES = 8e6;

/** A page of 4096 bytes and its header. */
const BYTES_OF_A_NOTE = 4_096 + 24;

/** Of the mirror, the checkpoint, and the write-ahead log of the checkpoint. */
function sizes({ mirrorPath, checkpointPath }: Program): readonly [number, number, number] {
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return [sizeOf(mirrorPath), sizeOf(checkpointPath), sizeOf(`${checkpointPath}-wal`)];
}

describe('24 quiet hours', () => {
  it('24 quiet hours are a request a minute and an audit an hour, without a log line and without growing', async () => {
    const { feed, datasetIds } = await countyFeed({ clock: stillClock('2026-03-01T12:00:00Z') });
    const installed = await program({ feed });
    const link = await breakableLink(feed.baseUrl);
    const linked = { ...feed, baseUrl: link.baseUrl };
    const { daemon, logged, pass, end } = await fixtureDaemon(installed, linked);
    await pass(2 * MINUTE_MS, 10_000);
    await expectMirrored(installed, linked);
    feed.requests.clear();
    logged.length = 0;
    await pass(HOUR_MS, TICK_MS);
    const [before, tallyBefore] = [heapBytes(), daemon.state().counters];
    const [mirrorBytesBefore, checkpointBytesBefore, logBytesBefore] = sizes(installed);
    const [bytesBefore, processorBefore] = [link.bytes, process.cpuUsage()];
    feed.requests.clear();
    await pass(23 * HOUR_MS, TICK_MS);
    const { user, system } = process.cpuUsage(processorBefore);
    const grownBytes = heapBytes() - before;
    const { counters, subscriptions } = daemon.state();
    const audits = counters.audits - tallyBefore.audits;
    const asked = Object.groupBy(feed.requests.entries(), ({ operation }) => operation);
    // An audit requests the event at the position, to see whether the log has restarted: from one number before it.
    const position = subscriptions.get('sub_1')?.cursor;
    const polls = (asked.events ?? []).filter(({ query }) => query['after'] === position).length;
    // The first poll after an hour is one: 23 of them may take a minute more than 23 hours.
    expect([22, 23]).toContain(audits);
    expect(polls).toBeGreaterThan(23 * 60 * 0.95);
    expect(polls).toBeLessThan(23 * 60 * 1.05 + audits);
    expect(polls).toBe(counters.polls - tallyBefore.polls);
    const counts = Object.entries(asked).map(([operation, entries]) => [operation, entries.length]);
    // The list of versions of each dataset is read once a day, and the subscriptions again after the manifest.
    const lists = datasetIds.length;
    expect(Object.fromEntries(counts)).toEqual({
      events: polls + audits,
      openapi: audits,
      subscriptions: 2 * audits,
      manifest: audits,
      versions: lists,
      schemas: lists,
    });
    expect(new Set(asked.versions?.map(({ datasetId }) => datasetId))).toEqual(new Set(datasetIds));
    expect(logged).toEqual([]);
    // Each poll and each audit is noted, and each list when it is due and when it was read. Such a note is a page of the write-ahead
    // log, which starts over with each audit and so contains an hour of polls from the first hour on.
    const [mirrorBytes, checkpointBytes, logBytes] = sizes(installed);
    expect([mirrorBytes, checkpointBytes]).toEqual([mirrorBytesBefore, checkpointBytesBefore]);
    expect(logBytes - logBytesBefore).toBeLessThanOrEqual((audits + 2 * lists) * BYTES_OF_A_NOTE);
    // The deadlines of requests go by the system's clock: those of all the hours are pending still, some 3 KB each.
    expect(grownBytes).toBeLessThan(MOST_GROWN_BYTES);
    expect(subscriptions.get('sub_1')?.condition).toBe('idle');
    const requests = `${polls} polls, ${audits} audits, ${link.bytes - bytesBefore} bytes both ways`;
    const processor = `${((user + system) / 1e6).toFixed(1)} s of processor time, the feed's and the test's with it`;
    process.stderr.write(`23 quiet hours: ${requests}, ${processor}; the heap grew by ${grownBytes} bytes\n`);
    await end();
  });
});

describe('a hundred publishes', () => {
  it('a hundred publishes with outages, restarts and a moved retention between them are all in the mirror', async () => {
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
    expect(running.daemon.state()).toMatchObject({ suspensions: [], incidents: [] });
    await running.end();
    await expectMirrored(installed, feed);
  });
});
