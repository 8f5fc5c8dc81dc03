/**
 * Opens the mirror named by its argument again and again, read-only, for as long as it lives, and prints a line of JSON
 * for each time it got in: what it saw of every dataset. Where the file is locked or not there yet, it tries again.
 */

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { openExactly } from './exact-mirror.ts';
import { seenIn } from './table-digest.ts';

/** Leaves the file to the writer for longer than it keeps it. */
const PAUSE_MS = 25;

const [, , mirrorPath = ''] = process.argv;

for (;;) {
  const mirror = await openExactly(mirrorPath).catch((error: unknown) => {
    if (/Conflicting lock is held|does not exist|Cannot open file/.test(String(error))) return null;
    throw error;
  });
  if (mirror !== null) {
    const seen = await seenIn(mirror);
    mirror.close();
    process.stdout.write(`${JSON.stringify(seen)}\n`);
  }
  await sleep(PAUSE_MS);
}
