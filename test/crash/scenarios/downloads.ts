/** Scenarios of downloads: continued, dropped, without a digest, of a large file; and of pages of changes that are cut into smaller ones. */

import { createHash } from 'node:crypto';
import { once } from '../../support/expect-mirrored.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../../support/small-content.ts';
import type { Scenario } from '../scenario.ts';

/** A page of so many rows of so much text is larger than what is read at once. */
const ROWS_OF_A_PAGE = 900;
const LONG_TEXT = 'x'.repeat(10_000);
/** The file of so many rows of so much text, which hardly compresses, is synced while it comes. */
const ROWS_OF_A_LARGE_FILE = 2_400;
const BYTES_OF_A_TEXT = 7_500;

const WITH_TEXT = { ...SMALL_SCHEMA, columns: [...SMALL_SCHEMA.columns, column('text', 'string')] };

function randomText(seed: number): string {
  return createHash('shake256', { outputLength: BYTES_OF_A_TEXT }).update(String(seed)).digest('base64');
}

export const DOWNLOADS: readonly Scenario[] = [
  {
    name: 'cut downloads',
    summary: 'downloads go on where they were cut',
    killedAt: 'its own names',
    async validate({ county: { feed }, installed }) {
      feed.faults.add({
        match: { operation: 'file', times: 'always' },
        act: { kind: 'truncate', afterBytes: 50 },
      });
      await once(installed, 75);
      feed.faults.clear();
      return {};
    },
  },
  {
    name: 'bad downloads',
    summary: 'files come once with other content than the manifest states',
    killedAt: 'its own names',
    validate: async ({ county: { feed, datasetIds } }) => ({
      before: () => {
        feed.faults.clear();
        for (const datasetId of datasetIds) {
          feed.faults.add({
            match: { operation: 'file', datasetId },
            act: { kind: 'flipBit', atByte: 100 },
          });
        }
      },
    }),
  },
  {
    name: 'no digests',
    summary: 'the manifest states no digests of files',
    feed: { files: { sha256: false } },
    killedAt: 'its own names',
    validate: async () => ({}),
  },
  {
    name: 'large file',
    summary: 'a file that is so large that a loss of power should not cost all of it',
    killedAt: 'its own names',
    async validate({ county: { feed } }) {
      feed.publisher.addDataset({ datasetId: 'large', placeId: 'us-tx-travis', topic: 'parcels' });
      const rows = numberedRows(ROWS_OF_A_LARGE_FILE).map((row, index) => [...row, randomText(index)]);
      feed.publisher.publish('large', smallContent(rows, null, WITH_TEXT));
      feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['large'] });
      return {};
    },
  },
  {
    name: 'large pages',
    summary: 'pages of changes that are larger than what is read at once',
    killedAt: 'its own names',
    async validate({ county: { feed }, installed }) {
      feed.publisher.addDataset({ datasetId: 'large', placeId: 'us-tx-travis', topic: 'parcels' });
      const rows = numberedRows(ROWS_OF_A_PAGE);
      const first = rows.map((row) => [...row, 'short']);
      feed.publisher.publish('large', smallContent(first, null, WITH_TEXT));
      feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['large'] });
      await once(installed);
      const next = rows.map((row) => [...row, LONG_TEXT]);
      const changes = next.map((row) => ({ op: 'changed', row }) as const);
      feed.publisher.publish('large', smallContent(next, changes, WITH_TEXT));
      return {};
    },
  },
];
