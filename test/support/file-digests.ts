/** What is in a folder, to see that nothing there was changed. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * The digest of every file below `folder`, by its path from there; none where the folder is not there. The shared
 * memory and the empty log that SQLite leaves behind a reader are left out: they contain nothing.
 */
export function filesOf(folder: string): Readonly<Record<string, string>> {
  const files = entriesOf(folder)
    .filter((path) => !path.endsWith('-shm') && !(path.endsWith('-wal') && statSync(path).size === 0))
    .map((path) => [relative(folder, path), createHash('sha256').update(readFileSync(path)).digest('hex')]);
  return Object.fromEntries(files);
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
