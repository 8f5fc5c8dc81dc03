/** Scenarios of what a feed brings: the first load, versions, schemas, resyncs, a position that has expired. */

import { DAY_MS } from '../../../fixtures/feed/clock.ts';
import { withAddedColumn, withRemovedColumn } from '../../../fixtures/source/evolve.ts';
import type { CountyFeed } from '../../support/county-feed.ts';
import { once } from '../../support/expect-mirrored.ts';
import { column } from '../../support/small-content.ts';
import type { Scenario } from '../scenario.ts';

/** A second subscription contains the same datasets. */
function inAnother({ feed, datasetIds }: CountyFeed): void {
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds });
}

export const CATCHING_UP: readonly Scenario[] = [
  {
    name: 'load',
    summary: 'the first catch-up, on a machine that has nothing yet',
    killedAt: 'every name',
    async validate({ county }) {
      inAnother(county);
      return {};
    },
  },
  {
    name: 'apply',
    summary: 'several versions of two datasets, applied by changes',
    killedAt: 'every name',
    async validate({ county, installed }) {
      await once(installed);
      for (const datasetId of county.datasetIds) {
        for (let versions = 0; versions < 3; versions += 1) county.publishNext(datasetId);
      }
      return {};
    },
  },
  {
    name: 'alter',
    summary: 'new columns, added to the tables together with the changes',
    environment: { FEED_SYNC_SCHEMA_CHANGES: 'alter' },
    killedAt: 'every name',
    async validate({ county, installed }) {
      await once(installed);
      for (const datasetId of county.datasetIds) {
        const note = column('note', 'string');
        county.publishNext(
          datasetId,
          withAddedColumn(county.contentOf(datasetId), note, ([first]) => `of ${String(first)}`),
        );
      }
      return {};
    },
  },
  {
    name: 'reload',
    summary: 'a schema with a column more and one with a column less, loaded anew',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      const [one, other] = [county.datasetOf('zoning'), county.datasetOf('permits')];
      const { columns, keyColumns } = county.contentOf(other).schema;
      const less = columns.find(({ name }) => !keyColumns.includes(name))?.name ?? '';
      county.publishNext(
        one,
        withAddedColumn(county.contentOf(one), column('note', 'string'), () => 'new'),
      );
      county.publishNext(other, withRemovedColumn(county.contentOf(other), less));
      return {};
    },
  },
  {
    name: 'resync',
    summary: 'the service asks for two datasets to be loaded again',
    killedAt: 'every name',
    async validate({ county, installed }) {
      await once(installed);
      for (const datasetId of county.datasetIds) {
        const next = county.publishNext(datasetId, undefined, { announce: false });
        county.feed.publisher.resync(datasetId, 'source_retired', { content: next.content });
      }
      return {};
    },
  },
  {
    name: '410',
    summary: 'the position in the log has expired, and much has happened meanwhile',
    killedAt: 'every name',
    async validate({ county, installed }) {
      inAnother(county);
      await once(installed);
      county.feed.clock.advance(91 * DAY_MS);
      for (const datasetId of county.datasetIds) county.publishNext(datasetId);
      return {};
    },
  },
];
