/** The process that runs one script of the program after another. */

import { writeSync } from 'node:fs';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { END_OF_SCRIPT } from './warm-script.ts';

interface Asked {
  readonly script: string;
  readonly args: readonly string[];
}

const OUTPUT = 1;
let run = 0;

process.on('message', async ({ script, args }: Asked) => {
  process.argv = [process.execPath, script, ...args];
  run += 1;
  // The script runs while it is loaded; with another address it is loaded again, and what it imports is not.
  await import(`${pathToFileURL(script).href}?run=${run}`);
  writeSync(OUTPUT, END_OF_SCRIPT);
});
process.on('disconnect', () => process.exit());
