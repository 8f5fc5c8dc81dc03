/** The contest of a first start: everything that is subscribed to, from the feed into a mirror that is not there yet. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Contest, Sample } from './case.ts';
import { type DatasetFiles, datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, requestCounts, startFeedProcess, sumOf } from './feed-process.ts';
import { measureScript } from './measured-process.ts';
import { inFolder, measureOnce, megabytesOf, mirrorIn, type Settings } from './program-run.ts';
import { checkMirror, checkRawTables } from './table-counts.ts';

export interface Bootstrap {
  readonly recipe: Recipe;
  /** A path from this folder; null where there is nothing to compare with. */
  readonly rawScript: string | null;
  /** Arguments of the script after the database and the list of files. */
  readonly rawValues?: readonly string[];
  /** Settings of the program beside the required ones. */
  readonly settings?: Settings;
}

export async function bootstrapContest(
  { recipe, rawScript, rawValues = [], settings }: Bootstrap,
  workspace: string,
): Promise<Contest> {
  const datasets = await datasetFiles(recipe);
  const list = join(workspace, 'list.json');
  await writeList(list, datasets);
  const feed = await startFeedProcess(recipe, datasets);
  return {
    subject: () => inFolder(workspace, (folder) => mirrorOnce(feed, datasets, folder, settings)),
    reference:
      rawScript === null
        ? null
        : () =>
            inFolder(workspace, async (folder) => {
              const database = join(folder, 'raw.duckdb');
              const values = [database, list, ...rawValues];
              const sample = await measureScript({ script: rawScript, values, folder });
              await checkRawTables(database, datasets);
              return { ...sample, counts: { mirrorMegabytes: await megabytesOf(database) } };
            }),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

async function mirrorOnce(
  feed: FeedProcess,
  datasets: readonly DatasetFiles[],
  folder: string,
  settings?: Settings,
): Promise<Sample> {
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  await feed.requests();
  const sample = await measureOnce(feed, data, folder, settings);
  const { file = 0, ...others } = await requestCounts(feed);
  await checkMirror(mirrorIn(data), datasets);
  const requestsPerDataset = sumOf(others) / datasets.length;
  return { ...sample, counts: { ...sample.counts, requestsPerDataset, fileRequests: file } };
}

/** Loads `datasets` into tables of `database`, as raw DuckDB does in the cases of the first start. */
export async function bootstrapRaw(
  database: string,
  datasets: readonly DatasetFiles[],
  folder: string,
): Promise<void> {
  const list = join(folder, 'list.json');
  await writeList(list, datasets);
  const script = datasets.length === 1 ? 'raw/bootstrap-large.mjs' : 'raw/bootstrap-small.mjs';
  await measureScript({ script, values: [database, list], folder });
}

async function writeList(path: string, datasets: readonly DatasetFiles[]): Promise<void> {
  const tables = datasets.map(({ datasetId, files }) => ({
    table: datasetId,
    files: files.map((file) => file.path),
  }));
  await writeFile(path, JSON.stringify(tables));
}
