/** Errors of the disk, with the path and a hint for the operator. */

import { dirname } from 'node:path';
import { freeBytes, systemReason, whyFull } from '../lib/files.ts';
import { formatBytes } from '../lib/units.ts';
import { StorageError } from './errors.ts';

export const FREE_SPACE = 'Free some space, or set dataDir to a larger disk.';

/** Runs an effect on files. @throws StorageError in place of the system's error. */
export async function onDisk<T>(path: string, effect: () => Promise<T>): Promise<T> {
  try {
    return await effect();
  } catch (error) {
    throw await storageError(error, path);
  }
}

async function storageError(error: unknown, path: string): Promise<unknown> {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return error;
  const cause = { cause: error };
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT') {
    // The folder of `path` may be what could not be made.
    const folder = dirname('path' in error ? String(error.path) : path);
    const free = await freeBytes(folder).catch(() => null);
    const rest = free === null ? '' : ` ${formatBytes(free)} are free.`;
    const { fact, hint } = whyFull(folder, { fact: 'The disk is full', hint: FREE_SPACE });
    return new StorageError(`${fact}: ${path} could not be written.${rest}`, { hint, ...cause });
  }
  return new StorageError(`Could not ${String(error.syscall)} ${path}: ${systemReason(error)}.`, {
    hint: 'Check that the folder is there and belongs to the user that runs this.',
    ...cause,
  });
}
