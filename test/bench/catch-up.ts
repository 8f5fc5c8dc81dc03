/** The contest of catching up: a mirror of the first version, and changes that lead to the newest. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { bootstrapRaw } from './bootstrap.ts';
import { type Contest, type Sample, WrongResultError } from './case.ts';
import { type Content, compareContents, contentOf } from './content.ts';
import { type DatasetFiles, datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, requestCounts, sumOf } from './feed-process.ts';
import { type Backlog, laterVersions, writeNetChange } from './later-versions.ts';
import { measureScript } from './measured-process.ts';
import { mirrored } from './mirrored.ts';
import { copyOf, inFolder, measureOnce, mirrorIn } from './program-run.ts';
import { checkMirror, checkRawTables, checkVersion } from './table-counts.ts';

interface UpdateContest extends Contest {
  readonly feed: FeedProcess;
}

/** Of every dataset of `recipe`; nothing to compare with. `inspect` gets the mirror after each run. */
export async function updateContest(
  recipe: Recipe,
  backlog: Backlog,
  workspace: string,
  inspect: (mirror: string) => Promise<void> = async () => {},
): Promise<UpdateContest> {
  const { feed, datasets, data: mirror } = await mirrored(recipe, workspace);
  await feed.plan(recipe, backlog);
  await feed.publish(backlog.versions);
  return {
    feed,
    subject: () =>
      inFolder(workspace, async (folder) => {
        const data = await copyOf(mirror, folder);
        const sample = await catchUp(feed, data, folder);
        await checkMirror(mirrorIn(data), datasets);
        await checkVersion(mirrorIn(data), backlog.versions + 1);
        await inspect(mirrorIn(data));
        return sample;
      }),
    reference: null,
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** `recipe` has one dataset. Both sides have to end with the same rows. */
export async function catchUpContest(recipe: Recipe, backlog: Backlog, workspace: string): Promise<Contest> {
  const [dataset] = generateDatasets(recipe);
  if (dataset === undefined) throw new Error('the recipe has no dataset');
  const ids = [dataset.datasetId];
  let content: Content | null = null;
  const contest = await updateContest(recipe, backlog, workspace, async (mirror) => {
    content = await contentOf(mirror, ids, (datasetId) => datasetId.replaceAll('-', '_'));
  });
  const datasets = await datasetFiles(recipe);
  const raw = await rawTable(datasets, workspace);
  const versions = laterVersions(dataset, backlog);
  const lines = join(workspace, 'net.ndjson');
  await writeNetChange(versions, lines);
  const keys = dataset.initial().schema.keyColumns.join(', ');
  return {
    ...contest,
    reference: () =>
      inFolder(workspace, async (folder) => {
        const database = join(await copyOf(raw, folder), RAW_DATABASE);
        const values = [database, dataset.datasetId, lines, keys];
        const sample = await measureScript({ script: 'raw/catch-up.mjs', values, folder });
        await checkRawTables(database, datasets);
        if (content === null) throw new WrongResultError('The program has not run before raw DuckDB.');
        compareContents(content, await contentOf(database, ids, (datasetId) => datasetId));
        return sample;
      }),
  };
}

const RAW_DATABASE = 'raw.duckdb';

/** A folder with a database that has the one dataset of `datasets`. */
async function rawTable(datasets: readonly DatasetFiles[], workspace: string): Promise<string> {
  const folder = join(workspace, 'raw');
  await mkdir(folder);
  await bootstrapRaw(join(folder, RAW_DATABASE), datasets, workspace);
  return folder;
}

async function catchUp(feed: FeedProcess, data: string, folder: string): Promise<Sample> {
  await feed.requests();
  const sample = await measureOnce(feed, data, folder);
  const counts = await requestCounts(feed);
  const changesRequests = counts['changes'] ?? 0;
  return { ...sample, counts: { ...sample.counts, requests: sumOf(counts), changesRequests } };
}
