/** The files that this process has open: for tests that none is left open. */

import { readdirSync, readlinkSync } from 'node:fs';

/** The paths of those files below `directory`. */
export function openFilesIn(directory: string): readonly string[] {
  const links = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      // It was the one of this reading itself, and is closed.
      return '';
    }
  });
  return links.filter((path) => path.startsWith(directory));
}
