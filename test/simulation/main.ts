/** `npm run simulate`: shares out the histories over processes, and prints their results. */

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import process from 'node:process';
import { scriptPath } from '../support/child.ts';
import { type Counts, sum, table } from './counters.ts';
import { namesOf } from './names.ts';
import { type Asked, readCommandLine, USAGE, UsageError } from './simulate/command-line.ts';
import type { Announcement } from './simulate/share.ts';

const SHARE = scriptPath('simulation-child.ts');
const USAGE_EXIT_CODE = 64;
/** A run of so many histories has not shown what it is meant to show where some kind of step occurred more rarely. */
const HISTORIES_OF_A_LARGE_RUN = 10_000;
const LEAST_OF_A_LARGE_RUN = 100;
const PROGRESS_EVERY = 500;

process.exitCode = await main(process.argv.slice(2));

async function main(words: readonly string[]): Promise<number> {
  try {
    const asked = readCommandLine(words);
    if (asked !== null) return await simulate(asked);
    process.stdout.write(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    return USAGE_EXIT_CODE;
  }
}

async function simulate({ seed, histories, processes }: Asked): Promise<number> {
  const startedMs = performance.now();
  const count = Math.min(processes ?? availableParallelism(), histories);
  const counted: Counts[] = [];
  const failures: (Announcement & { kind: 'failed' })[] = [];
  let played = 0;
  const heard = (reported: Announcement): void => {
    if (reported.kind === 'failed') {
      failures.push(reported);
      return;
    }
    counted.push(reported.counts);
    const before = Math.floor(played / PROGRESS_EVERY);
    played += reported.histories;
    if (Math.floor(played / PROGRESS_EVERY) > before) process.stderr.write(`${played} of ${histories}\n`);
  };
  const shares = Array.from({ length: count }, (_, share) =>
    playInProcess([seed + share, count, seed + histories], heard),
  );
  await Promise.all(shares);
  const seconds = (performance.now() - startedMs) / 1_000;
  process.stdout.write(`${summary(played, seed, seconds, sum(counted))}\n`);
  return verdict(failures, played, sum(counted));
}

/** Rejects where the process ends in another way than at its end. */
async function playInProcess(
  seeds: readonly number[],
  heard: (reported: Announcement) => void,
): Promise<void> {
  const child = fork(SHARE, seeds.map(String));
  child.on('message', heard);
  const ended = Promise.withResolvers<void>();
  child.on('error', ended.reject);
  child.on('exit', (code, signal) => {
    if (code === 0) ended.resolve();
    else ended.reject(new Error(`A process of the simulation ended with ${code ?? signal}.`));
  });
  await ended.promise;
}

function summary(played: number, seed: number, seconds: number, counts: Counts): string {
  const pace = `${seconds.toFixed(0)} s, ${(played / seconds).toFixed(1)} a second`;
  return table(`${played} histories from seed ${seed} on (${pace}):`, Object.keys(counts), counts);
}

function verdict(
  failures: readonly (Announcement & { kind: 'failed' })[],
  played: number,
  counts: Counts,
): number {
  const [first] = failures.toSorted((left, right) => left.seed - right.seed);
  if (first !== undefined) {
    const seeds = failures.map(({ seed }) => seed).sort((left, right) => left - right);
    process.stderr.write(`\n${first.text}\n\n${failures.length} failed: ${seeds.join(' ')}\n`);
    return 1;
  }
  if (played < HISTORIES_OF_A_LARGE_RUN) return 0;
  const rare = namesOf('model').filter((name) => (counts[name] ?? 0) < LEAST_OF_A_LARGE_RUN);
  if (rare.length === 0) return 0;
  process.stderr.write(
    `\nFewer than ${LEAST_OF_A_LARGE_RUN} times, which shows too little:\n  ${rare.join('\n  ')}\n`,
  );
  return 1;
}
