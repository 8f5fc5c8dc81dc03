/** What a user would write instead: a plain Python script, and a dlt pipeline. Both get the same feed and have to end with the same rows. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { THREE_HUNDRED_DATASETS } from './bootstrap-small.ts';
import { type BenchCase, type Contest, type Goal, type Sample, type Size, WrongResultError } from './case.ts';
import { LARGE_BACKLOG } from './catch-up-large.ts';
import { type Content, compareContents, contentOf } from './content.ts';
import { datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, requestCounts, startFeedProcess } from './feed-process.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import type { Backlog } from './later-versions.ts';
import { measureScript } from './measured-process.ts';
import { mirrored } from './mirrored.ts';
import { copyOf, inFolder, measureOnce, mirrorIn } from './program-run.ts';
import { PYTHON, whyNoPython } from './python.ts';
import { checkMirror } from './table-counts.ts';

interface Peer {
  readonly name: string;
  readonly what: string;
  readonly packages: readonly string[];
  readonly load: string;
  readonly catchUp: string;
  readonly tableOf: (datasetId: string) => string;
}

const PEERS: readonly [Peer, Peer] = [
  {
    name: 'script',
    what: 'a plain Python script, which proves nothing, resumes nothing and loads in no transaction',
    packages: ['duckdb', 'requests'],
    load: 'raw/load.py',
    catchUp: 'raw/catch-up.py',
    tableOf: (datasetId) => datasetId,
  },
  {
    name: 'dlt',
    what: 'a dlt pipeline, which proves nothing, and shows tables of several versions while it loads',
    packages: ['duckdb', 'requests', 'dlt', 'pyarrow'],
    load: 'raw/dlt-load.py',
    catchUp: 'raw/dlt-catch-up.py',
    tableOf: (datasetId) => datasetId.replaceAll('-', '_'),
  },
];

/** `begins`: with everything loaded. */
interface Work {
  readonly name: string;
  readonly what: string;
  readonly recipe: Readonly<Record<Size, Recipe>>;
  readonly begins: 'empty' | 'loaded';
  /** What is published once everything is loaded; of one dataset. */
  readonly backlog?: Readonly<Record<Size, Backlog>>;
  /** Beside the plain script, which is the faster peer. */
  readonly reach: readonly Goal[];
}

const WORKS: readonly Work[] = [
  {
    name: 'load',
    what: 'first start with 2 million polygons',
    recipe: TWO_MILLION_POLYGONS,
    begins: 'empty',
    reach: [{ measure: 'ratio', atMost: 1, moonshot: 0.9 }],
  },
  {
    name: 'catch-up',
    what: 'catching up with 50 versions of 10,000 changed rows on 2 million polygons',
    recipe: TWO_MILLION_POLYGONS,
    begins: 'loaded',
    backlog: LARGE_BACKLOG,
    reach: [{ measure: 'ratio', atMost: 0.9, moonshot: 0.6 }],
  },
  {
    name: 'many',
    what: 'first start with 300 datasets of 500 rows',
    recipe: THREE_HUNDRED_DATASETS,
    begins: 'empty',
    reach: [{ measure: 'ratio', atMost: 0.9, moonshot: 0.7 }],
  },
  {
    name: 'idle',
    what: 'nothing new in 300 datasets',
    recipe: THREE_HUNDRED_DATASETS,
    begins: 'loaded',
    reach: [{ measure: 'seconds', atMost: 0.35, moonshot: 0.25 }],
  },
];

/** Every work beside every peer: `peer-script-load`, … */
export const PEER_CASES: readonly BenchCase[] = WORKS.flatMap((work) =>
  PEERS.map((peer) => ({
    name: `peer-${peer.name}-${work.name}`,
    what: `${work.what}, beside ${peer.what}`,
    group: 'peers' as const,
    reach: peer.name === 'script' ? work.reach : [],
    whyNot: () => whyNoPython(peer.packages),
    validate: (size: Size, workspace: string) => peerContest(peer, work, size, workspace),
  })),
);

/** Beside the plain script; for the check, which has sizes of its own. */
export function scriptCase(name: string, work: Work): BenchCase {
  const [script] = PEERS;
  return {
    name,
    what: `${work.what}, beside ${script.what}`,
    reach: [],
    whyNot: () => whyNoPython(script.packages),
    validate: (size, workspace) => peerContest(script, work, size, workspace),
  };
}

async function peerContest(peer: Peer, work: Work, size: Size, workspace: string): Promise<Contest> {
  const recipe = work.recipe[size];
  const backlog = work.backlog?.[size];
  const datasets = await datasetFiles(recipe);
  const ids = datasets.map(({ datasetId }) => datasetId);
  const { feed, ours, theirs } = await beginning(peer, work, recipe, workspace);
  if (backlog !== undefined) {
    await feed.plan(recipe, backlog);
    await feed.publish(backlog.versions);
  }
  let content: Content | null = null;
  return {
    subject: () =>
      inFolder(workspace, async (folder) => {
        const data = await folderLike(ours, folder);
        await feed.requests();
        const sample = await measureOnce(feed, data, folder);
        await refuseDownloads(work, feed);
        await checkMirror(mirrorIn(data), datasets);
        content = await contentOf(mirrorIn(data), ids, (datasetId) => datasetId.replaceAll('-', '_'));
        return sample;
      }),
    reference: () =>
      inFolder(workspace, async (folder) => {
        const data = await folderLike(theirs, folder);
        const sample =
          backlog === undefined ? await load(peer, feed, data) : await catchUp(peer, feed, data, recipe);
        await refuseDownloads(work, feed);
        if (content === null) throw new WrongResultError('The program has not run before its peer.');
        compareContents(content, await contentOf(databaseIn(data), ids, peer.tableOf));
        return sample;
      }),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** @throws WrongResultError where a side loads again what it had: its rows would be the same. */
async function refuseDownloads({ name, begins }: Work, feed: FeedProcess): Promise<void> {
  const { file = 0 } = await requestCounts(feed);
  if (begins === 'loaded' && file > 0)
    throw new WrongResultError(`${file} files were downloaded in ${name}.`);
}

interface Beginning {
  readonly feed: FeedProcess;
  /** The data directories that runs begin with copies of; null: with empty ones. */
  readonly ours: string | null;
  readonly theirs: string | null;
}

async function beginning(peer: Peer, work: Work, recipe: Recipe, workspace: string): Promise<Beginning> {
  if (work.begins === 'empty') {
    return { feed: await startFeedProcess(recipe, await datasetFiles(recipe)), ours: null, theirs: null };
  }
  const { feed, data } = await mirrored(recipe, workspace);
  const theirs = join(workspace, 'peer');
  await mkdir(theirs);
  await load(peer, feed, theirs);
  return { feed, ours: data, theirs };
}

async function folderLike(source: string | null, folder: string): Promise<string> {
  if (source !== null) return await copyOf(source, folder);
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  return data;
}

function databaseIn(data: string): string {
  return join(data, 'raw.duckdb');
}

function load(peer: Peer, feed: FeedProcess, data: string): Promise<Sample> {
  return runPeer(peer.load, feed, data, []);
}

function catchUp(peer: Peer, feed: FeedProcess, data: string, recipe: Recipe): Promise<Sample> {
  const [dataset] = generateDatasets(recipe);
  if (dataset === undefined) throw new Error('the recipe has no dataset');
  const { keyColumns } = dataset.initial().schema;
  return runPeer(peer.catchUp, feed, data, [dataset.datasetId, keyColumns.join(','), '1']);
}

async function runPeer(
  script: string,
  { baseUrl, apiKey }: FeedProcess,
  data: string,
  values: readonly string[],
): Promise<Sample> {
  const fetched = join(data, 'fetched');
  await mkdir(fetched, { recursive: true });
  return await measureScript({
    script,
    interpreter: PYTHON,
    values: [databaseIn(data), ...values, fetched],
    environment: {
      BASE_URL: baseUrl,
      API_KEY: apiKey,
      RUNTIME__DLTHUB_TELEMETRY: 'false',
      PYTHONDONTWRITEBYTECODE: '1',
    },
    folder: data,
  });
}
