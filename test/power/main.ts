/**
 * `npm run power -- --seed 1 --count 100`: the states in which a loss of power may leave the disk, and what becomes of each.
 * `--each-sync` tries them once for each durable effect, as if the program did not sync within it: some state has to fail.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Command } from 'commander';
import { seededRandom } from '../exploration/random.ts';
import { openCountyFeed } from '../support/open-county-feed.ts';
import { faultsOf } from './judge.ts';
import { canRecord, type Recording, record } from './record.ts';
import { drawStates, EVERY_LOSS, syncingNames } from './states.ts';

const UNAVAILABLE = 69;
const KINDS = ['zoning', 'permits'] as const;

const { seed, count, eachSync } = new Command('power')
  .description('Tries the states in which a loss of power may leave the disk.')
  .option('--seed <number>', 'of the moments and losses', Number, 1)
  .option('--count <number>', 'of states; with --each-sync, of each', Number, 100)
  .option('--each-sync', 'leaves out the syncs within each durable effect in turn', false)
  .parse()
  .opts<{ seed: number; count: number; eachSync: boolean }>();

if (!canRecord()) {
  process.stderr.write('Nothing is tried: this needs Linux and a C compiler (cc).\n');
  process.exit(UNAVAILABLE);
}
process.exitCode = await main();

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-power-'));
  const county = await openCountyFeed({ kinds: KINDS, rowsPerDataset: 30 });
  try {
    const recording = await record(county, folder);
    process.stderr.write(`${recording.effects.length} effects were recorded.\n`);
    const judge = (state: Parameters<typeof faultsOf>[0]) => faultsOf(state, county.feed);
    return eachSync ? await tryWithoutSyncs(recording, judge) : await tryStates(recording, judge);
  } finally {
    await county.feed.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Judge = (state: Parameters<typeof faultsOf>[0]) => ReturnType<typeof faultsOf>;

async function tryStates(recording: Recording, judge: Judge): Promise<number> {
  let wrong = 0;
  const tried = { all: 0, nothing: 0, some: 0 };
  for (const state of drawStates(recording, { count, next: seededRandom(seed), lost: EVERY_LOSS })) {
    const faults = await judge(state);
    tried[state.lost] += 1;
    if (faults.length === 0) continue;
    wrong += 1;
    const what = `seed ${seed}, moment ${state.moment}, ${state.lost} lost`;
    process.stdout.write(`${what}:\n  ${faults.join('\n  ')}\n`);
  }
  const { all, nothing, some } = tried;
  process.stdout.write(
    `${count} states (${nothing} nothing lost, ${all} all, ${some} some): ${wrong} wrong.\n`,
  );
  return wrong === 0 ? 0 : 1;
}

async function tryWithoutSyncs(recording: Recording, judge: Judge): Promise<number> {
  let unneeded = 0;
  for (const without of syncingNames(recording.effects)) {
    const found = await firstFault(recording, without, judge);
    if (found === null) unneeded += 1;
    process.stdout.write(`${without}: ${found ?? `none of ${count} states failed without it`}\n`);
  }
  return unneeded === 0 ? 0 : 1;
}

async function firstFault(recording: Recording, without: string, judge: Judge): Promise<string | null> {
  for (const state of drawStates(recording, { count, next: seededRandom(seed), lost: EVERY_LOSS, without })) {
    const [fault] = await judge(state);
    if (fault !== undefined) return `moment ${state.moment}, ${state.lost} lost: ${fault.split('\n')[0]}`;
  }
  return null;
}
