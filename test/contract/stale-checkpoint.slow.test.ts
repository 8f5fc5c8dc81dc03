/** F58: a page of the checkpoint as it was before. Its rows are sound and stale: they may cost a wait, and never a wrong table. */

import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const MINUTE_MS = 60_000;

interface MemberRow {
  readonly dataset_id: string;
  readonly is_member: number;
}

/** The mirror of two datasets, one of which has left and is archived; `goBack` makes it a member again in the checkpoint. */
async function leftAndStale() {
  const clock = stillClock('2026-03-01T08:00:00Z');
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels', 'permits'] });
  for (const datasetId of ['parcels', 'permits']) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
  }
  const installed = commandLine({ feed, now: clock.now });
  onTestFinished(() => installed.remove());
  const members = <T>(use: (database: Database.Database) => T): T => {
    const database = new Database(join(installed.dataDirectory, 'checkpoint.sqlite'));
    try {
      return use(database);
    } finally {
      database.close();
    }
  };
  const read = (): readonly MemberRow[] =>
    members((database) => database.prepare<[], MemberRow>('SELECT * FROM desired_members').all());
  expect(await installed.run('once')).toMatchObject({ exitCode: 0 });
  const before = read();
  clock.advance(MINUTE_MS);
  feed.publisher.remove('permits', 'left_coverage');
  expect((await installed.run('once')).stdout).toContain('1 retired');
  const goBack = (): void =>
    members((database) => {
      const names = Object.keys(before[0] ?? {});
      const write = database.prepare(
        `INSERT OR REPLACE INTO desired_members (${names.join(', ')}) VALUES (${names.map((name) => `:${name}`).join(', ')})`,
      );
      for (const row of before) write.run(row);
    });
  const different = () =>
    mirrorDifferences(join(installed.dataDirectory, 'mirror.duckdb'), everythingPublished(feed));
  return { clock, feed, installed, read, goBack, different };
}

it('F58 a dataset that has left and is a member again in a stale page waits, until two manifests have shown that it is none', async () => {
  const { clock, installed, read, goBack, different } = await leftAndStale();
  goBack();
  expect(read()).toContainEqual(expect.objectContaining({ dataset_id: 'permits', is_member: 1 }));
  const waiting = await installed.run('once');
  expect(waiting).toMatchObject({ exitCode: 75 });
  expect(waiting.stdout).toContain(', 1 waiting.');
  expect(waiting.stdout).toContain('permits: no manifest that was read lists it');
  expect(waiting.stdout).toContain('Running it again helps from 2026-03-01 08:11 UTC on, in 10 m 0 s.');
  expect(await different()).toEqual([]);
  const verified = await installed.run('verify', '--deep');
  expect(verified).toMatchObject({ exitCode: 65 });
  expect(verified.stdout).toContain('1 equal, 1 behind.');
  clock.advance(10 * MINUTE_MS);
  const done = await installed.run('once');
  expect(done, done.stdout).toMatchObject({ exitCode: 0 });
  expect(done.stdout).not.toContain('again helps');
  expect(read()).not.toContainEqual(expect.objectContaining({ dataset_id: 'permits', is_member: 1 }));
  expect(await different()).toEqual([]);
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});
