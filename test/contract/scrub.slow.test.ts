/** F58: a scrub finds damage that nobody reads, in real files, and what it finds is mended like any other damage. */

import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { damageTable, misplaceBlock } from '../support/damaged-mirror.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { fixtureDaemon } from '../support/fixture-daemon.ts';
import { until } from '../support/patience.ts';
import { program } from '../support/program.ts';

const KINDS = ['permits', 'parcels', 'specimens'] as const;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const SCRUBS = { scrubEveryMs: DAY_MS };

/** An installation that has loaded three tables. */
async function loaded() {
  const made = await countyFeed({ kinds: KINDS, rowsPerDataset: 200 });
  const installed = await program({ feed: made.feed });
  await once(installed);
  made.feed.requests.clear();
  const tableOf = (kind: (typeof KINDS)[number]): string =>
    `main.${made.datasetOf(kind).replaceAll('-', '_')}`;
  return { ...made, installed, tableOf };
}

describe('F58 a scrub of real files', () => {
  it('F58 a scrub reads every table and the checkpoint, and records when', async () => {
    const { feed, installed } = await loaded();
    const { daemon, pass, logged } = await fixtureDaemon(installed, feed, SCRUBS);
    await pass(5 * MINUTE_MS, MINUTE_MS / 2);
    expect(daemon.state().scrub).toMatchObject({ completedAt: expect.any(Date), position: null });
    expect(logged.filter(([level]) => level !== 'info')).toEqual([]);
    expect(downloadsOf(feed)).toEqual([]);
  });

  it('F58 a scrub finds a damaged block that nothing else reads, and exactly its table is loaded again', async () => {
    const { feed, installed, tableOf, datasetOf } = await loaded();
    await damageTable(installed.mirrorPath, tableOf('parcels'));
    const { pass, daemon, end } = await fixtureDaemon(installed, feed, SCRUBS);
    await pass(10 * MINUTE_MS, MINUTE_MS / 2);
    expect(downloadsOf(feed)).toEqual([datasetOf('parcels')]);
    expect(daemon.state().scrub?.completedAt).not.toBeNull();
    await end();
    await expectMirrored(installed, feed);
    expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('F58 a scrub survives a block whose reading ends processes, and the daemon that reopens the stores repairs it', async () => {
    const { feed, installed, tableOf, datasetOf } = await loaded();
    await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
    const first = await fixtureDaemon(installed, feed, SCRUBS);
    await first.pass(3 * MINUTE_MS, MINUTE_MS / 2);
    expect(first.daemon.state().phase).toBe('draining');
    await first.end();
    const second = await fixtureDaemon(installed, feed, SCRUBS);
    await second.pass(10 * MINUTE_MS, MINUTE_MS / 2);
    expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
    await second.end();
    await expectMirrored(installed, feed);
  });

  it('F58 a scrub finds a damaged checkpoint, which the daemon that reopens the stores builds anew', async () => {
    const { feed, installed } = await loaded();
    const { size } = statSync(installed.checkpointPath);
    const first = await fixtureDaemon(installed, feed, SCRUBS);
    await first.pass(MINUTE_MS / 4, MINUTE_MS / 8);
    const file = openSync(installed.checkpointPath, 'r+');
    for (let page = 3; page * 4_096 < size; page += 1)
      writeSync(file, Buffer.alloc(512, 0xa5), 0, 512, page * 4_096);
    closeSync(file);
    await first.pass(3 * MINUTE_MS, MINUTE_MS / 2);
    const again = 'The checkpoint is damaged: the stores are opened again.';
    expect(first.logged).toContainEqual(['error', expect.anything(), again]);
    await first.end();
    const second = await fixtureDaemon(installed, feed, SCRUBS);
    await second.pass(10 * MINUTE_MS, MINUTE_MS / 2);
    const anew =
      'The checkpoint is damaged. It was quarantined and is built anew from the service and the mirror.';
    expect(second.logged).toContainEqual(['error', expect.anything(), anew]);
    expect(downloadsOf(feed)).toEqual([]);
    await second.end();
    await expectMirrored(installed, feed);
  });
});

it('F58 verify --deep makes a running daemon reopen the stores, and the damaged table is loaded', async () => {
  const { feed, installed, tableOf } = await loaded();
  const running = installed.start('run');
  await until('a daemon that has caught up', () => running.stderr().includes('Following the subscriptions.'));
  await misplaceBlock(installed.mirrorPath, tableOf('specimens'), tableOf('permits'));
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 74 });
  await until('the table to be loaded', () =>
    running.stderr().includes('A table is damaged: it is loaded again.'),
  );
  await until(
    'the load',
    () => running.stderr().split('A table is damaged')[1]?.includes('Loaded a snapshot.') ?? false,
  );
  running.kill('SIGTERM');
  expect(await running.ended).toMatchObject({ exitCode: 0 });
  await expectMirrored(installed, feed);
});
