/** `feed-sync doctor` as a process: beside an instance that runs, and after one that was killed. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { until } from '../support/patience.ts';
import { program } from '../support/program.ts';

/** What lies in a folder, but for the index that SQLite shares between processes in memory. */
function contentOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.endsWith('-shm'))
    .map((name) => {
      const { size, mtimeMs } = statSync(join(folder, name));
      return `${name} ${size} ${mtimeMs}`;
    })
    .sort();
}

it('doctor beside a first once does not disturb it, and names it', async () => {
  const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 100 });
  const match = { operation: 'file', times: 'always' } as const;
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  feed.faults.add({ match, act: { kind: 'wait', until: () => opened } });
  const installed = await program({ feed });
  const running = installed.start('once');
  await until('a download', () => feed.requests.entries('file').length > 0);
  const { exitCode, stdout } = await installed.run('doctor');
  expect(exitCode, stdout).toBe(0);
  expect(stdout).toMatch(new RegExp(`ok +instance +process ${running.pid} on .* runs \`once\` since 20`));
  expect(stdout).toMatch(/ok +content +1 subscription followed, 1 dataset desired/);
  open();
  expect(await running.ended).toMatchObject({ exitCode: 0 });
});

it('doctor after a kill reports both stores, and leaves every file as it was', async () => {
  const { feed, publishNext, datasetOf } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 100 });
  const installed = await program({ feed });
  await once(installed);
  publishNext(datasetOf('permits'));
  feed.faults.add({
    match: { operation: 'changes', times: 'always' },
    act: { kind: 'delay', delayMs: 600_000 },
  });
  const running = installed.start('once');
  await until('a request for changes', () => feed.requests.entries('changes').length > 0);
  running.kill('SIGKILL');
  await running.ended;
  feed.faults.clear();
  const before = contentOf(installed.dataDirectory);
  expect(before.some((name) => name.startsWith('checkpoint.sqlite-wal'))).toBe(true);
  const { exitCode, stdout } = await installed.run('doctor', '--json');
  expect(exitCode, stdout).toBe(0);
  expect(contentOf(installed.dataDirectory)).toEqual(before);
  expect(JSON.parse(stdout)).toMatchObject({ problems: 0 });
  await once(installed);
});
