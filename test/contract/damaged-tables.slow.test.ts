/** F58: a flipped bit in the mirror. What meets it names the table, and the next step loads exactly that table again. */

import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { damageTable } from '../support/damaged-mirror.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { logged } from '../support/logged.ts';
import { until } from '../support/patience.ts';
import { program } from '../support/program.ts';

const KINDS = ['permits', 'parcels', 'specimens'] as const;

/** An installation that has loaded three tables. */
async function loaded(environment: Readonly<Record<string, string>> = {}) {
  const made = await countyFeed({ kinds: KINDS });
  const installed = await program({ feed: made.feed, environment });
  await once(installed);
  made.feed.requests.clear();
  const tableOf = (kind: (typeof KINDS)[number]): string =>
    `main.${made.datasetOf(kind).replaceAll('-', '_')}`;
  const damage = (table: string): Promise<void> => damageTable(installed.mirrorPath, table);
  const quarantined = (): readonly string[] =>
    readdirSync(installed.dataDirectory).filter((name) => name.includes('.corrupt-'));
  return { ...made, installed, tableOf, damage, quarantined };
}

describe('F58 a table with a damaged block', () => {
  it('F58 the catch-up that meets a damaged block loads that table again, and no other', async () => {
    const { feed, installed, tableOf, damage, datasetOf, publishNext, quarantined } = await loaded();
    await damage(tableOf('permits'));
    publishNext(datasetOf('permits'));
    await once(installed);
    expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
    expect(quarantined()).toEqual([]);
    await expectMirrored(installed, feed);
    expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('F58 verify finds a damaged block that nothing writes, and one catch-up repairs it', async () => {
    const { feed, installed, tableOf, damage, datasetOf, publishNext, quarantined } = await loaded();
    await damage(tableOf('parcels'));
    publishNext(datasetOf('permits'));
    const found = await installed.run('verify', '--json');
    expect(found).toMatchObject({ exitCode: 65 });
    const parcels = JSON.parse(found.stdout).datasets.find(
      ({ id }: { readonly id: string }) => id === datasetOf('parcels'),
    );
    expect(parcels).toMatchObject({
      result: 'different',
      differences: [{ kind: 'damaged', remedy: 'feed-sync once' }],
      mending: { result: 'marked' },
    });
    await once(installed);
    expect(downloadsOf(feed)).toEqual([datasetOf('parcels')]);
    expect(quarantined()).toEqual([]);
    await expectMirrored(installed, feed);
    expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('F58 a damaged block never gets into the published copy: the one before stays until the table is whole', async () => {
    const copies = await program();
    mkdirSync(copies.dataDirectory);
    const copy = join(copies.dataDirectory, 'copy.duckdb');
    const { feed, installed, tableOf, damage, datasetOf, publishNext } = await loaded({
      FEED_SYNC_DESTINATION_PUBLISH: copy,
    });
    const before = readFileSync(copy);
    await damage(tableOf('parcels'));
    publishNext(datasetOf('permits'));
    await once(installed);
    expect(downloadsOf(feed)).toEqual([datasetOf('parcels')]);
    await expectMirrored(installed, feed);
    expect(readFileSync(copy).equals(before)).toBe(false);
    await expectMirrored({ ...installed, mirrorPath: copy }, feed);
  });

  it('F58 a daemon that meets a damaged block loads the table again', async () => {
    const { feed, installed, tableOf, damage, datasetOf, publishNext } = await loaded({
      FEED_SYNC_POLL_EVERY: '1s',
      FEED_SYNC_RETRY_BASE_DELAY: '5ms',
    });
    await damage(tableOf('permits'));
    publishNext(datasetOf('permits'));
    const run = installed.start('run');
    await logged(run, 'A table is damaged: it is loaded again.');
    await until('the download of the table', () => downloadsOf(feed).length > 0);
    await logged(run, 'Loaded a snapshot.');
    run.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ exitCode: 0 });
    expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
    await expectMirrored(installed, feed);
  });
});

describe('F58 a table with a damaged block that leaves its subscription', () => {
  it('F58 a damaged table that leaves its subscription is retired where it is, and no other waits for it', async () => {
    const { feed, installed, tableOf, damage, datasetOf, publishNext } = await loaded({
      FEED_SYNC_HISTORY_DATASETS: '*',
    });
    await damage(tableOf('permits'));
    feed.publisher.remove(datasetOf('permits'), 'left_coverage');
    publishNext(datasetOf('parcels'));
    const left = await installed.run('once');
    expect(left, left.stderr).toMatchObject({ exitCode: 0 });
    expect(left.stderr).toContain(tableOf('permits'));
    await expectMirrored(installed, feed);
    feed.publisher.restore(datasetOf('permits'));
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('F58 a catalog with a damaged block', () => {
  it.each(['datasets', 'commits', 'columns'])(
    'F58 a damaged catalog table (%s) quarantines the mirror, which one catch-up builds again',
    async (table) => {
      const { feed, installed, damage, datasetOf, publishNext, quarantined } = await loaded();
      await damage(`feed_sync.${table}`);
      publishNext(datasetOf('permits'));
      await once(installed);
      expect(quarantined().length).toBeGreaterThan(0);
      await expectMirrored(installed, feed);
      expect(await installed.run('verify')).toMatchObject({ exitCode: 0 });
    },
  );
});
