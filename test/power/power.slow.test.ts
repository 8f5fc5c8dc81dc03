/** F59 any state in which a loss of power may leave the disk opens, has every reported commit, and catches up. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { durableEffects } from '../support/durable-names.ts';
import { memoryFolder } from '../support/memory-folder.ts';
import { type OpenCountyFeed, openCountyFeed } from '../support/open-county-feed.ts';
import { SEED } from '../support/seed.ts';
import { sourceFiles } from '../support/source-tree.ts';
import { COURSES } from './courses.ts';
import { NOTHING_LOST } from './disk.ts';
import { Judge } from './judge.ts';
import { canRecord, type Recording, record } from './record.ts';
import { type DiskState, drawStates, finalFiles, statesWithout } from './states.ts';
import { ownSyncs, syncSites } from './syncs.ts';

/** Enough that some state fails where a sync that is needed is left out. */
const STATES_WITHOUT = 300;
const NEEDED_BYTES = 2e9;

/** The syncs of the program, and of DuckDB those of a commit. */
const names = [...ownSyncs(durableEffects(await sourceFiles('src'))), 'destination.commit'];
const isPossible = canRecord();
if (!isPossible) {
  process.stderr.write(
    'States after a loss of power are not tried: this needs Linux and a C compiler (cc).\n',
  );
}

/** Syncs without which something that was reported is lost. */
const NEEDED = {
  together: [
    'destination.commit, file 1',
    'destination.publish, folder 1',
    'destination.publish-settle, file 1',
  ],
  apart: ['cli.init, file 1', 'cli.init, folder 1'],
} as const;
/** How many states of each course are judged, and how many only by what was reported. */
const COURSES_TRIED = [
  { name: 'together', states: 42, reports: 90 },
  { name: 'apart', states: 9, reports: 300 },
] as const;

describe.skipIf(!isPossible).each(COURSES_TRIED)('losses of power, $name', ({ name, states, reports }) => {
  let folder: string;
  let county: OpenCountyFeed;
  let recording: Recording;
  let judge: Judge;

  beforeAll(async () => {
    folder = mkdtempSync(join(memoryFolder(NEEDED_BYTES), 'feed-sync-power-'));
    const course = COURSES[name];
    county = await openCountyFeed(course.feed);
    const recorded = join(folder, 'recorded');
    mkdirSync(recorded);
    recording = await record(course, county, recorded);
    const { home } = recording;
    judge = new Judge({ feed: county.feed, course, program: dirname(builtProgram()), home });
  });

  afterAll(async () => {
    await judge.end();
    await county.feed.close();
    rmSync(folder, { recursive: true });
  });

  const seeds = (count: number): readonly number[] =>
    Array.from({ length: count }, (_, index) => SEED + index);

  it('F59 records everything that the program did to its files', () => {
    const { left } = recording;
    const there = readdirSync(left, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(left, join(entry.parentPath, entry.name)));
    const recorded = finalFiles(recording, NOTHING_LOST);
    for (const path of there) {
      // SQLite maps its shared memory, which no disk keeps, and writes nothing to it.
      if (!path.endsWith('-shm'))
        expect(recorded.get(path)?.equals(readFileSync(join(left, path))), path).toBe(true);
    }
  });

  it('F59 keeps every reported commit in each state after a loss of power', async () => {
    const drawn = drawStates(recording, seeds(reports), ['all', 'content']);
    expect(await firstFault(drawn, (state) => judge.judgeReports(state)), `seed ${SEED}`).toBeNull();
  });

  it('F59 opens each state after a loss of power with every reported commit, and catches up', async () => {
    const drawn = drawStates(recording, seeds(states), ['all', 'nothing', 'content']);
    const judged = async (state: DiskState) => (await judge.judge(state)).faults;
    expect(await firstFault(drawn, judged), `seed ${SEED}`).toBeNull();
  });

  it.each(NEEDED[name])('F59 loses a reported commit in some state without the sync %s', async (sync) => {
    const site = syncSites(recording.effects, recording.rootInode, names).find((one) => one.name === sync);
    if (site === undefined) throw new Error(`${sync} was not recorded`);
    const found = statesWithout(recording, site, STATES_WITHOUT);
    expect(await firstFault(found, (state) => judge.judgeReports(state))).not.toBeNull();
  });
});

/** The first state that has a fault, and its faults. */
async function firstFault(
  states: Iterable<DiskState>,
  judged: (state: DiskState) => Promise<readonly string[]>,
): Promise<string | null> {
  for (const state of states) {
    const faults = await judged(state);
    if (faults.length > 0) return `moment ${state.moment}, ${state.lost} lost: ${faults.join('; ')}`;
  }
  return null;
}
