/** A fixture feed of invented counties for one test, closed when the test has finished. */

import { onTestFinished } from 'vitest';
import { type OpenCountyFeed, type OpenCountyFeedOptions, openCountyFeed } from './open-county-feed.ts';

export type CountyFeedOptions = OpenCountyFeedOptions;
export type CountyFeed = OpenCountyFeed;

export async function countyFeed(options: CountyFeedOptions = {}): Promise<CountyFeed> {
  const county = await openCountyFeed(options);
  onTestFinished(county.feed.close);
  return county;
}
