/**
 * One small version, as the daemon takes it in. What counts begins when the poll that brings the news arrives at the
 * feed, and ends when the mirror is free for readers for the last time.
 */

import { type BenchCase, type Contest, type Sample, type Size, WrongResultError } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import type { FeedProcess } from './feed-process.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import { LockWatch, type ObservedState } from './lock-watch.ts';
import { mirrored } from './mirrored.ts';
import { inFolder, mirrorIn, type Settings } from './program-run.ts';
import { type RunningProgram, startProgram } from './running-program.ts';
import { median } from './statistics.ts';
import { checkMirror, checkVersion } from './table-counts.ts';

const CHANGED_ROWS = 100;
/** Of each process: they load code and warm caches, and do not count. */
const WARM_UPS = 2;
const UPDATES: Readonly<Record<Size, number>> = { full: 20, quick: 3 };
const RUNS = 3;
/** The mirror was free for so long after an update: no further write session belongs to it. */
const OVER_AFTER_MS = 250;
/** Updates that may come and go between two readings. */
const MAX_UNSEEN = 25;

export const updateSmall: BenchCase = {
  name: 'update-small',
  what: 'one version of 100 changed rows on 2 million polygons, in a running daemon, from poll to detach',
  reach: [
    { measure: 'updateMs', atMost: 120, moonshot: 80 },
    { measure: 'lockMs', atMost: 60, moonshot: 30 },
  ],
  fewRuns: RUNS,
  validate: (size, workspace) => daemonContest(TWO_MILLION_POLYGONS[size], UPDATES[size], workspace),
};

/** The tables and the versions are those of `update-small`. */
export const updateSmallHistory: BenchCase = {
  ...updateSmall,
  name: 'update-small-history',
  what: `${updateSmall.what}, with history`,
  // History may add 40 ms.
  reach: [
    { measure: 'updateMs', atMost: 160 },
    { measure: 'lockMs', atMost: 100 },
  ],
  validate: (size, workspace) =>
    daemonContest(TWO_MILLION_POLYGONS[size], UPDATES[size], workspace, { FEED_SYNC_HISTORY_DATASETS: '*' }),
};

interface Update {
  readonly totalMs: number;
  /** In all its write sessions together. */
  readonly lockMs: number;
  readonly sessions: number;
  readonly longestGapMs: number;
  readonly cpuMs: number;
}

/** The mirror goes on from run to run, as that of a daemon that is started again. */
async function daemonContest(
  recipe: Recipe,
  updates: number,
  workspace: string,
  settings: Settings = {},
): Promise<Contest> {
  const { feed, datasets, data } = await mirrored(recipe, workspace);
  const versions = RUNS * (WARM_UPS + updates);
  await feed.plan(recipe, { versions: versions + MAX_UNSEEN, changedRows: CHANGED_ROWS });
  let version = 1;
  let unseen = 0;
  return {
    subject: () =>
      inFolder(workspace, async (folder) => {
        await using program = await startProgram(feed, data, folder, settings);
        using locks = new LockWatch(program.pid, mirrorIn(data));
        const seen: Update[] = [];
        while (seen.length < WARM_UPS + updates) {
          version += 1;
          const update = await oneUpdate(feed, program, locks, version);
          if (update === null) unseen += 1;
          else seen.push(update);
          if (unseen > MAX_UNSEEN)
            throw new WrongResultError('Nobody sees how versions come into the mirror.');
        }
        const whole = await program.stop();
        await checkMirror(mirrorIn(data), datasets);
        await checkVersion(mirrorIn(data), version);
        return sampleOf(seen.slice(WARM_UPS), whole.peakMegabytes);
      }),
    reference: null,
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** Null: the machine was busy with something else than looking, and nobody saw how it came into the mirror. */
async function oneUpdate(
  feed: FeedProcess,
  program: RunningProgram,
  locks: LockWatch,
  version: number,
): Promise<Update | null> {
  await locks.free(OVER_AFTER_MS);
  await feed.publish(1);
  await feed.requests();
  locks.take();
  const cpuBefore = program.cpuSeconds();
  program.poll();
  await program.logged((line) => line['version'] === version);
  await locks.free(OVER_AFTER_MS);
  const { observed, longestGapMs } = locks.take();
  const poll = (await feed.requests()).find(({ operation }) => operation === 'events');
  const last = observed.at(-1);
  if (poll === undefined || last === undefined) return null;
  return {
    totalMs: last.untilMs - poll.atMs,
    lockMs: observed.reduce((sum, { fromMs, untilMs }: ObservedState) => sum + untilMs - fromMs, 0),
    sessions: observed.length,
    longestGapMs,
    cpuMs: (program.cpuSeconds() - cpuBefore) * 1_000,
  };
}

function sampleOf(updates: readonly Update[], peakMegabytes: number): Sample {
  const totals = updates.map(({ totalMs }) => totalMs);
  const locked = updates.map(({ lockMs }) => lockMs);
  return {
    seconds: median(totals) / 1_000,
    cpuSeconds: updates.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / updates.length / 1_000,
    peakMegabytes,
    counts: {
      updateMs: median(totals),
      worstUpdateMs: Math.max(...totals),
      lockMs: median(locked),
      worstLockMs: Math.max(...locked),
      sessions: median(updates.map(({ sessions }) => sessions)),
      longestGapMs: Math.max(...updates.map(({ longestGapMs }) => longestGapMs)),
    },
    repetitions: { updateMs: totals, lockMs: locked },
  };
}
