/**
 * Opens the mirror named by its argument again and again, read-only, for as long as it lives, and prints a line of JSON
 * for each time it got in: what it saw of every dataset, and from when to when it was refused. Where the file is locked or
 * not there yet, it tries again.
 */

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExactMirror, openExactly } from './exact-mirror.ts';
import type { Opening } from './mirror-reader.ts';
import { seenIn } from './table-digest.ts';

/** Leaves the file to the writer for longer than it keeps it. */
const PAUSE_MS = 25;
const RETRY_MS = 10;

const [, , mirrorPath = ''] = process.argv;

for (;;) {
  const fromMs = Date.now();
  let mirror = await opened();
  while (mirror === null) {
    await sleep(RETRY_MS);
    mirror = await opened();
  }
  const waited = { fromMs, toMs: Date.now() };
  const opening: Opening = { waited, sight: await seenIn(mirror) };
  mirror.close();
  process.stdout.write(`${JSON.stringify(opening)}\n`);
  await sleep(PAUSE_MS);
}

/** Null: not now. */
function opened(): Promise<ExactMirror | null> {
  return openExactly(mirrorPath).catch((error: unknown) => {
    if (/Conflicting lock is held|does not exist|Cannot open file/.test(String(error))) return null;
    throw error;
  });
}
