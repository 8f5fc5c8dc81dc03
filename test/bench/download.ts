/** One large file from loopback onto the disk, and its digest: the program's own download beside curl and node:crypto. */

import { createCipheriv, createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'rolldown';
import type { DistanceSettings } from '../../fixtures/feed/settings.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { type BenchCase, type Contest, type Sample, type Size, WrongResultError } from './case.ts';
import { type DatasetFiles, keptFiles } from './dataset-files.ts';
import { type FeedProcess, requestCounts, startFeedProcess } from './feed-process.ts';
import { polygons } from './large-dataset.ts';
import { measureScript } from './measured-process.ts';
import { inFolder, programSettings } from './program-run.ts';

const BYTES: Readonly<Record<Size, number>> = { full: 1_000_000_000, quick: 1_000_000 };

/** A throughput of 0.8 of curl's is 1.25 times its seconds. */
export const download: BenchCase = {
  name: 'download',
  what: '1 GB in one file from loopback, with its sha256, beside curl and then node:crypto',
  reach: [{ measure: 'ratio', atMost: 1 / 0.8, moonshot: 1 / 1.2 }],
  validate: (size, workspace) => downloadContest(BYTES[size], workspace),
};

/** 50 ms for a round trip, and 200 Mbit/s for each connection. */
const FAR_AWAY: DistanceSettings = { roundTripMs: 50, bytesPerSecond: 25_000_000 };

/** Three times the throughput of one stream is a third of its seconds. */
export const downloadFar: BenchCase = {
  name: 'download-far',
  what: '1 GB in one file from a service 50 ms away with 200 Mbit/s for each connection, beside curl without a digest',
  reach: [{ measure: 'ratio', atMost: 1 / 3 }],
  fewRuns: 3,
  validate: (size, workspace) => downloadContest(BYTES[size], workspace, FAR_AWAY),
};

/** One file of so many bytes. */
export async function downloadContest(
  bytes: number,
  workspace: string,
  distance: DistanceSettings | null = null,
): Promise<Contest> {
  const recipe = polygons(1);
  const datasetId = generateDatasets(recipe)[0]?.datasetId ?? '';
  const datasets = await keptFiles(`noise-${bytes}`, (folder) => writeNoise(datasetId, bytes, folder));
  const sha256 = datasets[0]?.files[0]?.sha256 ?? '';
  const driver = await bundledDriver(workspace);
  const feed = await startFeedProcess(recipe, datasets);
  if (distance !== null) await feed.setDistance(distance);
  const inOwnFolder = (work: (folder: string, target: string) => Promise<Sample>): Promise<Sample> =>
    inFolder(workspace, async (folder) => {
      const target = join(folder, 'downloaded');
      await mkdir(target);
      await feed.requests();
      const sample = await work(folder, target);
      await checkFile(target, sha256);
      const { file = 0 } = await requestCounts(feed);
      return { ...sample, counts: { fileRequests: file } };
    });
  return {
    subject: () =>
      inOwnFolder((folder, target) =>
        measureScript({
          script: driver,
          values: [target],
          environment: programSettings(feed, folder),
          folder,
        }),
      ),
    reference: () =>
      inOwnFolder(async (folder, target) => {
        // From far away the time of one stream is what counts, and no digest that could be computed meanwhile.
        const values = [await linkOf(feed), join(target, 'file'), ...(distance === null ? ['digest'] : [])];
        return measureScript({ script: 'raw/download.mjs', values, folder });
      }),
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** The driver and the program's client in few files, made as dist is. @returns its address. */
async function bundledDriver(workspace: string): Promise<string> {
  const folder = join(workspace, 'driver');
  const sourceOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  await build({
    input: {
      driver: sourceOf('download-child.ts'),
      'digest-worker': sourceOf('../../src/feed/download/digest-worker.ts'),
    },
    platform: 'node',
    output: { dir: folder, format: 'esm' },
  });
  return pathToFileURL(join(folder, 'driver.js')).href;
}

/** Bytes that cannot be compressed, the same each time. */
async function writeNoise(
  datasetId: string,
  bytes: number,
  folder: string,
): Promise<readonly DatasetFiles[]> {
  const path = 'noise';
  const hash = createHash('sha256');
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 1), Buffer.alloc(16));
  const zeros = Buffer.alloc(1_000_000);
  const file = await open(join(folder, path), 'w');
  for (let written = 0; written < bytes; written += zeros.length) {
    const part = cipher.update(zeros.subarray(0, Math.min(zeros.length, bytes - written)));
    hash.update(part);
    await file.writeFile(part);
  }
  await file.close();
  return [{ datasetId, rowCount: 1, files: [{ path, bytes, rowCount: 1, sha256: hash.digest('hex') }] }];
}

/** As the manifest has it by now: links expire. */
async function linkOf({ baseUrl, apiKey }: FeedProcess): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${baseUrl}/v1/subscriptions/sub_bench/manifest`, { headers });
  const { datasets } = (await answer.json()) as { datasets: { files: { url: string }[] }[] };
  const url = datasets[0]?.files[0]?.url;
  if (url === undefined) throw new WrongResultError('The feed has no link to the file.');
  return new URL(url, baseUrl).href;
}

/** @throws WrongResultError unless the folder contains the whole file and nothing else. */
async function checkFile(folder: string, sha256: string): Promise<void> {
  const names = await readdir(folder);
  const hash = createHash('sha256');
  for (const name of names) for await (const part of createReadStream(join(folder, name))) hash.update(part);
  if (names.length === 1 && hash.digest('hex') === sha256) return;
  throw new WrongResultError(`The folder of the download contains ${names.join(', ')}, and not the file.`);
}
