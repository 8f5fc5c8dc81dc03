/**
 * The fixture feed in a process of its own, so that serving takes no time from the one that is measured. Told what to
 * serve by its first message, it answers every message: with its addresses, with the requests it met since it was last
 * asked, or with nothing once it has done its command.
 */

import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { DistanceSettings } from '../../fixtures/feed/settings.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import type { DatasetFiles, Recipe } from './dataset-files.ts';
import type { MetRequest } from './feed-process.ts';
import { type Backlog, laterVersions } from './later-versions.ts';

export type FeedMessage =
  | { readonly kind: 'serve'; readonly recipe: Recipe; readonly datasets: readonly DatasetFiles[] }
  /** Makes the later versions of every dataset. The manifest stays as it is, so that only changes lead to them. */
  | { readonly kind: 'plan'; readonly recipe: Recipe; readonly backlog: Backlog }
  /** Publishes so many of them, of every dataset. */
  | { readonly kind: 'publish'; readonly versions: number }
  /** Publishes a version of each dataset with these files, to which no changes lead. */
  | { readonly kind: 'publish-files'; readonly datasets: readonly DatasetFiles[] }
  /** Answers as from far away, from now on. */
  | { readonly kind: 'distance'; readonly distance: DistanceSettings }
  | { readonly kind: 'requests' };

const feed = await startFixtureFeed();
/** The first content of each dataset. */
const served = new Map<string, Content>();
const planned = new Map<string, readonly Content[]>();

process.on('message', (message: FeedMessage) => {
  process.send?.(answerTo(message));
});

// The parent process is gone, or asks it to end.
process.once('disconnect', () => void feed.close().then(() => process.exit()));

function answerTo(message: FeedMessage): unknown {
  switch (message.kind) {
    case 'serve': {
      serve(message.recipe, message.datasets);
      const { baseUrl, filesUrl, apiKey } = feed;
      return { baseUrl, filesUrl, apiKey };
    }
    case 'plan':
      feed.manifest.freeze();
      for (const dataset of generateDatasets(message.recipe)) {
        planned.set(dataset.datasetId, laterVersions(dataset, message.backlog));
      }
      return {};
    case 'publish':
      for (const [datasetId, versions] of planned) publishSome(datasetId, versions, message.versions);
      return {};
    case 'publish-files':
      for (const { datasetId, files } of message.datasets) publishFiles(datasetId, files);
      return {};
    case 'distance':
      Object.assign(feed.settings.distance, message.distance);
      return {};
    case 'requests': {
      const requests = feed.requests
        .entries()
        .map(({ operation, at }): MetRequest => ({ operation, atMs: at.getTime() }));
      feed.requests.clear();
      return requests;
    }
  }
}

function publishFiles(datasetId: string, files: DatasetFiles['files']): void {
  const first = served.get(datasetId);
  if (first === undefined) throw new Error(`${datasetId} is not served`);
  feed.publisher.publish(datasetId, { ...first, files, changes: null });
}

function serve(recipe: Recipe, datasets: readonly DatasetFiles[]): void {
  const files = new Map(datasets.map((dataset) => [dataset.datasetId, dataset.files]));
  feed.publisher.subscribe({ subscriptionId: 'sub_bench', datasetIds: [...files.keys()] });
  for (const { datasetId, initial } of generateDatasets(recipe)) {
    feed.publisher.addDataset({ datasetId });
    const content = { ...initial(), files: files.get(datasetId) ?? [] };
    served.set(datasetId, content);
    feed.publisher.publish(datasetId, content);
  }
}

function publishSome(datasetId: string, versions: readonly Content[], count: number): void {
  if (versions.length < count) throw new Error(`${datasetId} has only ${versions.length} versions left`);
  for (const content of versions.slice(0, count)) feed.publisher.publish(datasetId, content);
  planned.set(datasetId, versions.slice(count));
}
