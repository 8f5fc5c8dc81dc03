/** Commands for some datasets: named by ids and globs, in this process against the fixture feed. */

import { expect, it, onTestFinished } from 'vitest';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';

async function installed() {
  const { feed, datasetOf } = await countyFeed({
    kinds: ['permits', 'zoning'],
    counties: 2,
    rowsPerDataset: 10,
  });
  const line = commandLine({ feed, now: () => feed.clock.now() });
  onTestFinished(() => line.remove());
  const tables = async (): Promise<readonly string[]> => {
    const { stdout } = await line.run('status', '--json');
    const { datasets } = JSON.parse(stdout) as {
      datasets: readonly { id: string; version: number | null }[];
    };
    return datasets.filter(({ version }) => version !== null).map(({ id }) => id);
  };
  return { feed, line, tables, datasetOf };
}

it('once for some datasets loads these, reads every log, and leaves the others for the next catch-up', async () => {
  const { line, tables, datasetOf } = await installed();
  const some = await line.run('once', '*-zoning', '--json');
  expect(some).toMatchObject({ exitCode: 0 });
  const { datasets, exitCode } = JSON.parse(some.stdout);
  expect({ exitCode, results: datasets.map(({ result }: { result: string }) => result) }).toEqual({
    exitCode: 0,
    results: ['updated', 'updated'],
  });
  const loaded = await tables();
  expect(loaded).toHaveLength(2);
  for (const id of loaded) expect(id).toMatch(/-zoning$/);
  expect(await line.run('once', datasetOf('permits'))).toMatchObject({ exitCode: 0 });
  expect(await tables()).toHaveLength(3);
  const rest = await line.run('once');
  expect(rest.stdout).toMatch(/^4 datasets in 1 subscription: 1 loaded, 3 already up to date\./);
  expect(await tables()).toHaveLength(4);
});

it('once with unknown names ends with 64 and the nearest known id, and catches up the others', async () => {
  const { line, tables, datasetOf } = await installed();
  const id = datasetOf('permits');
  const ended = await line.run('once', `${id}x`, '*-zoning');
  expect(ended).toMatchObject({ exitCode: 64 });
  expect(ended.stderr).toContain(`No subscription contains ${id}x (the nearest is ${id}). [usage_invalid]`);
  expect(ended.stderr).toContain(`Known: ${id}, `);
  expect(await tables()).toHaveLength(2);
  const dry = await line.run('once', '--dry-run', '*-permits');
  expect(dry).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining('zoning') });
  expect(await line.run('verify', '*-nothing')).toMatchObject({ exitCode: 64 });
  expect(await line.run('resync', '*-nothing')).toMatchObject({ exitCode: 64 });
});

it('verify and resync accept globs', async () => {
  const { line, datasetOf } = await installed();
  await line.run('once');
  const { stdout } = await line.run('verify', '*-zoning', '--json');
  const { datasets } = JSON.parse(stdout) as { datasets: readonly { id: string }[] };
  expect(datasets.map(({ id }) => id.replace(/^.*-/, ''))).toEqual(['zoning', 'zoning']);
  const unasked = await line.run('resync', '*-permits');
  expect(unasked).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('2 datasets again: ') });
  const resync = await line.run('resync', '*-permits', '--yes');
  expect(resync).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(datasetOf('permits')) });
  expect(resync.stdout).not.toContain('zoning');
  expect((await line.run('once')).stdout).toMatch(
    /^4 datasets in 1 subscription: 2 loaded, 2 already up to date\./,
  );
});
