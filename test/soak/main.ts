/** `npm run soak`: the program killed at random times, again and again, beside a feed that goes on. */

import process from 'node:process';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { SEED } from '../support/seed.ts';
import { type SoakSeen, soak } from './soak.ts';

const WRONG_USAGE = 64;
const DEFAULT_KILLS = 100;

interface Flags {
  readonly kills: number;
  readonly seed: number;
}

const command = new Command('soak')
  .description(
    'Kills feed-sync (as built in dist) at random times while its feed goes on, and compares mirror, published copy and ' +
      'data directory with the feed after every 25 kills and at the end. Ends with 1 where anything differs.',
  )
  .option('--kills <number>', 'how often it is killed', wholeNumber, DEFAULT_KILLS)
  .option('--seed <number>', 'what happens, and after which time it is killed', wholeNumber, SEED)
  .allowExcessArguments(false)
  .exitOverride();

process.exitCode = await main();

async function main(): Promise<number> {
  try {
    command.parse();
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    throw error;
  }
  const { kills, seed } = command.opts<Flags>();
  const startedMs = performance.now();
  const seen = await soak({ kills, seed, onRound: (round) => tellRound(round, kills) });
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  process.stdout.write(`${reported(seen, seconds, seed)}\n`);
  if (seen.differences.length === 0) return 0;
  const repeat = `npm run soak -- --kills ${seen.kills} --seed ${seed}`;
  process.stdout.write(
    `${seen.differences.join('\n')}\nWhat was left is in ${seen.home}.\nTo repeat it: ${repeat}\n`,
  );
  return 1;
}

function tellRound({ kills, comparisons, differences }: SoakSeen, all: number): void {
  const same = differences.length === 0 ? 'the same as the feed' : 'NOT the same as the feed';
  process.stderr.write(`${kills} of ${all} kills, comparison ${comparisons}: ${same}\n`);
}

function reported(seen: SoakSeen, seconds: number, seed: number): string {
  const { kills, ended, comparisons, differences, longestCatchUpMs, happened, killedAt } = seen;
  return [
    `| soak of seed ${seed} | |`,
    '|---|---|',
    `| kills | ${kills} |`,
    `| processes that had ended before | ${ended} |`,
    `| comparisons | ${comparisons} |`,
    `| differences | ${differences.length} |`,
    `| longest catch-up | ${(longestCatchUpMs / 1_000).toFixed(1)} s |`,
    `| all of it | ${seconds} s |`,
    ...rows(happened),
    '| **last point before the kill** | **kills** |',
    ...rows(killedAt),
  ].join('\n');
}

/** The most frequent first. */
function rows(counts: ReadonlyMap<string, number>): readonly string[] {
  return [...counts]
    .toSorted(([, left], [, right]) => right - left)
    .map(([what, times]) => `| ${what} | ${times} |`);
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1.');
  return Number(text);
}
