/** Where the real datasets are: the one place that knows of their folder, which is not part of the project. */

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const DEFAULT_DIRECTORY = '../shared/data';
const checkout = resolve(import.meta.dirname, '../..');

/**
 * The folder that REAL_DATA names, or else `../shared/data` beside the checkout; null where it is not
 * there, after saying so: a test that needs it is then skipped.
 */
export function realDataDirectory(): string | null {
  const { REAL_DATA: named } = process.env;
  const directory = resolve(checkout, named ?? DEFAULT_DIRECTORY);
  if (existsSync(directory)) return directory;
  process.stderr.write(
    `Tests of the real datasets are skipped: there is no folder ${directory}. ` +
      'Name one in REAL_DATA to run them.\n',
  );
  return null;
}
