/**
 * `npm run faults -- --seed 1 --count 100`: damages the files of an installation as disks do, one place after another, and judges
 * the result of each. The seed of the nth fault is the first seed and n. With `--results` a run goes on where the ones before have
 * stopped, and prints the sum of all.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Command } from 'commander';
import { memoryFolder } from '../support/memory-folder.ts';
import { noteResult, readResults, testedCommit } from '../support/results-file.ts';
import { stopOnSignal } from '../support/stop-on-signal.ts';
import { faultOf } from './fault.ts';
import { installationIn } from './installation.ts';
import { Player } from './player.ts';
import { type Result, tableOf, verdictOf } from './results.ts';

const { seed, count, keep, results } = new Command('faults')
  .description('Damages the files of an installation, one place after another.')
  .option('--seed <number>', 'of the first fault', Number, 1)
  .option('--count <number>', 'of faults', Number, 100)
  .option('--keep <folder>', 'where damaged installations are kept of which something was wrong')
  .option('--results <file>', 'takes a line for each fault; faults that it has are not tried again')
  .parse()
  .opts<{ seed: number; count: number; keep?: string; results?: string }>();

/** More than the installations take that are there at one time. */
const FREE_BYTES = 2e9;

const commit = testedCommit();
// No fault is a loss of power, so nothing need wait for a disk.
process.env['TMPDIR'] ??= memoryFolder(FREE_BYTES);
process.exitCode = await main();

async function main(): Promise<number> {
  const known = results === undefined ? [] : readResults<Result>(results);
  const tried = new Set(known.map((one) => one.seed));
  const seeds = Array.from({ length: count }, (_, index) => seed + index).filter((one) => !tried.has(one));
  const found: Result[] = [];
  if (seeds.length > 0) await tryAll(seeds, found);
  const all = [...known, ...found];
  process.stdout.write(`${tableOf(all)}\n${verdictOf(all)}\n`);
  return found.some(({ outcome }) => outcome === 'wrong') ? 1 : 0;
}

/** Stops early where the operator asks for it. */
async function tryAll(seeds: readonly number[], found: Result[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-faults-'));
  const installation = await installationIn(folder);
  const player = new Player(installation, folder);
  const isStopped = stopOnSignal();
  try {
    for (const one of seeds) {
      if (isStopped()) return;
      const fault = faultOf(one);
      const { state, file, kind } = fault;
      const result: Result = {
        seed: one,
        commit,
        state,
        file,
        kind,
        ...(await player.play(fault, keep ?? null)),
      };
      found.push(result);
      if (results !== undefined) noteResult(results, result);
      const { outcome, done, faults, again } = result;
      if (outcome !== 'wrong' && again === null) continue;
      const lines = [`${state}, ${file}, ${kind}: ${done}`, ...(again === null ? [] : [again]), ...faults];
      process.stdout.write(
        `${outcome}: npm run faults -- --seed ${one} --count 1\n  ${lines.join('\n  ')}\n`,
      );
    }
  } finally {
    await player.end();
    await installation.county.feed.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
