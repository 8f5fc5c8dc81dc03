/** The new file while it is made, beside the mirror, so that it can be renamed over it; and what is left of one. */

import { isThere, remove } from '../../../lib/files.ts';
import { systemReason } from '../../../lib/system-code.ts';
import { StorageError } from '../../../model/errors.ts';

const UNFINISHED_SUFFIX = '.compacting';
/** The file, and what DuckDB puts beside one. */
const LEFT_SUFFIXES = ['', '.wal', '.wal.checkpoint', '.wal.recovery'];

export function unfinishedPath(mirrorPath: string): string {
  return `${mirrorPath}${UNFINISHED_SUFFIX}`;
}

/** Removes what a process that was ended has left. @throws StorageError */
export async function clearUnfinished(mirrorPath: string): Promise<void> {
  for (const suffix of LEFT_SUFFIXES) {
    const path = unfinishedPath(mirrorPath) + suffix;
    try {
      if (await isThere(path)) await remove('destination.compact-clear', path);
    } catch (cause) {
      throw new StorageError(
        `${path}, left by feed-sync compact, cannot be removed: ${systemReason(cause)}.`,
        {
          hint: 'Make its folder writable for this user, or remove it by hand: the mirror does not need it.',
          cause,
        },
      );
    }
  }
}
