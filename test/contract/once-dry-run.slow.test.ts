/** `feed-sync once --dry-run` reports the next step of each dataset, and the catch-up after it takes that step. */

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, it } from 'vitest';
import type { DryRun } from '../../src/cli/render/dry-run.ts';
import { countyFeed } from '../support/county-feed.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { expectMirrored, once, operationsOf } from '../support/expect-mirrored.ts';
import { filesOf } from '../support/file-digests.ts';
import { type Program, program } from '../support/program.ts';

it('plans a first start, changes and a removal without changing anything, and the catch-up after it does exactly that', async () => {
  const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
  const [parcels, permits] = [datasetOf('parcels'), datasetOf('permits')];
  const installed = await program({ feed });
  const first = await installed.run('once', '--dry-run');
  expect(first).toMatchObject({ exitCode: 0, stderr: '' });
  expect(first.stdout).toMatch(new RegExp(`^${parcels} +load version 1 \\(20 rows, `, 'm'));
  expect(first.stdout).toContain('because there is no table yet');
  expect(first.stdout).toMatch(/\n5 datasets: 5 with work to do\. \d.* of snapshots, 105 rows\.\n/);
  expect(existsSync(installed.dataDirectory)).toBe(false);
  expect(operationsOf(feed)).not.toContain('file');
  await once(installed);
  expect(await commitsOf(installed)).toEqual(datasetIds.toSorted().map((id) => [id, null, 1, 'load']));

  publishNext(parcels);
  publishNext(parcels);
  feed.publisher.remove(permits, 'left_coverage');
  const before = filesOf(installed.dataDirectory);
  feed.requests.clear();
  const due = await dryRun(installed);
  expect(filesOf(installed.dataDirectory)).toEqual(before);
  expect(operationsOf(feed)).not.toContain('changes');
  expect(workIn(due)).toEqual({
    [parcels]: expect.objectContaining({ kind: 'apply', fromVersion: 1, toVersion: 3, versions: 2 }),
    [permits]: {
      kind: 'retire',
      fromVersion: 1,
      how: 'archive',
      why: 'left subscription sub_1: left_coverage',
    },
  });
  expect(due.totals).toMatchObject({ downloadBytes: 0 });
  await once(installed);
  await expectMirrored(installed, feed);
  expect((await commitsOf(installed)).slice(datasetIds.length)).toEqual([[parcels, 1, 3, 'changes']]);
  expect(await archivedIn(installed)).toEqual([[permits]]);

  const after = filesOf(installed.dataDirectory);
  expect(workIn(await dryRun(installed))).toEqual({});
  expect(filesOf(installed.dataDirectory)).toEqual(after);
});

it('reports a refused key without storing the refusal and ends 77, and ends 75 without the service', async () => {
  const { feed } = await countyFeed({ kinds: ['permits'] });
  feed.keys.get(feed.apiKey).revoked = true;
  const installed = await program({ feed });
  const refused = await installed.run('once', '--dry-run');
  expect(refused.exitCode).toBe(77);
  expect(refused.stdout).toContain('It says: This API key was revoked.');
  expect(existsSync(installed.dataDirectory)).toBe(false);
  await feed.close();
  const alone = await installed.runWith({ FEED_SYNC_RETRY_MAX_ATTEMPTS: '1' }, 'once', '--dry-run', '--json');
  expect(alone.exitCode).toBe(75);
  expect(JSON.parse(alone.stdout).incidents).toMatchObject([{ error: 'service_unavailable' }]);
});

async function dryRun(installed: Program): Promise<DryRun> {
  const { stdout, exitCode, stderr } = await installed.run('once', '--dry-run', '--json');
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return JSON.parse(stdout);
}

function workIn({ datasets }: DryRun) {
  return Object.fromEntries(datasets.filter(({ step }) => step !== null).map(({ id, step }) => [id, step]));
}

/** What brought a table to a version: dataset, from, to, kind. */
function commitsOf({ mirrorPath }: Program) {
  const sql = `SELECT dataset_id, from_version::INT, to_version::INT, kind FROM feed_sync.commits
    WHERE kind IN ('load', 'reload', 'changes') ORDER BY to_version, dataset_id`;
  return inMirror(dirname(mirrorPath), sql);
}

function archivedIn({ mirrorPath }: Program) {
  return inMirror(dirname(mirrorPath), 'SELECT dataset_id FROM feed_sync.archived');
}
