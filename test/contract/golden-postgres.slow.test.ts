/** The output of `status` with PostgreSQL while an instance of another data directory works, as its golden file says. */

import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { StatusJson } from '../../src/reporting/status.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectGolden } from '../support/golden.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

it.skipIf(EMBEDDED.folder === null)(
  'status --json names the instance that works on the database as the golden file says',
  async () => {
    const server = await postgresOfTest(EMBEDDED);
    const address = await server.database();
    const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 20 });
    const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
    const { now } = stillClock('2025-11-20T08:00:00Z');
    const line = commandLine({ feed, now, environment });
    onTestFinished(() => line.remove());
    expect(await line.run('once')).toMatchObject({ exitCode: 0 });
    await statement(
      address,
      "UPDATE feed_sync.lease SET holder = 'feed-sync run, process 7 on mirror-2', expires_at = 'infinity'",
    );
    const status: StatusJson = JSON.parse((await line.run('status', '--json')).stdout);
    const mirror = { ...status.mirror, path: 'postgres://feeds@db/county', bytes: 12_600_000 };
    // What the service states has the time of the run.
    expectGolden('status/another-works', {
      ...status,
      dataDirectory: '{data}',
      mirror,
      service: { ...status.service, dataAsOf: null },
      subscriptions: [],
      datasets: [],
    });
  },
);
