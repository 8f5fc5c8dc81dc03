/** A fixture feed of invented counties in one subscription, whose versions can be published one after another; for tests and for commands. */

import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { PublishOptions } from '../../fixtures/feed/publish.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { type DatasetKind, generateDatasets } from '../../fixtures/source/generate.ts';
import { CANARY_KEY } from './feed-client.ts';

export interface OpenCountyFeedOptions extends FixtureFeedOptions {
  readonly seed?: number;
  readonly counties?: number;
  readonly rowsPerDataset?: number;
  readonly kinds?: readonly DatasetKind[];
}

export interface OpenCountyFeed {
  readonly feed: FixtureFeed;
  readonly datasetIds: readonly string[];
  /** The one dataset of that kind in the first county. */
  datasetOf(kind: DatasetKind): string;
  /** The content of the dataset's newest version. */
  contentOf(datasetId: string): Content;
  /** Publishes the version that follows by the generator, or `content`. */
  publishNext(datasetId: string, content?: Content, options?: PublishOptions): DatasetVersion;
  /** The dataset leaves, is forgotten, and comes back with a first version. */
  startAgain(datasetId: string): void;
}

/**
 * Each county in the subscription `sub_1`, with the first version of all its datasets. The key is a canary. Whoever opens it
 * closes `feed`.
 */
export async function openCountyFeed(options: OpenCountyFeedOptions = {}): Promise<OpenCountyFeed> {
  const { seed = 1, counties = 1, rowsPerDataset = 20, kinds, ...feedOptions } = options;
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, ...feedOptions });
  const request = { seed, counties, rowsPerDataset, ...(kinds === undefined ? {} : { kinds }) };
  const sources = new Map(generateDatasets(request).map((source) => [source.datasetId, source]));
  const places = new Set([...sources.values()].map(({ placeId }) => placeId));
  feed.publisher.subscribe({ subscriptionId: 'sub_1', name: 'All counties', places: [...places] });
  for (const { datasetId, placeId, topic, initial } of sources.values()) {
    feed.publisher.addDataset({ datasetId, placeId, topic });
    feed.publisher.publish(datasetId, initial());
  }
  const contentOf = (datasetId: string): Content => {
    const version = feed.store.dataset(datasetId).versions.at(-1);
    if (version === undefined) throw new Error(`${datasetId} has no version`);
    return version.content;
  };
  let nextSeed = seed;
  return {
    feed,
    datasetIds: [...sources.keys()],
    datasetOf(kind) {
      const found = [...sources.values()].find(({ topic }) => topic === kind);
      if (found === undefined) throw new Error(`there are no ${kind}`);
      return found.datasetId;
    },
    contentOf,
    publishNext(datasetId, content, publishOptions = {}) {
      nextSeed += 1;
      const source = sources.get(datasetId);
      const next = content ?? source?.next(contentOf(datasetId), nextSeed);
      if (next === undefined) throw new Error(`there is no dataset ${datasetId}`);
      return feed.publisher.publish(datasetId, next, publishOptions);
    },
    startAgain(datasetId) {
      const source = sources.get(datasetId);
      if (source === undefined) throw new Error(`there is no dataset ${datasetId}`);
      feed.publisher.remove(datasetId, 'source_retired');
      feed.publisher.dropHistory(datasetId);
      feed.publisher.publish(datasetId, source.initial());
      feed.publisher.restore(datasetId);
    },
  };
}
