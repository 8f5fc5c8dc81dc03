/** What follows a commit in PostgreSQL for those who read there: the command after commits. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { EMBEDDED, PASSWORD } from '../../fixtures/postgres-server.ts';
import { notedBy, notedLines, notingProgram } from '../support/hook-program.ts';
import { localInstallation } from '../support/local-installation.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const PARCELS = 'us-tx-travis-parcels';
const PERMITS = 'us-tx-travis-permits';

describe.skipIf(EMBEDDED.folder === null)(`the command after commits with ${EMBEDDED.name}`, () => {
  const server = postgresOfTests(EMBEDDED);

  it('the command after commits is notified of every commit once and in order, as with DuckDB, and of no password', async () => {
    const feed = await startedFeed();
    publishSmall(feed, [PARCELS, PERMITS]);
    const installed = (environment: Readonly<Record<string, string>>) => {
      // With history, reloads are compared row by row in DuckDB, too.
      const common = { PATH: process.env['PATH'] ?? '', FEED_SYNC_HISTORY_DATASETS: '*' };
      const here = localInstallation({ feed, environment: { ...common, ...environment } });
      const noted = join(here.home, 'noted');
      const hooks = { afterCommit: notingProgram(noted) };
      writeFileSync(join(here.home, 'feed-sync.yaml'), JSON.stringify({ hooks }));
      return { ...here, noted };
    };
    const both = [installed({ FEED_SYNC_DESTINATION_URL: await server.database() }), installed({})];
    const catchUp = async (): Promise<void> => {
      await feed.prepareSnapshots();
      for (const { run } of both) {
        const ended = await run('once');
        expect(ended.exitCode, ended.stderr + ended.stdout).toBe(0);
      }
    };
    await catchUp();
    feed.publisher.publish(PARCELS, smallContent(numberedRows(3)));
    await catchUp();
    await catchUp();
    feed.publisher.remove(PERMITS, 'source_retired');
    await catchUp();

    // Of the first two datasets, the one whose rows are there first is committed first.
    const [notified = [], inFile = []] = both.map(({ noted }) =>
      notedBy(noted).map(({ mirror, commits, ...rest }) => {
        const notified = commits.map(({ appliedAt, commit, ...what }) => what);
        return {
          ...rest,
          commits: notified.toSorted((left, right) => (left.dataset < right.dataset ? -1 : 1)),
        };
      }),
    );
    expect(notified).toEqual(inFile);
    expect(notedLines(both[0]?.noted ?? '')).toEqual([[1, 2], [3], [4]]);
    const mirrors = notedBy(both[0]?.noted ?? '').map(({ mirror }) => mirror);
    expect(new Set(mirrors).size).toBe(1);
    expect(mirrors[0]).toMatch(/^postgres:\/\/feeds@\/county_\d+\?host=\/[^?&]+$/);
    expect(JSON.stringify(notedBy(both[0]?.noted ?? ''))).not.toContain(PASSWORD);
  });
});
