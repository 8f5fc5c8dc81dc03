/**
 * The fixture feed in a process of its own, so that serving files takes no time from the one that is measured. Told
 * what to serve by its first message, it answers with its addresses, and every later message with the requests it met
 * since the one before.
 */

import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import type { DatasetFiles, Recipe } from './dataset-files.ts';

export interface ServeMessage {
  readonly recipe: Recipe;
  readonly datasets: readonly DatasetFiles[];
}

const feed = await startFixtureFeed();

process.once('message', (message: ServeMessage) => {
  publish(message);
  const { baseUrl, filesUrl, apiKey } = feed;
  process.send?.({ baseUrl, filesUrl, apiKey });
  process.on('message', () => {
    process.send?.(countByOperation());
    feed.requests.clear();
  });
});

// Whoever started it is gone, or wants it to end.
process.once('disconnect', () => void feed.close().then(() => process.exit()));

function publish({ recipe, datasets }: ServeMessage): void {
  const files = new Map(datasets.map((dataset) => [dataset.datasetId, dataset.files]));
  feed.publisher.subscribe({ subscriptionId: 'sub_bench', datasetIds: [...files.keys()] });
  for (const { datasetId, initial } of generateDatasets(recipe)) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, { ...initial(), files: files.get(datasetId) ?? [] });
  }
}

function countByOperation(): Record<string, number> {
  const groups = Object.groupBy(feed.requests.entries(), ({ operation }) => operation);
  return Object.fromEntries(
    Object.entries(groups).map(([operation, entries]) => [operation, entries.length]),
  );
}
