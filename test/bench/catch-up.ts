/** The contest of catching up: a mirror of the first version, and changes that lead to the newest. */

import { constants, cp, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { bootstrapRaw } from './bootstrap.ts';
import type { Contest, Sample } from './case.ts';
import { datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, startFeedProcess } from './feed-process.ts';
import { type Backlog, laterVersions, writeNetChange } from './later-versions.ts';
import { measureScript } from './measured-process.ts';
import { inFolder, measureOnce } from './program-run.ts';
import { checkMirror, checkRawTables, checkVersion } from './table-counts.ts';

/** `recipe` has one dataset. */
export async function catchUpContest(recipe: Recipe, backlog: Backlog, workspace: string): Promise<Contest> {
  const datasets = await datasetFiles(recipe);
  const feed = await startFeedProcess(recipe, datasets);
  const mirrored = join(workspace, 'mirrored');
  await mkdir(mirrored, { mode: 0o700 });
  await measureOnce(feed, mirrored, workspace);
  const raw = join(workspace, 'raw');
  await mkdir(raw);
  await bootstrapRaw(join(raw, 'raw.duckdb'), datasets, workspace);
  const versions = laterVersions(recipe, backlog);
  const lines = join(workspace, 'net.ndjson');
  await writeNetChange(versions, lines);
  await feed.publish(recipe, backlog);
  const keys = versions[0]?.schema.keyColumns.join(', ') ?? '';
  const tables = datasets.map(({ datasetId }) => datasetId);
  return {
    subject: () =>
      inFolder(workspace, async (folder) => {
        const sample = await catchUp(feed, await copyOf(mirrored, folder), folder);
        await checkMirror(join(folder, 'data', 'mirror.duckdb'), datasets);
        await checkVersion(join(folder, 'data', 'mirror.duckdb'), backlog.versions + 1);
        return sample;
      }),
    reference: () =>
      inFolder(workspace, async (folder) => {
        const database = join(await copyOf(raw, folder), 'raw.duckdb');
        const values = [database, tables[0] ?? '', lines, keys];
        const sample = await measureScript({ script: 'raw/catch-up.mjs', values, folder });
        await checkRawTables(database, datasets);
        return sample;
      }),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

async function catchUp(feed: FeedProcess, data: string, folder: string): Promise<Sample> {
  await feed.requestCounts();
  const sample = await measureOnce(feed, data, folder);
  const counts = await feed.requestCounts();
  const requests = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return { ...sample, counts: { requests, changesRequests: counts['changes'] ?? 0 } };
}

/** On the disk for good: what is still to be written when a run begins would be written at its expense. */
async function copyOf(source: string, folder: string): Promise<string> {
  const copy = join(folder, 'data');
  await cp(source, copy, { recursive: true, mode: constants.COPYFILE_FICLONE });
  for (const entry of await readdir(copy, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const file = await open(join(entry.parentPath, entry.name), 'r+');
    await file.sync();
    await file.close();
  }
  return copy;
}
