/** `feed-sync once` on a feed that goes on: changes are applied, or the dataset falls back to the snapshot; datasets leave. */

import { describe, expect, it } from 'vitest';
import { NOT_RECORDED_FORMS } from '../../fixtures/feed/model.ts';
import { withAddedColumn, withKeyColumns, withRemovedColumn } from '../../fixtures/source/evolve.ts';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once, operationsOf } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { column } from '../support/small-content.ts';

describe('versions that follow', () => {
  it('once applies the versions that follow: it fetches their changes, and no file', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    const permits = datasetOf('permits');
    for (let version = 2; version <= 4; version++) publishNext(permits);
    publishNext(datasetOf('parcels'), undefined, { announce: false });
    feed.requests.clear();
    const { stdout } = await once(installed);
    expect(stdout).toContain('0 loaded, 2 updated by changes, 0 already up to date. 4 versions: ');
    expect(operationsOf(feed)).toEqual([
      'subscriptions',
      'openapi',
      'events',
      'manifest',
      'versions',
      'schemas',
      'changes',
    ]);
    const asked = feed.requests.entries('changes').filter(({ datasetId }) => datasetId === permits);
    expect(asked.map(({ query }) => query['version']).toSorted()).toEqual(['2', '3', '4']);
    await expectMirrored(installed, feed);
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('0 loaded, 2 already up to date');
    expect(operationsOf(feed)).toEqual(['subscriptions', 'openapi', 'events', 'manifest']);
  });

  it('C2 C3 V5 V10 F30, F31: once falls back to the snapshot where changes are not recorded or do not add up', async () => {
    const { feed, datasetIds, publishNext } = await countyFeed({ counties: 2, rowsPerDataset: 5 });
    const installed = await program({ feed });
    await once(installed);
    const [liar = '', ...others] = datasetIds.slice(0, NOT_RECORDED_FORMS.length + 1);
    publishNext(liar, undefined, { claims: { counts: { added: 90, changed: 0, removed: 0 } } });
    for (const [index, notRecordedAs] of NOT_RECORDED_FORMS.entries()) {
      publishNext(others[index] ?? '', undefined, { notRecordedAs });
    }
    feed.requests.clear();
    const { stdout, stderr } = await once(installed);
    expect(stdout).toContain('6 loaded, ');
    expect(stderr.match(/Fell back to the snapshot\./g)).toHaveLength(6);
    expect(new Set(downloadsOf(feed))).toEqual(new Set([liar, ...others]));
    await expectMirrored(installed, feed);
  });

  it('changes that the key may not read load the snapshot, and suspend nothing', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    await once(installed);
    feed.keys.get(feed.apiKey).scopes = ['feeds'];
    publishNext(datasetOf('permits'));
    expect((await once(installed)).stdout).toContain('1 loaded');
    await expectMirrored(installed, feed);
  });
});

describe('changes with an invalid value', () => {
  it('C13 V4 changes with an invalid value fail their dataset alone, after the version before, until a resync', async () => {
    const { feed, datasetOf, contentOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    const [permits, parcels] = [datasetOf('permits'), datasetOf('parcels')];
    const text = contentOf(permits).schema.columns.find(({ type }) => type === 'timestamp')?.name ?? '';
    publishNext(permits);
    const before = feed.store.dataset(permits).versions.at(-1);
    publishNext(permits);
    publishNext(parcels);
    feed.faults.add({
      match: { operation: 'changes', datasetId: permits, times: 'always' },
      act: {
        kind: 'rewrite',
        rewrite: (body) => {
          const page = Object(body);
          const bend = (change: { row?: object }) =>
            change.row === undefined ? change : { ...change, row: { ...change.row, [text]: 'yesterday' } };
          return page.version === 3 ? { ...page, changes: page.changes.map(bend) } : page;
        },
      },
    });
    const { stdout } = await once(installed, 65);
    expect(stdout).toMatch(new RegExp(`${permits}: .*version 3.*page 1.*${text}.*yesterday`, 'i'));
    expect(stdout).toContain(`feed-sync resync ${permits}`);
    expect(stdout).toContain('brought to version 2 before that');
    expect(before).toMatchObject({ version: 2 });
    await expectMirrored(installed, feed, { at: before === undefined ? {} : { [permits]: before } });

    feed.requests.clear();
    expect((await once(installed, 65)).stdout).toContain('yesterday');
    expect(feed.requests.entries('changes')).toEqual([]);
    expect(downloadsOf(feed)).toEqual([]);

    expect(await installed.run('resync', permits)).toMatchObject({ exitCode: 0 });
    await once(installed);
    expect(downloadsOf(feed)).toEqual([permits]);
    await expectMirrored(installed, feed);
  });
});

describe('schema changes', () => {
  it('F34 applies schema changes that only add columns with alter, and loads the snapshot for the others', async () => {
    const { feed, datasetOf, contentOf, publishNext } = await countyFeed({
      kinds: ['permits', 'parcels', 'ordinances'],
    });
    const installed = await program({ feed, environment: { FEED_SYNC_SCHEMA_CHANGES: 'alter' } });
    await once(installed);
    const [permits, parcels, ordinances] = [
      datasetOf('permits'),
      datasetOf('parcels'),
      datasetOf('ordinances'),
    ];
    const added = { ...column('added later', 'json'), description: 'Came with the second schema.' };
    publishNext(
      permits,
      withAddedColumn(contentOf(permits), added, (row) => ({ json: [String(row[0])] })),
    );
    const { columns, keyColumns } = contentOf(parcels).schema;
    const other = columns.find(({ name }) => !keyColumns.includes(name))?.name ?? '';
    publishNext(parcels, withRemovedColumn(contentOf(parcels), other));
    publishNext(ordinances, withKeyColumns(contentOf(ordinances), []));
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('2 loaded, 1 updated by changes, 0 already up to date');
    expect(downloadsOf(feed).toSorted()).toEqual([ordinances, parcels].toSorted());
    await expectMirrored(installed, feed);

    publishNext(permits);
    publishNext(ordinances, { ...contentOf(ordinances), changes: null });
    expect((await once(installed)).stdout).toContain('1 loaded, 1 updated by changes, 1 already up to date');
    await expectMirrored(installed, feed);
  });
});

describe('F35: a dataset that leaves', () => {
  it('F35 archives a dataset that leaves, and loads it again when it comes back', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed });
    await once(installed);
    const permits = datasetOf('permits');
    feed.publisher.remove(permits, 'left_coverage');
    feed.requests.clear();
    expect((await once(installed)).stdout).toContain('0 loaded, 1 retired, 1 already up to date');
    expect(feed.requests.entries().filter(({ datasetId }) => datasetId === permits)).toEqual([]);
    await expectMirrored(installed, feed);

    feed.publisher.restore(permits);
    publishNext(permits);
    expect((await once(installed)).stdout).toMatch(/^2 datasets .*: 1 loaded, 1 already up to date/);
    await expectMirrored(installed, feed);
  });
});
