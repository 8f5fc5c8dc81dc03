/** Makes sure that there is space before something is downloaded. */

import { spaceShortage } from '../lib/free-space.ts';
import { FREE_SPACE, onDisk } from '../model/disk-errors.ts';
import { StorageError } from '../model/errors.ts';

/**
 * Requires free space. @throws StorageError `disk_full` unless `neededBytes` can be written below `directory` and `reserveBytes` stay free.
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
