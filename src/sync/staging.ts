/**
 * The staging folder: downloads on their way into the destination. A folder per dataset, named by a hash of its id,
 * because an id may hold anything. What is in it may be lost at any time; it is only work saved.
 */

import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory, remove } from '../lib/files.ts';

export interface Staging {
  /** The folder of a dataset, made if it is missing. */
  folderOf(datasetId: string): Promise<string>;
  /** The dataset's files are committed or worthless. */
  discard(datasetId: string): Promise<void>;
  /** Removes what belongs to no dataset of the list: downloads begun for something no longer wanted. */
  keepOnly(datasetIds: Iterable<string>): Promise<void>;
}

export function openStaging(directory: string): Staging {
  const pathOf = (datasetId: string): string => join(directory, folderName(datasetId));
  return {
    async folderOf(datasetId) {
      const path = pathOf(datasetId);
      await makeDirectory('sync.make-staging-folder', path);
      return path;
    },
    async discard(datasetId) {
      await remove('sync.discard-staged', pathOf(datasetId));
    },
    async keepOnly(datasetIds) {
      await makeDirectory('sync.make-staging', directory);
      const wanted = new Set(Array.from(datasetIds, folderName));
      for (const name of await readdir(directory)) {
        if (!wanted.has(name)) await remove('sync.discard-unwanted', join(directory, name));
      }
    },
  };
}

function folderName(datasetId: string): string {
  return createHash('sha256').update(datasetId).digest('hex').slice(0, 32);
}
