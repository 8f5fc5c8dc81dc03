/**
 * `feed-sync once` as a process in a zone with hours that do not exist: every extreme value is what was published (F40),
 * and bad ones fail their datasets alone (F38, F40 to F43).
 */

import { expect, it } from 'vitest';
import {
  type BadDataset,
  badChanges,
  badSnapshot,
  contentRequests,
  publishFiles,
  queried,
} from '../support/bad-content.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { program } from '../support/program.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

const ENVIRONMENT = { TZ: 'America/Chicago', FEED_SYNC_RETRY_BASE_DELAY: '5ms' };

const listed = (value: string): string => `{"op":"added","row":{"id":"b","v":${value}}}`;
const tableOf = (type: 'timestamp' | 'geometry') => ({
  schema: { ...SMALL_SCHEMA, columns: [column('id', 'string', false), column('v', type)] },
  rows: [['a', null]],
  first: [['a', null]],
});

const BAD: readonly BadDataset[] = [
  badChanges(
    'timestamp-without-an-offset',
    tableOf('timestamp'),
    [[listed('"2024-03-10T02:30:00"')]],
    'Version 2 of timestamp-without-an-offset, page 1, row 1: the column "v" holds "2024-03-10T02:30:00", which is no timestamp',
  ),
  badChanges('geometry', tableOf('geometry'), [[listed('{"type":"Feature"}')]], 'which is no geometry'),
  badChanges('no-key', {}, [['{"op":"removed","key":{}}']], 'page 1, row 1: the key column "id" is null'),
  badChanges('half', tableOf('timestamp'), [[listed('"\\ud800"')]], 'which is no text'),
  badSnapshot(
    'below-microseconds',
    tableOf('timestamp'),
    { select: "SELECT 'a' AS id, TIMESTAMP_NS '2024-01-01 00:00:00.000000001' AS v" },
    'holds in the column "v" the value "2024-01-01 00:00:00.000000001"',
  ),
  {
    datasetId: 'wrong-digest',
    async spoil({ feed, folder }) {
      const file = await queried(folder, 'wrong.parquet', "SELECT 'a' AS id, 1::BIGINT AS amount");
      publishFiles(feed, 'wrong-digest', [{ ...file, sha256: 'ab'.repeat(32) }]);
    },
    says: ['file part-0.parquet of dataset wrong-digest, version 2 differs from what its manifest states'],
    requests: ['changes', 'file', 'file', 'file'],
  },
];

it('F40 F43 fails each dataset with bad values or files alone, all in one run', async () => {
  const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['specimens', 'permits'] });
  feed.publisher.subscribe({ subscriptionId: 'sub_bad', datasetIds: BAD.map(({ datasetId }) => datasetId) });
  for (const { datasetId, first = smallContent(numberedRows(2)) } of BAD) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, first);
  }
  const installed = await program({ feed, environment: ENVIRONMENT });
  await once(installed);
  await expectMirrored(installed, feed);

  const before = BAD.map(
    ({ datasetId }) => [datasetId, feed.store.dataset(datasetId).versions.at(-1)] as const,
  );
  const at = Object.fromEntries(
    before.flatMap(([id, version]) => (version === undefined ? [] : [[id, version]])),
  );
  for (const { datasetId, spoil } of BAD) await spoil({ feed, folder: installed.home }, datasetId);
  for (let version = 2; version <= 4; version += 1) publishNext(datasetOf('specimens'));
  publishNext(datasetOf('permits'));
  feed.requests.clear();
  const { stdout } = await once(installed, 65);
  for (const { datasetId, says, requests } of BAD) {
    for (const words of says) expect(stdout).toContain(words);
    expect(stdout).toContain(`${datasetId}: `);
    expect([datasetId, ...contentRequests(feed, datasetId)]).toEqual([datasetId, ...requests]);
  }
  await expectMirrored(installed, feed, { at });

  feed.requests.clear();
  const again = await once(installed, 65);
  expect(again.stdout).toContain(`2 already up to date, ${BAD.length} failed`);
  expect(BAD.flatMap(({ datasetId }) => contentRequests(feed, datasetId))).toEqual([]);
});

it('F40 a resync loads the same values as the changes before it', async () => {
  const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['specimens'] });
  const installed = await program({ feed, environment: ENVIRONMENT });
  await once(installed);
  for (let version = 2; version <= 4; version += 1) publishNext(datasetOf('specimens'));
  expect((await once(installed)).stdout).toContain('1 updated by changes');
  await expectMirrored(installed, feed);
  await installed.run('resync', '--all', '--yes');
  expect((await once(installed)).stdout).toContain('1 loaded');
  await expectMirrored(installed, feed);
});
