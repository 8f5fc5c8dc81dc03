/** F58 damage to any file of an installation has no effect, or is found by `verify --deep` and mended by one `once`. */

import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { memoryFolder } from '../support/memory-folder.ts';
import { SEED } from '../support/seed.ts';
import { type Fault, FILES, type File, faultOf, KINDS, type Kind } from './fault.ts';
import { type Installation, installationIn } from './installation.ts';
import { Player } from './player.ts';

const FAULTS = Number(process.env['FAULTS'] ?? 120);
const NEEDED_BYTES = 2e9;

/**
 * What these kinds do to a mirror or a checkpoint depends on where its rows lie, which is another place in each run. They are left to
 * `npm run faults`.
 */
const DEPENDENT: readonly Kind[] = ['swapped', 'misplaced', 'stale'];
const INDEPENDENT = KINDS.filter((kind) => !DEPENDENT.includes(kind));

const files = Object.keys(FILES) as readonly File[];
const faults: Fault[] = [];
for (let seed = SEED; faults.length < FAULTS; seed += 1) {
  const fault = faultOf(seed);
  const isAlike = fault.file !== 'mirror' && fault.file !== 'checkpoint';
  if (isAlike || INDEPENDENT.includes(fault.kind)) faults.push(fault);
}

let folder: string;
let installation: Installation;
let player: Player;

beforeAll(async () => {
  folder = mkdtempSync(join(memoryFolder(NEEDED_BYTES), 'feed-sync-faults-'));
  installation = await installationIn(folder);
  player = new Player(installation, folder);
});

afterAll(async () => {
  await player.end();
  await installation.county.feed.close();
  rmSync(folder, { recursive: true });
});

it.each(files)('F58 finds and mends each damage to a file: %s', async (file) => {
  const wrong: string[] = [];
  let judged = 0;
  for (const fault of faults.filter((one) => one.file === file)) {
    const { outcome, done, faults: found } = await player.play(fault, null);
    if (outcome !== 'unchanged') judged += 1;
    if (outcome !== 'wrong') continue;
    const command = `npm run faults -- --seed ${fault.seed} --count 1`;
    wrong.push(`${command}: ${fault.state}, ${done}: ${found.join('; ')}`);
  }
  expect(wrong).toEqual([]);
  expect(judged).toBeGreaterThan(0);
});
