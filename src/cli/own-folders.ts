/** The folders that feed-sync makes and removes in its data directory. */

import { join } from 'node:path';
import { stagingFolder, temporaryDirectories } from '../staging/engine/engine.ts';

/** Returns the folder of `verify --deep`. */
export function comparisonFolder(dataDirectory: string): string {
  return join(dataDirectory, 'verify');
}

/** Returns the folders whose content is removed. */
export function ownFolders(dataDirectory: string): readonly string[] {
  return [
    stagingFolder(dataDirectory),
    comparisonFolder(dataDirectory),
    ...temporaryDirectories(dataDirectory),
  ];
}
