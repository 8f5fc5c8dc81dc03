/** A mirror as a process leaves it that is killed at an effect: the file and its log, copied at that very effect. */

import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { observeDurableEffects } from '../../src/lib/files.ts';

/** By the point (`before commit`), in order: the folder with the remaining files. The last occurrence of a point counts. */
export async function leftAtEffects(
  mirrorPath: string,
  work: () => Promise<unknown>,
): Promise<ReadonlyMap<string, string>> {
  const left = new Map<string, string>();
  const stop = () => observeDurableEffects(() => {});
  onTestFinished(stop);
  observeDurableEffects((name, timestamp) => {
    const what = `${timestamp} ${name.replace('destination.', '')}`;
    const folder = join(dirname(mirrorPath), `left ${what}`);
    mkdirSync(folder, { recursive: true });
    for (const suffix of ['', '.wal']) {
      if (existsSync(mirrorPath + suffix)) {
        copyFileSync(mirrorPath + suffix, join(folder, `mirror.duckdb${suffix}`));
      }
    }
    left.set(what, folder);
  });
  await work();
  stop();
  return left;
}
