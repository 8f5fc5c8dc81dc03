/** The contest of catching up: a mirror of the first version, and changes that lead to the newest. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type GeneratedDataset, generateDatasets } from '../../fixtures/source/generate.ts';
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

/** Of every dataset of `recipe`, beside raw DuckDB, which merges the net change of each. Both sides have to end with the same rows. */
export async function catchUpContest(recipe: Recipe, backlog: Backlog, workspace: string): Promise<Contest> {
  const generated = generateDatasets(recipe);
  const ids = generated.map(({ datasetId }) => datasetId);
  let content: Content | null = null;
  const contest = await updateContest(recipe, backlog, workspace, async (mirror) => {
    content = await contentOf(mirror, ids, (datasetId) => datasetId.replaceAll('-', '_'));
  });
  const datasets = await datasetFiles(recipe);
  const raw = await rawTables(datasets, workspace);
  const list = join(workspace, 'net.json');
  await writeFile(list, JSON.stringify(await netChanges(generated, backlog, workspace)));
  return {
    ...contest,
    reference: () =>
      inFolder(workspace, async (folder) => {
        const database = join(await copyOf(raw, folder), RAW_DATABASE);
        const sample = await measureScript({ script: 'raw/catch-up.mjs', values: [database, list], folder });
        await checkRawTables(database, datasets);
        if (content === null) throw new WrongResultError('The program has not run before raw DuckDB.');
        compareContents(content, await contentOf(database, ids, (datasetId) => datasetId));
        return sample;
      }),
  };
}

/** What `raw/catch-up.mjs` reads: the table, its keys, and the file of its net change. */
async function netChanges(
  datasets: readonly GeneratedDataset[],
  backlog: Backlog,
  workspace: string,
): Promise<readonly { readonly table: string; readonly keys: string; readonly lines: string }[]> {
  const changes = [];
  for (const dataset of datasets) {
    const lines = join(workspace, `net-${changes.length}.ndjson`);
    await writeNetChange(laterVersions(dataset, backlog), lines);
    const keys = dataset.initial().schema.keyColumns.join(', ');
    changes.push({ table: dataset.datasetId, keys, lines });
  }
  return changes;
}

const RAW_DATABASE = 'raw.duckdb';

/** A folder with a database that has `datasets`. */
async function rawTables(datasets: readonly DatasetFiles[], workspace: string): Promise<string> {
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
