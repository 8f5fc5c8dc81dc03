/** One run of the built program, and folders that last no longer than a run. */

import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sample } from './case.ts';
import type { FeedProcess } from './feed-process.ts';
import { measureScript } from './measured-process.ts';

/** `feed-sync once` on the data directory `data`, measured from the start of its process to its end. */
export function measureOnce(feed: FeedProcess, data: string, folder: string): Promise<Sample> {
  return measureScript({
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
