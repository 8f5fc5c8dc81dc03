/** Errors of the disk, with the path and a hint for the operator. */

import { dirname } from 'node:path';
import { freeBytes, systemReason, whyFull } from '../lib/files.ts';
import { spaceShortage } from '../lib/free-space.ts';
import { formatBytes } from '../lib/units.ts';
import { StorageError } from '../model/errors.ts';

const FREE_SPACE = 'Free some space, or set dataDir to a larger disk.';

/** Runs an effect on files. @throws StorageError in place of the system's error. */
export async function onDisk<T>(path: string, effect: () => Promise<T>): Promise<T> {
  try {
    return await effect();
  } catch (error) {
    throw await storageError(error, path);
  }
}

/**
 * @throws StorageError `disk_full` unless `neededBytes` can be written below `directory` and `reserveBytes` stay free.
 * `what` names the bytes: `the files of dataset us-tx-travis-parcels`.
 */
export async function requireSpace(
  directory: string,
  neededBytes: number,
  reserveBytes: number,
  what: string,
): Promise<void> {
  const shortage = await onDisk(directory, () =>
    spaceShortage(directory, neededBytes, reserveBytes, `${what} need`),
  );
  if (shortage !== null) throw new StorageError(shortage, { code: 'disk_full', hint: FREE_SPACE });
}

async function storageError(error: unknown, path: string): Promise<unknown> {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return error;
  const cause = { cause: error };
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT') {
    const free = await freeBytes(dirname(path)).catch(() => null);
    const rest = free === null ? '' : ` ${formatBytes(free)} are free.`;
    const { fact, hint } = whyFull(dirname(path), { fact: 'The disk is full', hint: FREE_SPACE });
    return new StorageError(`${fact}: ${path} could not be written.${rest}`, { hint, ...cause });
  }
  return new StorageError(`Could not ${String(error.syscall)} ${path}: ${systemReason(error)}.`, {
    hint: 'Check that the folder is there and belongs to the user that runs this.',
    ...cause,
  });
}
