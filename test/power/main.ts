/**
 * `npm run power -- --seed 1 --count 100`: the states in which a loss of power may leave the disk, and the result of each. With
 * `--results` a run goes on where the ones before have stopped, and prints the sum of all. `--each-sync` leaves out the syncs of the
 * program, one place after another: some state has to fail.
 */

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { Command, Option } from 'commander';
import { builtProgram } from '../support/built-program.ts';
import { durableEffects } from '../support/durable-names.ts';
import { memoryFolder } from '../support/memory-folder.ts';
import { openCountyFeed } from '../support/open-county-feed.ts';
import { noteResult, readResults, testedCommit } from '../support/results-file.ts';
import { sourceFiles } from '../support/source-tree.ts';
import { stopOnSignal } from '../support/stop-on-signal.ts';
import { COURSES, type CourseName } from './courses.ts';
import { Judge } from './judge.ts';
import { canRecord, type Recording, record } from './record.ts';
import { type Result, sumsOf } from './results.ts';
import { type DiskState, drawStates, statesWithout } from './states.ts';
import { ownSyncs, syncSites } from './syncs.ts';

const UNAVAILABLE = 69;
/** Of the copies of a recorded installation and of the state that is judged. */
const NEEDED_BYTES = 2e9;
/** Of a sync that is left out, so many states are asked for what was reported, which is soon done. */
const MOST_REPORTS = 80;

interface Options {
  readonly seed: number;
  readonly count: number;
  readonly course: CourseName;
  readonly results?: string;
  readonly eachSync: boolean;
  readonly only: string;
}

const options = new Command('power')
  .description('Tries the states in which a loss of power may leave the disk.')
  .option('--seed <number>', 'of the first state', Number, 1)
  .option('--count <number>', 'of states; with --each-sync, of each at most', Number, 100)
  .addOption(
    new Option('--course <name>', 'what is recorded').choices(Object.keys(COURSES)).default('together'),
  )
  .option('--results <file>', 'takes a line for each state; states that it has are not tried again')
  .option('--each-sync', 'leaves out the syncs of the program, one place after another', false)
  .option('--only <text>', 'with --each-sync, only the places whose names contain it', '')
  .parse()
  .opts<Options>();

if (!canRecord()) {
  process.stderr.write('Nothing is tried: this needs Linux and a C compiler (cc).\n');
  process.exit(UNAVAILABLE);
}
process.exitCode = await main(options);

interface Stage {
  readonly recording: Recording;
  readonly judge: Judge;
  /** Whether the operator asks to stop. */
  readonly isStopped: () => boolean;
}

async function main({ course: name, eachSync }: Options): Promise<number> {
  const course = COURSES[name];
  const folder = mkdtempSync(join(memoryFolder(NEEDED_BYTES), 'feed-sync-power-'));
  const county = await openCountyFeed(course.feed);
  const isStopped = stopOnSignal();
  try {
    const recorded = join(folder, 'recorded');
    mkdirSync(recorded);
    const recording = await record(course, county, recorded);
    process.stderr.write(`${recording.effects.length} effects were recorded.\n`);
    const { home } = recording;
    const judge = new Judge({ feed: county.feed, course, program: dirname(builtProgram()), home });
    const stage = { recording, judge, isStopped };
    try {
      return eachSync ? await tryWithoutSyncs(stage, options) : await tryStates(stage, options);
    } finally {
      await judge.end();
    }
  } finally {
    await county.feed.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function tryStates(
  { recording, judge, isStopped }: Stage,
  { seed: first, count, course, results }: Options,
): Promise<number> {
  const known = results === undefined ? [] : readResults<Result>(results);
  const tried = new Set(known.filter((one) => one.course === course).map(({ seed }) => seed));
  const seeds = Array.from({ length: count }, (_, index) => first + index).filter((one) => !tried.has(one));
  const commit = testedCommit();
  const found: Result[] = [];
  for (const state of drawStates(recording, seeds)) {
    if (isStopped()) break;
    const { seed, moment, lost } = state;
    const result: Result = { course, seed, commit, moment, lost, ...(await judge.judge(state)) };
    found.push(result);
    if (results !== undefined) noteResult(results, result);
    const { faults } = result;
    if (faults.length > 0)
      process.stdout.write(`Seed ${seed}, moment ${moment}, ${lost} lost:\n  ${faults.join('\n  ')}\n`);
  }
  process.stdout.write(`${sumsOf([...known, ...found])}\n`);
  return found.some(({ faults }) => faults.length > 0) ? 1 : 0;
}

async function tryWithoutSyncs(stage: Stage, { count, only }: Options): Promise<number> {
  const { recording, judge, isStopped } = stage;
  const names = ownSyncs(durableEffects(await sourceFiles('src')));
  let unneeded = 0;
  for (const site of syncSites(recording.effects, recording.rootInode, names)) {
    if (isStopped() || !site.name.includes(only)) continue;
    const fault =
      (await firstFault(stage, statesWithout(recording, site, MOST_REPORTS), (state) =>
        judge.judgeReports(state),
      )) ??
      (await firstFault(
        stage,
        statesWithout(recording, site, count),
        async (state) => (await judge.judge(state)).faults,
      ));
    if (fault === null) unneeded += 1;
    process.stdout.write(`${site.name}: ${fault ?? `none of ${count} states failed without it`}\n`);
  }
  return unneeded === 0 ? 0 : 1;
}

async function firstFault(
  { isStopped }: Stage,
  states: Iterable<DiskState>,
  judged: (state: DiskState) => Promise<readonly string[]>,
): Promise<string | null> {
  for (const state of states) {
    if (isStopped()) break;
    const [first] = await judged(state);
    if (first !== undefined) return `moment ${state.moment}, lost: ${state.lost}: ${first.split('\n')[0]}`;
  }
  return null;
}
