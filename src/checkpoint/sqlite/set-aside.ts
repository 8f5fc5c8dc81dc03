/**
 * A damaged file is moved out of the way, never deleted: a person may want to look at it. What it held is built anew
 * from the service and the mirror.
 */

import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { renameFile } from '../../lib/files.ts';
import { StorageError } from '../../model/errors.ts';
import { MAX_CORRUPT_COPIES } from './limits.ts';
import { tolerating } from './trouble.ts';

/**
 * The path that the damaged file has now. Its log and the index of that are there only while another process reads
 * it. The database goes first: where the process ends before its log has followed, SQLite discards the log, because
 * it stands beside a file that is empty.
 * @throws StorageError when `MAX_CORRUPT_COPIES` were set aside before.
 */
export async function setAside(path: string, now: Date): Promise<string> {
  const earlier = await corruptCopies(path);
  if (earlier.length >= MAX_CORRUPT_COPIES) {
    throw new StorageError(
      `The checkpoint ${path} is damaged again; ${earlier.length} damaged ones were set aside before it: ${earlier.join(', ')}.`,
      { hint: `Check the disk of ${dirname(path)}. Then remove these files and start again.` },
    );
  }
  const aside = `${path}.corrupt-${now.toISOString().replaceAll(/[-:]/g, '')}`;
  await renameFile('checkpoint.set-aside', path, aside);
  await tolerating('ENOENT', renameFile('checkpoint.set-aside-log', `${path}-wal`, `${aside}-wal`));
  await tolerating('ENOENT', renameFile('checkpoint.set-aside-log-index', `${path}-shm`, `${aside}-shm`));
  return aside;
}

async function corruptCopies(path: string): Promise<readonly string[]> {
  const prefix = `${basename(path)}.corrupt-`;
  const names = await readdir(dirname(path));
  return names
    .filter((name) => name.startsWith(prefix) && !/-(wal|shm)$/.test(name))
    .sort()
    .map((name) => join(dirname(path), name));
}
