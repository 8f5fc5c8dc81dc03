/** The contest of a first start: everything that is subscribed to, from the feed into a mirror that is not there yet. */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Contest, Sample } from './case.ts';
import { type DatasetFiles, datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, startFeedProcess } from './feed-process.ts';
import { measureScript } from './measured-process.ts';
import { checkMirror, checkRawTables } from './table-counts.ts';

/** `rawScript` is a path from this folder. */
export async function bootstrapContest(
  recipe: Recipe,
  workspace: string,
  rawScript: string,
): Promise<Contest> {
  const datasets = await datasetFiles(recipe);
  const list = join(workspace, 'list.json');
  const tables = datasets.map(({ datasetId, files }) => ({
    table: datasetId,
    files: files.map(({ path }) => path),
  }));
  await writeFile(list, JSON.stringify(tables));
  const feed = await startFeedProcess({ recipe, datasets });
  return {
    subject: () => inFolder(workspace, (folder) => mirrorOnce(feed, datasets, folder)),
    reference: () => inFolder(workspace, (folder) => loadRaw(rawScript, list, datasets, folder)),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

async function mirrorOnce(
  feed: FeedProcess,
  datasets: readonly DatasetFiles[],
  folder: string,
): Promise<Sample> {
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  await feed.requestCounts();
  const sample = await measureScript({
    script: '../../dist/main.js',
    values: ['once'],
    environment: {
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      FEED_SYNC_DOWNLOADS_ALLOWED_ORIGINS: feed.filesUrl,
      FEED_SYNC_DATA_DIR: data,
    },
    folder,
  });
  const { file = 0, ...others } = await feed.requestCounts();
  await checkMirror(join(data, 'mirror.duckdb'), datasets);
  const besideFiles = Object.values(others).reduce((sum, count) => sum + count, 0);
  return { ...sample, counts: { requestsPerDataset: besideFiles / datasets.length, fileRequests: file } };
}

async function loadRaw(
  script: string,
  list: string,
  datasets: readonly DatasetFiles[],
  folder: string,
): Promise<Sample> {
  const database = join(folder, 'raw.duckdb');
  const sample = await measureScript({ script, values: [database, list], folder });
  await checkRawTables(database, datasets);
  return sample;
}

/** A folder of one run's own, gone when the run is over. */
async function inFolder<T>(workspace: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(workspace, 'run-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
