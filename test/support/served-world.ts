/**
 * A small world whose service is a fixture feed, asked by the real client, with a real checkpoint and a destination in
 * memory: what a catch-up makes of real answers, without a process. Waits between attempts pass at once. When the test has
 * finished, the API key is searched in all that was logged and in every file (F45).
 *
 * `sub_1` contains parcels and permits, `sub_2` roads. Each version of a dataset has a row more than the one before, and its
 * changes say so.
 */

import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { RequestRecord } from '../../fixtures/feed/request-log.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { FeedOptions } from '../../src/feed/http/options.ts';
import { mirrorIn, temporaryFolder } from './duckdb-mirror.ts';
import { CANARY_KEY, impatientClock, testFeed } from './feed-client.ts';
import { refuseSecret } from './secret-search.ts';
import { numberedRows, smallContent } from './small-content.ts';
import { smallWorld, type World } from './small-world.ts';

export const SERVED = ['parcels', 'permits', 'roads'] as const;

export interface ServedWorld extends World {
  readonly feed: FixtureFeed;
}

/** Nothing is mirrored yet; every dataset is at its first version. */
export async function servedWorld(
  options: FixtureFeedOptions = {},
  ofClient: Partial<Pick<FeedOptions, 'downloads'>> = {},
): Promise<ServedWorld> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, ...options });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels', 'permits'] });
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['roads'] });
  for (const datasetId of SERVED) {
    feed.publisher.addDataset({ datasetId });
    publishNext(feed, datasetId);
  }
  const world = await smallWorld();
  const { feed: client, logged } = testFeed(feed.baseUrl, { clock: impatientClock(), ...ofClient });
  const folders = [dirname(world.checkpointPath), world.parts.choices.stagingDirectory];
  onTestFinished(async () => {
    await client.close();
    refuseSecret(feed.apiKey, { texts: [...logged, JSON.stringify(world.logged)], folders });
  });
  Object.assign(world.parts, { feed: client });
  return Object.assign(world, { feed });
}

/** A served world whose mirror is a real one, in `folder`. */
export async function withRealMirror(
  ...options: Parameters<typeof servedWorld>
): Promise<ServedWorld & { readonly folder: string }> {
  const world = await servedWorld(...options);
  const { path: folder, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  const destination = await mirrorIn(folder);
  onTestFinished(async () => {
    await destination.close();
    refuseSecret(world.feed.apiKey, { texts: [], folders: [folder] });
    await remove();
  });
  Object.assign(world.parts, { destination });
  // A mirror reads no file that is elsewhere.
  Object.assign(world.parts.choices, { stagingDirectory: join(folder, 'staging') });
  return Object.assign(world, { folder });
}

/** The first versions are mirrored, and `published` have a second one since. The log of requests is empty. */
export async function behind(
  published: readonly string[] = SERVED,
  options: FixtureFeedOptions = {},
): Promise<ServedWorld> {
  const world = await servedWorld(options);
  await world.catchUp();
  for (const datasetId of published) publishNext(world.feed, datasetId);
  world.feed.requests.clear();
  return world;
}

export function publishNext(feed: FixtureFeed, datasetId: string): void {
  const rows = numberedRows(feed.store.dataset(datasetId).versions.length + 2);
  const added = rows.slice(-1).map((row) => ({ op: 'added' as const, row }));
  feed.publisher.publish(datasetId, smallContent(rows, added));
}

/** The requests about one of `ids`, a dataset's or a subscription's. */
export function requestsAbout(
  { requests }: FixtureFeed,
  ...ids: readonly string[]
): readonly RequestRecord[] {
  const isOne = (id: string | null): boolean => id !== null && ids.includes(id);
  return requests
    .entries()
    .filter(({ datasetId, subscriptionId }) => isOne(datasetId) || isOne(subscriptionId));
}
