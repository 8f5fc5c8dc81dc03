/** Who else has the mirror open, as far as the system tells: a commit waits for them. */

import { statSync } from 'node:fs';
import type { Context } from './context.ts';
import { type FileLock, locksOn } from './doctor/file-locks.ts';

/** Their process ids, without our own and that of the running instance, whose work it is to have it open at times. */
export function mirrorHolders(
  path: string,
  { identity, readFile }: Pick<Context, 'identity' | 'readFile'>,
  instancePid: number | null,
): readonly number[] {
  const pids = mirrorLocks(path, readFile).map(({ pid }) => pid);
  return pids.filter((pid) => pid !== identity.pid && pid !== instancePid);
}

export function mirrorLocks(path: string, readFile: Context['readFile']): readonly FileLock[] {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file === undefined ? [] : locksOn(file, readFile('/proc/locks'));
  } catch {
    // Elsewhere than on Linux the system does not tell; opening the mirror will still name a writer.
    return [];
  }
}
