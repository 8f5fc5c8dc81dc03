/**
 * The fixture feed in a process of its own, so that serving takes no time from the one that is measured. Told what to
 * serve by its first message, it answers every message: with its addresses, with the requests it met since it was last
 * asked, or with nothing once it has published what it was told to.
 */

import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import type { DatasetFiles, Recipe } from './dataset-files.ts';
import { type Backlog, laterVersions } from './later-versions.ts';

export type FeedMessage =
  | { readonly kind: 'serve'; readonly recipe: Recipe; readonly datasets: readonly DatasetFiles[] }
  /** Later versions of the first dataset. The manifest stays as it is, so that only changes lead to them. */
  | { readonly kind: 'publish'; readonly recipe: Recipe; readonly backlog: Backlog }
  | { readonly kind: 'count-requests' };

const feed = await startFixtureFeed();

process.on('message', (message: FeedMessage) => {
  process.send?.(answerTo(message));
});

// Whoever started it is gone, or wants it to end.
process.once('disconnect', () => void feed.close().then(() => process.exit()));

function answerTo(message: FeedMessage): unknown {
  switch (message.kind) {
    case 'serve': {
      publish(message.recipe, message.datasets);
      const { baseUrl, filesUrl, apiKey } = feed;
      return { baseUrl, filesUrl, apiKey };
    }
    case 'publish':
      publishLater(message.recipe, message.backlog);
      return {};
    case 'count-requests': {
      const counts = countByOperation();
      feed.requests.clear();
      return counts;
    }
  }
}

function publish(recipe: Recipe, datasets: readonly DatasetFiles[]): void {
  const files = new Map(datasets.map((dataset) => [dataset.datasetId, dataset.files]));
  feed.publisher.subscribe({ subscriptionId: 'sub_bench', datasetIds: [...files.keys()] });
  for (const { datasetId, initial } of generateDatasets(recipe)) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, { ...initial(), files: files.get(datasetId) ?? [] });
  }
}

function publishLater(recipe: Recipe, backlog: Backlog): void {
  feed.manifest.freeze();
  const [datasetId = ''] = feed.store.datasets.keys();
  for (const content of laterVersions(recipe, backlog)) feed.publisher.publish(datasetId, content);
}

function countByOperation(): Record<string, number> {
  const groups = Object.groupBy(feed.requests.entries(), ({ operation }) => operation);
  return Object.fromEntries(
    Object.entries(groups).map(([operation, entries]) => [operation, entries.length]),
  );
}
