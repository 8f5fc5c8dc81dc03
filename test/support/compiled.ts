/** Where processes of the program that tests start keep what Node has compiled, for the next ones. */

import { join } from 'node:path';
import { projectRoot } from './source-tree.ts';

/** Variables of such a process: loading what is compiled takes a tenth off the CPU time of a start. Installing packages empties the folder. */
export const COMPILED: Readonly<Record<string, string>> = {
  NODE_COMPILE_CACHE: join(projectRoot, 'node_modules/.cache/feed-sync-compiled'),
};
