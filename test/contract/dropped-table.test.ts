/** F76 a table that somebody dropped from the mirror by hand: `once` finds it missing, names it and loads it again. */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { writeMirror } from '../support/mirror-file.ts';

const HISTORY = { FEED_SYNC_HISTORY_DATASETS: '*' };

async function installation() {
  const { feed, datasetIds, publishNext } = await countyFeed({
    kinds: ['permits', 'zoning'],
    rowsPerDataset: 5,
  });
  const line = commandLine({ feed, now: () => feed.clock.now(), environment: HISTORY });
  onTestFinished(() => line.remove());
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  const [datasetId = ''] = datasetIds;
  const table = datasetId.replaceAll('-', '_');
  const drop = () => writeMirror(join(line.dataDirectory, 'mirror.duckdb'), `DROP TABLE "${table}"`);
  return { line, datasetId, drop, publishNext };
}

it('F76 once loads a dropped table again, which it names, and no other one', async () => {
  const { line, datasetId, drop } = await installation();
  await drop();
  expect((await line.run('once', '--dry-run')).stdout).toContain(
    '2 datasets: 1 with work to do, 1 up to date',
  );
  const once = await line.run('once');
  expect([once.exitCode, once.stdout]).toEqual([0, expect.stringMatching(/1 loaded.*1 already up to date/)]);
  const logged = once.stderr.split('\n').filter((text) => text.includes('was dropped'));
  expect(logged).toEqual([expect.stringContaining(datasetId)]);
  expect(await line.run('verify')).toMatchObject({ exitCode: 0 });
  expect((await line.run('once')).stdout).toContain('0 loaded, 2 already up to date');
});

it('F76 once names a dropped table that a rollback keeps, and does not load it', async () => {
  const { line, datasetId, drop, publishNext } = await installation();
  publishNext(datasetId);
  expect(await line.run('once')).toMatchObject({ exitCode: 0 });
  expect(await line.run('rollback', datasetId, '--to-version', '1', '--yes')).toMatchObject({ exitCode: 0 });
  await drop();
  const once = await line.run('once');
  expect(once.stderr).toContain('A table was dropped, and nothing loads it again.');
  expect(once.stdout).toContain('0 loaded');
});
