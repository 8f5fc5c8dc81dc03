/** `feed-sync once` on a feed of everything: what is in the mirror afterwards is what was published. */

import { describe, expect, it } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import type { Content } from '../../fixtures/source/content.ts';
import {
  withAddedColumn,
  withKeyColumns,
  withRemovedColumn,
  withRetypedColumn,
} from '../../fixtures/source/evolve.ts';
import { countyFeed } from '../support/county-feed.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { downloadsOf, expectMirrored, once, operationsOf } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { column, smallContent } from '../support/small-content.ts';

describe('once', () => {
  it.for([['UTC'], ['America/Chicago'], ['Asia/Kathmandu']])(
    'once loads every kind of dataset exactly, with TZ=%s',
    async ([zone = '']) => {
      const { feed, datasetIds } = await countyFeed({ counties: 4, rowsPerDataset: 60 });
      const installed = await program({ feed, environment: { TZ: zone } });
      const { stdout } = await once(installed);
      expect(stdout).toContain(
        `${datasetIds.length} datasets in 1 subscription: ${datasetIds.length} loaded`,
      );
      await expectMirrored(installed, feed);
    },
  );

  it('once does nothing where nothing is new, and applies what is', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
    const installed = await program({ feed });
    await once(installed);
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('0 loaded, 5 already up to date');
    expect(operationsOf(feed)).toEqual(['subscriptions', 'openapi', 'events', 'manifest']);

    publishNext(datasetOf('permits'));
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('0 loaded, 1 updated by changes, 4 already up to date');
    expect(downloadsOf(feed)).toEqual([]);
    await expectMirrored(installed, feed);

    for (const datasetId of datasetIds) {
      publishNext(datasetId);
      publishNext(datasetId, undefined, { version: 7 });
    }
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('F28 once finds a version that no event announced', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    publishNext(datasetOf('permits'), undefined, { announce: false });
    expect((await once(installed)).stdout).toContain('1 updated by changes');
    await expectMirrored(installed, feed);
  });

  it('F34 once loads a dataset anew after any change of its schema', async () => {
    const { feed, datasetOf, contentOf, publishNext } = await countyFeed({
      kinds: ['permits', 'parcels', 'ordinances'],
    });
    const installed = await program({ feed });
    await once(installed);
    const [permits, parcels] = [datasetOf('permits'), datasetOf('parcels')];
    const firstOther = (content: Content): string =>
      content.schema.columns.find(({ name }) => !content.schema.keyColumns.includes(name))?.name ?? '';

    const added = { ...column('added later', 'json'), description: 'Came with the second schema.' };
    publishNext(
      permits,
      withAddedColumn(contentOf(permits), added, (row) => ({ json: [String(row[0])] })),
    );
    publishNext(parcels, withRemovedColumn(contentOf(parcels), firstOther(contentOf(parcels))));
    expect((await once(installed)).stdout).toContain('2 loaded');
    await expectMirrored(installed, feed);

    const text = (content: Content): string =>
      content.schema.columns.find(
        ({ type, name }) => type === 'string' && !content.schema.keyColumns.includes(name),
      )?.name ?? '';
    publishNext(
      permits,
      withRetypedColumn(contentOf(permits), text(contentOf(permits)), 'integer', () => 2n ** 62n + 1n),
    );
    publishNext(parcels, withKeyColumns(contentOf(parcels), []));
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('once reloads the same version where the service demands a resync', async () => {
    const { feed, datasetOf, contentOf } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    const permits = datasetOf('permits');
    const rows = [...contentOf(permits).rows()].slice(3);
    feed.publisher.resync(permits, 'subscription_changed', {
      content: { ...contentOf(permits), rowCount: rows.length, rows: () => rows, changes: null },
    });
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('1 loaded');
    expect(downloadsOf(feed)).toEqual([permits]);
    await expectMirrored(installed, feed);
    expect(await reloadsIn(installed.mirrorPath, permits)).toEqual([['sub_1', '3']]);
    expect((await once(installed)).stdout).toContain('0 loaded');
  });

  it('once starts from the manifest where the log has expired, and fetches only what is new', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ clock: stillClock('2026-01-01T00:00:00Z') });
    const installed = await program({ feed });
    await once(installed);
    feed.clock.advance(91 * DAY_MS);
    publishNext(datasetOf('zoning'));
    feed.clock.advance(91 * DAY_MS);
    publishNext(datasetOf('permits'));
    feed.requests.clear();
    const { stderr } = await once(installed);
    expect(feed.requests.entries('events').map(({ status }) => status)).toContain(410);
    expect(stderr).toContain('The position in the log has expired: starting from the manifest.');
    expect(downloadsOf(feed).toSorted()).toEqual([datasetOf('permits'), datasetOf('zoning')]);
    await expectMirrored(installed, feed);

    feed.clock.advance(91 * DAY_MS);
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('0 loaded, 5 already up to date');
    expect(downloadsOf(feed)).toEqual([]);
  });

  it('F35 once mirrors a dataset of several subscriptions once, and every dataset of each', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed({ counties: 2 });
    const { placeId } = feed.store.dataset(datasetOf('permits'));
    feed.publisher.subscribe({ subscriptionId: 'sub_2', places: [placeId], topics: ['permits', 'parcels'] });
    feed.publisher.subscribe({ subscriptionId: 'sub_3', datasetIds: [datasetOf('permits')] });
    feed.publisher.subscribe({ subscriptionId: 'sub_4' });
    const installed = await program({ feed });
    expect((await once(installed)).stdout).toContain('9 datasets in 4 subscriptions: 9 loaded');
    expect(downloadsOf(feed).toSorted()).toEqual(datasetIds.toSorted());
    await expectMirrored(installed, feed);

    publishNext(datasetOf('permits'));
    feed.publisher.resync(datasetOf('parcels'), 'subscription_changed', {});
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('1 loaded, 1 updated by changes');
    expect(downloadsOf(feed)).toEqual([datasetOf('parcels')]);
    await expectMirrored(installed, feed);
  });

  it('once mirrors what datasets.include and datasets.exclude leave', async () => {
    const { feed } = await countyFeed({ counties: 2 });
    const environment = { FEED_SYNC_DATASETS_INCLUDE: '*-p*', FEED_SYNC_DATASETS_EXCLUDE: 'us-az-*-permits' };
    const installed = await program({ feed, environment });
    await once(installed);
    const isChosen = (id: string): boolean => /-p[^-]*$/.test(id) && !/^us-az-.*-permits$/.test(id);
    await expectMirrored(installed, feed, { only: isChosen });
    expect(downloadsOf(feed)).toHaveLength(3);
  });

  it('once follows the chosen subscriptions only, by id or by name', async () => {
    const { feed, datasetOf } = await countyFeed({ kinds: ['permits', 'parcels'] });
    feed.publisher.subscribe({
      subscriptionId: 'sub_2',
      name: 'Permits',
      datasetIds: [datasetOf('permits')],
    });
    const installed = await program({ feed, environment: { FEED_SYNC_SUBSCRIPTIONS: 'Permits' } });
    expect((await once(installed)).stdout).toContain('1 dataset in 1 subscription: 1 loaded');
    const { stderr } = await installed
      .runWith({ FEED_SYNC_SUBSCRIPTIONS: 'Permit' }, 'once')
      .then((ended) => {
        expect(ended).toMatchObject({ exitCode: 78 });
        return { stderr: `${ended.stderr}${ended.stdout}` };
      });
    expect(stderr).toMatch(/Permit, which this API key cannot see/);
    expect(stderr).toContain('sub_1 (All counties), sub_2 (Permits)');
  });

  it('M6 F33 once makes tables without rows, whether the snapshot has a file or none', async () => {
    const { feed, contentOf, datasetIds, publishNext } = await countyFeed({
      counties: 3,
      kinds: ['permits', 'ordinances'],
    });
    const empty = (id: string): Content => ({ ...contentOf(id), rowCount: 0, rows: () => [], changes: null });
    // The third county has no envelope columns, which a table without files would be made without.
    const [, ordinances = '', , , permits = ''] = datasetIds;
    publishNext(permits, empty(permits));
    const installed = await program({ feed });
    await once(installed);
    await expectMirrored(installed, feed);

    feed.settings.files.emptySnapshot = 'one-file';
    for (const datasetId of [permits, ordinances]) publishNext(datasetId, empty(datasetId));
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('once has nothing to do where the key sees no subscription', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    feed.publisher.unsubscribe('sub_1');
    const installed = await program({ feed });
    expect((await once(installed)).stdout).toContain('0 datasets in 0 subscriptions');
    expect((await installed.run('subscriptions')).stdout).toContain('sees no subscriptions');
  });

  it('once gives datasets whose names would collide a table each, in order of id', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    for (const datasetId of ['a.b', 'a-b', '2nd/../x', "it's; DROP TABLE"]) {
      feed.publisher.addDataset({ datasetId });
      feed.publisher.publish(datasetId, smallContent([[datasetId, 1]]));
    }
    feed.publisher.subscribe({
      subscriptionId: 'odd',
      datasetIds: ['a.b', 'a-b', '2nd/../x', "it's; DROP TABLE"],
    });
    const installed = await program({ feed });
    await once(installed);
    const mirror = await openExactly(installed.mirrorPath);
    const named = await mirror.rows('SELECT dataset_id, table_name FROM feed_sync.datasets ORDER BY 1');
    expect(named.filter(([id]) => !id?.startsWith('us-'))).toEqual([
      ['2nd/../x', '_2nd____x'],
      ['a-b', 'a_b'],
      ['a.b', expect.stringMatching(/^a_b_[0-9a-f]{8}$/)],
      ["it's; DROP TABLE", 'it_s__drop_table'],
    ]);
    for (const [id, table] of named.slice(0, 4))
      expect(await mirror.rows(`SELECT id FROM main.${table}`)).toEqual([[id]]);
    mirror.close();
  });
});

async function reloadsIn(mirrorPath: string, datasetId: string) {
  const mirror = await openExactly(mirrorPath);
  try {
    return await mirror.rows(
      `SELECT subscription_id, event_number::VARCHAR FROM feed_sync.reloads WHERE dataset_id = '${datasetId}'`,
    );
  } finally {
    mirror.close();
  }
}
