/** The contest of catching up: a mirror of the first version, and changes that lead to the newest. */

import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { duckDbVersion } from '../../src/staging/engine/engine.ts';
import { bootstrapRaw } from './bootstrap.ts';
import type { Contest, Sample } from './case.ts';
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

/** Of every dataset of `recipe`; nothing to compare with. */
export async function updateContest(
  recipe: Recipe,
  backlog: Backlog,
  workspace: string,
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
        return sample;
      }),
    reference: null,
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** `recipe` has one dataset. */
export async function catchUpContest(recipe: Recipe, backlog: Backlog, workspace: string): Promise<Contest> {
  const [dataset] = generateDatasets(recipe);
  if (dataset === undefined) throw new Error('the recipe has no dataset');
  const contest = await updateContest(recipe, backlog, workspace);
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
        return sample;
      }),
  };
}

/** `recipe` has one dataset. The script fetches the same pages from the same feed. */
export async function catchUpBesideScript(
  recipe: Recipe,
  backlog: Backlog,
  workspace: string,
): Promise<Contest> {
  const [dataset] = generateDatasets(recipe);
  if (dataset === undefined) throw new Error('the recipe has no dataset');
  const contest = await updateContest(recipe, backlog, workspace);
  const { baseUrl, apiKey } = contest.feed;
  const datasets = await datasetFiles(recipe);
  const raw = await rawTable(datasets, workspace);
  const keys = dataset.initial().schema.keyColumns.join(',');
  return {
    ...contest,
    reference: () =>
      inFolder(workspace, async (folder) => {
        const database = join(await copyOf(raw, folder), RAW_DATABASE);
        const pages = join(folder, 'pages');
        await mkdir(pages);
        const sample = await measureScript({
          script: 'raw/catch-up.py',
          interpreter: PYTHON,
          values: [database, dataset.datasetId, keys, '1', pages],
          environment: { BASE_URL: baseUrl, API_KEY: apiKey },
          folder,
        });
        await checkRawTables(database, datasets);
        return sample;
      }),
  };
}

const PYTHON = process.env['BENCH_PYTHON'] ?? 'python3';

/** Null where Python is there with all that the script imports, and the program's version of DuckDB. */
export function whyNoScript(): string | null {
  const program = 'import duckdb, requests; print(duckdb.__version__)';
  const { status, stdout } = spawnSync(PYTHON, ['-c', program], { encoding: 'utf8' });
  const own = duckDbVersion();
  if (status === 0 && stdout.trim() === own) return null;
  const found = status === 0 ? `has duckdb ${stdout.trim()}` : 'lacks duckdb or requests, or is not there';
  return `${PYTHON} ${found}. Make an environment (python3 -m venv FOLDER && FOLDER/bin/pip install duckdb==${own} requests), and set BENCH_PYTHON=FOLDER/bin/python.`;
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
