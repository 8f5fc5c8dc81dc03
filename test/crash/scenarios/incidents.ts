/** Scenarios of stored incidents: refusals, bad content, and content that is good again. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatasetVersion } from '../../../fixtures/feed/model.ts';
import type { CountyFeed } from '../../support/county-feed.ts';
import { once } from '../../support/expect-mirrored.ts';
import { everythingPublished } from '../../support/published.ts';
import { sameText } from '../../support/same-text.ts';
import { webhookReceiver } from '../../support/webhook-receiver.ts';
import type { Scenario, Stage } from '../scenario.ts';

const HOUR_MS = 60 * 60_000;

export const INCIDENTS: readonly Scenario[] = [
  {
    name: 'refuse',
    summary: 'the service refuses datasets, which are suspended',
    killedAt: 'its own names',
    async validate(stage) {
      const at = await mirroredAt(stage);
      const { county } = stage;
      for (const datasetId of county.datasetIds) {
        county.feed.access.refuse({ kind: 'dataset', datasetId }, { code: 'not_distributable' });
        county.publishNext(datasetId);
      }
      return { exitCode: 77, expected: () => everythingPublished(county.feed, { at }) };
    },
  },
  {
    name: 'notify',
    summary: 'an operator is notified of datasets that are refused',
    killedAt: 'its own names',
    async validate(stage) {
      const { county, installed } = stage;
      const receiver = await webhookReceiver();
      const at = await mirroredAt(stage);
      const settings = JSON.stringify({ notify: { url: receiver.url } });
      writeFileSync(join(installed.home, 'work', 'feed-sync.yaml'), settings);
      for (const datasetId of county.datasetIds) {
        county.feed.access.refuse({ kind: 'dataset', datasetId }, { code: 'not_distributable' });
        county.publishNext(datasetId);
      }
      let before = 0;
      return {
        exitCode: 77,
        before() {
          before = receiver.received.length;
        },
        expected: () => everythingPublished(county.feed, { at }),
        wrongAtTheEnd: async () => {
          const titles = receiver.received.slice(before).map(({ body }) => JSON.parse(body).title);
          return sameText(
            'the notifications',
            [...new Set(titles)],
            [`Suspended: dataset ${county.datasetIds.toSorted()[0]} and 1 more (not_distributable)`],
          );
        },
      };
    },
  },
  {
    name: 'fail',
    summary: 'damaged snapshots',
    killedAt: 'its own names',
    async validate(stage) {
      const at = await mirroredAt(stage);
      await spoil(stage.county);
      return { exitCode: 65, expected: () => everythingPublished(stage.county.feed, { at }) };
    },
  },
  {
    name: 'mend',
    summary: 'good snapshots, after damaged ones',
    killedAt: 'its own names',
    async validate(stage) {
      await mirroredAt(stage);
      await spoil(stage.county);
      await once(stage.installed, 65);
      stage.county.feed.faults.clear();
      for (const datasetId of stage.county.datasetIds) unrecorded(stage.county, datasetId);
      return {};
    },
  },
  {
    name: 'withdrawn',
    summary: 'versions that were announced have been absent from the list of versions for an hour',
    killedAt: 'its own names',
    async validate({ county, installed }) {
      await once(installed);
      for (const datasetId of county.datasetIds) {
        county.publishNext(datasetId);
        county.feed.publisher.withdraw(datasetId);
      }
      await once(installed, 75);
      county.feed.clock.advance(HOUR_MS);
      return {};
    },
  },
];

/** Mirrors everything. @returns the versions it is at. */
async function mirroredAt({ county, installed }: Stage): Promise<Readonly<Record<string, DatasetVersion>>> {
  await once(installed);
  return Object.fromEntries(
    everythingPublished(county.feed).datasets.map(({ datasetId, version }) => [datasetId, version]),
  );
}

/** A further version of each dataset, whose files are spoiled. */
async function spoil(county: CountyFeed): Promise<void> {
  for (const datasetId of county.datasetIds) unrecorded(county, datasetId);
  county.feed.faults.add({
    match: { operation: 'file', times: 'always' },
    act: { kind: 'flipBit', atByte: 100 },
  });
}

function unrecorded(county: CountyFeed, datasetId: string): void {
  county.publishNext(datasetId, undefined, { notRecordedAs: 'flag' });
}
