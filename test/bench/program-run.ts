/** One run of the built program, and folders that last no longer than a run. */

import { constants, cp, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sample } from './case.ts';
import type { FeedProcess } from './feed-process.ts';
import { measureScript } from './measured-process.ts';

/** Variables of the program's configuration. */
export type Settings = Readonly<Record<string, string>>;

const BYTES_PER_MEGABYTE = 1_000_000;

/** `feed-sync once` on the data directory `data`, measured from the start of its process to its end. */
export function measureProgram(
  feed: FeedProcess,
  data: string,
  folder: string,
  settings: Settings = {},
): Promise<Sample> {
  return measureScript({
    script: '../../dist/main.js',
    values: ['once'],
    environment: { ...programSettings(feed, data), ...settings },
    folder,
  });
}

/** The same with the size of the mirror, which is a file. */
export async function measureOnce(
  feed: FeedProcess,
  data: string,
  folder: string,
  settings: Settings = {},
): Promise<Sample> {
  const sample = await measureProgram(feed, data, folder, settings);
  return { ...sample, counts: { mirrorMegabytes: await sizeOfMirror(data) } };
}

export function sizeOfMirror(data: string): Promise<number> {
  return megabytesOf(mirrorIn(data));
}

export async function megabytesOf(path: string): Promise<number> {
  return (await stat(path)).size / BYTES_PER_MEGABYTE;
}

/** The settings of every run of the program. */
export function programSettings(feed: FeedProcess, data: string): Settings {
  return {
    FEED_SYNC_BASE_URL: feed.baseUrl,
    FEED_SYNC_API_KEY: feed.apiKey,
    FEED_SYNC_DOWNLOADS_ALLOWED_ORIGINS: feed.filesUrl,
    FEED_SYNC_DATA_DIR: data,
  };
}

export function mirrorIn(data: string): string {
  return join(data, 'mirror.duckdb');
}

/** A folder of one run's own, gone when the run is over. */
export async function inFolder<T>(workspace: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(workspace, 'run-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** On the disk for good: what is still to be written when a run begins would be written at its expense. */
export async function copyOf(source: string, folder: string): Promise<string> {
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
