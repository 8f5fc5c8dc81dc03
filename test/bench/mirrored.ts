/** A feed beside a mirror that has the first version of everything: what cases begin with that are about later versions. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type DatasetFiles, datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, startFeedProcess } from './feed-process.ts';
import { measureOnce } from './program-run.ts';

export interface Mirrored {
  readonly feed: FeedProcess;
  readonly datasets: readonly DatasetFiles[];
  /** The data directory. */
  readonly data: string;
}

export async function mirrored(recipe: Recipe, workspace: string): Promise<Mirrored> {
  const datasets = await datasetFiles(recipe);
  const feed = await startFeedProcess(recipe, datasets);
  const data = join(workspace, 'mirrored');
  await mkdir(data, { mode: 0o700 });
  await measureOnce(feed, data, workspace);
  return { feed, datasets, data };
}
