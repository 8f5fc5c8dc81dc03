/**
 * Opens the mirror named by its argument again and again, read-only, for as long as it lives, and prints a line of JSON
 * for each time it got in: what it saw of every dataset, and when it was refused before. Where the file is locked or not there
 * yet, it tries again.
 */

import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExactMirror, openExactly } from './exact-mirror.ts';
import type { Opening, Span } from './mirror-reader.ts';
import { seenIn } from './table-digest.ts';

/** Leaves the file to the writer for longer than it keeps it. */
const PAUSE_MS = 25;
const RETRY_MS = 10;

const [, , mirrorPath = ''] = process.argv;

for (;;) {
  const refused: Span[] = [];
  let fromMs = nowMs();
  let mirror = await opened();
  while (mirror === null) {
    refused.push({ fromMs, toMs: nowMs() });
    await sleep(RETRY_MS);
    fromMs = nowMs();
    mirror = await opened();
  }
  const opening: Opening = { refused, sight: await seenIn(mirror) };
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

/** By the clock of the machine as it was when this process began: nobody sets it meanwhile. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
