/** Looks at folders and files, and changes nothing about them: no file is made to see whether one could be. */

import { constants } from 'node:fs';
import { access, readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../../lib/files.ts';

export interface FolderSeen {
  /** The folder that was asked about. */
  readonly path: string;
  /** The folder itself, or the nearest above it that is there. */
  readonly nearest: string;
  /** What is at `nearest`, which may also be a file in the way. */
  readonly isFolder: boolean;
  readonly mode: number;
  readonly ownerUid: number;
  /** Why this user may not make files in it, as the system's code (`EACCES`, `EROFS`); null where it may. */
  readonly refusal: string | null;
  /** Bytes that this user may still write. */
  readonly freeBytes: number;
}

const MODE_BITS = 0o777;

/** @throws the system's error where not even the root can be looked at. */
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

/** What is missing may be made; what cannot be looked at, or is a file, is in the way. */
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
  /** When its content was last written. */
  readonly changedAt: Date;
}

/** Null where there is none, or it cannot be looked at. */
export async function seeFile(path: string): Promise<FileSeen | null> {
  try {
    const { mode, size, mtime } = await stat(path);
    return { path, mode: mode & MODE_BITS, bytes: size, changedAt: mtime };
  } catch {
    return null;
  }
}

const GROUP_AND_OTHERS = 0o077;

/** Whether group or others may read or change it. */
export function readableByOthers({ mode }: Pick<FileSeen, 'mode'>): boolean {
  return (mode & GROUP_AND_OTHERS) !== 0;
}

/** Names in the folder of `path` that begin with its name and `infix`, as paths, sorted; none where it cannot be read. */
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
  /** False where it holds more than was looked at. */
  readonly isWhole: boolean;
}

const MAX_ENTRIES = 20_000;

/** What lies in a folder and below it, nothing where there is no folder; null where it cannot be looked at. */
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
