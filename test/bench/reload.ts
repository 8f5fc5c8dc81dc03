/**
 * Reloads of a table of which few rows differ, with history: in place, and what they replace goes to the undo log. Beside them stands
 * the same program without history, which swaps the table.
 */

import { DuckDBInstance } from '@duckdb/node-api';
import type { BenchCase, Contest, Sample, Size } from './case.ts';
import { alteredFiles, type Recipe } from './dataset-files.ts';
import type { FeedProcess } from './feed-process.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import { LockWatch } from './lock-watch.ts';
import { startScript } from './measured-process.ts';
import { mirrored } from './mirrored.ts';
import { copyOf, inFolder, mirrorIn, programSettings, type Settings, sizeOfMirror } from './program-run.ts';
import { checkMirror } from './table-counts.ts';

const WITH_HISTORY: Settings = { FEED_SYNC_HISTORY_DATASETS: '*' };

export const reloadFew: BenchCase = {
  name: 'reload-few',
  what: 'a reload of 2 million polygons of which 1 % differs, with history, in place',
  reach: [
    { measure: 'ratio', atMost: 0.9 },
    { measure: 'lockMsRatio', atMost: 1 },
  ],
  fewRuns: 3,
  validate: (size, workspace) =>
    reloadContest(TWO_MILLION_POLYGONS[size], { oneIn: 100, reloads: 1 }, workspace),
};

const RELOADS: Readonly<Record<Size, number>> = { full: 20, quick: 3 };

export const reloadGrowth: BenchCase = {
  name: 'reload-growth',
  what: '20 reloads one after another of 2 million polygons, of which 5 % differ each time, with history',
  reach: [],
  fewRuns: 1,
  validate: (size, workspace) =>
    reloadContest(TWO_MILLION_POLYGONS[size], { oneIn: 20, reloads: RELOADS[size] }, workspace),
};

interface Reloads {
  /** One row in so many differs. */
  readonly oneIn: number;
  readonly reloads: number;
}

/** Every run begins with a copy of the same mirror, and takes versions of its own. */
export async function reloadContest(
  recipe: Recipe,
  { oneIn, reloads }: Reloads,
  workspace: string,
): Promise<Contest> {
  const { feed, datasets, data } = await mirrored(recipe, workspace);
  const altered = await alteredFiles(recipe, oneIn);
  let reloaded = 0;
  const run = (settings: Settings) => (): Promise<Sample> =>
    inFolder(workspace, async (folder) => {
      const copy = await copyOf(data, folder);
      const before = await sizeOfMirror(copy);
      const samples: Sample[] = [];
      // The mirror has the first content, whatever the runs before have published.
      if (reloaded % 2 === 1) await feed.publishFiles(datasets);
      reloaded -= reloaded % 2;
      while (samples.length < reloads) {
        reloaded += 1;
        await feed.publishFiles(reloaded % 2 === 1 ? altered : datasets);
        samples.push(await reload(feed, copy, folder, settings));
      }
      await checkMirror(mirrorIn(copy), datasets);
      return together(samples, before, await logOf(mirrorIn(copy)));
    });
  return {
    subject: run(WITH_HISTORY),
    reference: run({}),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

async function reload(feed: FeedProcess, data: string, folder: string, settings: Settings): Promise<Sample> {
  const started = startScript({
    script: '../../dist/main.js',
    values: ['once'],
    environment: { ...programSettings(feed, data), ...settings },
    folder,
  });
  using locks = new LockWatch(started.pid, mirrorIn(data));
  const sample = await started.ended;
  const { observed } = locks.take();
  const lockMs = observed.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);
  return { ...sample, counts: { lockMs, mirrorMegabytes: await sizeOfMirror(data) } };
}

/** Times and peaks of the worst reload beside those of a usual one would say nothing: all are summed, the largest peak counts. */
function together(
  samples: readonly Sample[],
  before: number,
  log: { readonly entries: number; readonly megabytes: number },
): Sample {
  const sum = (of: (sample: Sample) => number): number =>
    samples.reduce((total, sample) => total + of(sample), 0) / samples.length;
  const megabytes = samples.map(({ counts }) => counts['mirrorMegabytes'] ?? Number.NaN);
  return {
    seconds: sum(({ seconds }) => seconds),
    cpuSeconds: sum(({ cpuSeconds }) => cpuSeconds),
    peakMegabytes: Math.max(...samples.map(({ peakMegabytes }) => peakMegabytes)),
    counts: {
      lockMs: sum(({ counts }) => counts['lockMs'] ?? Number.NaN),
      firstMirrorMegabytes: before,
      mirrorMegabytes: megabytes.at(-1) ?? Number.NaN,
      logEntries: log.entries,
      logMegabytes: log.megabytes,
    },
    repetitions: { mirrorMegabytes: megabytes },
  };
}

/** The entries of all undo logs, and the blocks of the file that they take. */
async function logOf(database: string): Promise<{ readonly entries: number; readonly megabytes: number }> {
  const instance = await DuckDBInstance.create(database, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  const rows = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJS();
  let [entries, megabytes] = [0, 0];
  for (const [name, count] of await rows('SELECT log_name, row_count::INTEGER FROM feed_sync.history_logs')) {
    const [[blocks] = []] = await rows(`SELECT count(DISTINCT block_id)::INTEGER
      FROM pragma_storage_info('history."${name}"') WHERE persistent`);
    entries += Number(count);
    megabytes += (Number(blocks) * BLOCK_BYTES) / 1_000_000;
  }
  connection.closeSync();
  instance.closeSync();
  return { entries, megabytes };
}

const BLOCK_BYTES = 262_144;
