/** Examines folders and files without changing them: no file is created to test whether one could be. */

import { constants } from 'node:fs';
import { access, readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../../lib/files.ts';

export interface FolderSeen {
  /** The requested folder. */
  readonly path: string;
  /** The folder itself, or its nearest existing parent. */
  readonly nearest: string;
  /** Whether a folder is at `nearest`; a file there is an obstacle. */
  readonly isFolder: boolean;
  readonly mode: number;
  readonly ownerUid: number;
  /** Why this user may not create files in the folder, as the system's code (`EACCES`, `EROFS`); null where it may. */
  readonly refusal: string | null;
  /** Bytes that this user may still write. */
  readonly freeBytes: number;
}

const MODE_BITS = 0o777;

/** @throws the system's error where not even the root can be examined. */
export async function seeFolder(path: string): Promise<FolderSeen> {
  const nearest = await nearestOf(path);
  const found = await stat(nearest);
  const { bavail, bsize } = await statfs(nearest);
  const needed = constants.R_OK | constants.W_OK | constants.X_OK;
  const refusal = await access(nearest, needed).then(
    () => null,
    (error: unknown) => systemCode(error) ?? String(error),
  );
  return {
    path,
    nearest,
    isFolder: found.isDirectory(),
    mode: found.mode & MODE_BITS,
    ownerUid: found.uid,
    refusal,
    freeBytes: bavail * bsize,
  };
}

/** A missing folder can be created; a file, or a folder that cannot be examined, is an obstacle. */
async function nearestOf(path: string): Promise<string> {
  try {
    await stat(path);
    return path;
  } catch (error) {
    const mayBeAbove = ['ENOENT', 'ENOTDIR', 'EACCES'].includes(systemCode(error) ?? '');
    if (!mayBeAbove || dirname(path) === path) throw error;
    return nearestOf(dirname(path));
  }
}

export interface FileSeen {
  readonly path: string;
  readonly mode: number;
  readonly bytes: number;
  /** When the content was last written. */
  readonly changedAt: Date;
}

/** Null where there is no file, or it cannot be examined. */
export async function seeFile(path: string): Promise<FileSeen | null> {
  try {
    const { mode, size, mtime } = await stat(path);
    return { path, mode: mode & MODE_BITS, bytes: size, changedAt: mtime };
  } catch {
    return null;
  }
}

const GROUP_AND_OTHERS = 0o077;

/** Whether group or others may read or change the file. */
export function readableByOthers({ mode }: Pick<FileSeen, 'mode'>): boolean {
  return (mode & GROUP_AND_OTHERS) !== 0;
}

/** Returns the sorted paths beside `path` whose names begin with its name and `infix`; none where the folder is unreadable. */
export async function besides(path: string, infix: string): Promise<readonly string[]> {
  const folder = dirname(path);
  const prefix = `${path}${infix}`;
  const names = await readdir(folder).catch(() => []);
  return names
    .map((name) => join(folder, name))
    .filter((candidate) => candidate.startsWith(prefix))
    .sort();
}

interface FolderSize {
  readonly files: number;
  readonly bytes: number;
  /** False where the folder contains more than was counted. */
  readonly isWhole: boolean;
}

const MAX_ENTRIES = 20_000;

/** Returns the size of everything below a folder, 0 where there is no folder; null where the folder cannot be examined. */
export async function sizeOf(folder: string): Promise<FolderSize | null> {
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).slice(0, MAX_ENTRIES);
    let bytes = 0;
    for (const { parentPath, name } of files) bytes += (await seeFile(join(parentPath, name)))?.bytes ?? 0;
    return { files: files.length, bytes, isWhole: files.length < MAX_ENTRIES };
  } catch (error) {
    const isMissing = ['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '');
    return isMissing ? { files: 0, bytes: 0, isWhole: true } : null;
  }
}
