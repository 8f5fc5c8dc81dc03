/** What this process holds open: for tests that nothing is left so. */

import { readdirSync, readlinkSync } from 'node:fs';

/** The paths of those files below `directory`. */
export function openFilesIn(directory: string): readonly string[] {
  const links = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      // It was that of this very look, and is closed.
      return '';
    }
  });
  return links.filter((path) => path.startsWith(directory));
}
