/** A fixture feed for one test, with a clock that stands still, closed when the test has finished. */

import { onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { numberedRows, smallContent } from './small-content.ts';

/** Its subscription sub_1 is to Travis county. */
export async function startedFeed(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startFixtureFeed({ clock: stillClock('2026-01-01T00:00:00Z'), ...options });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', places: ['us-tx-travis'] });
  return feed;
}

/** Publishes small datasets of Travis county, each with a first version of so many rows. */
export function publishSmall(feed: FixtureFeed, datasetIds: readonly string[], rowCount = 2): void {
  for (const datasetId of datasetIds) {
    feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
    feed.publisher.publish(datasetId, smallContent(numberedRows(rowCount)));
  }
}

/** Adds dataset `x` of Adams county, without a version. */
export function addOfAdams({ publisher }: FixtureFeed): void {
  publisher.addDataset({
    datasetId: 'x',
    placeId: 'us-ia-adams',
    placeName: 'Adams County',
    state: 'IA',
  });
}
