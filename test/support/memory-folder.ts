/** Where tests that wait for no disk have their files. */

import { existsSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

const MEMORY = '/dev/shm';

/**
 * Returns a folder in memory, or the one for temporary files where less than `freeBytes` of memory are free for files. What a process
 * that is killed has written is there in either case.
 */
export function memoryFolder(freeBytes: number): string {
  if (!existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > freeBytes ? MEMORY : tmpdir();
}
