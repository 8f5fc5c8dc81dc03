/**
 * What it costs to ask when there is nothing new: the processor time of a daemon that is asked to poll again and again,
 * less that of the same daemon left alone for as long.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchCase, Contest, Sample, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import type { FeedProcess } from './feed-process.ts';
import { THREE_THOUSAND_DATASETS } from './many-datasets.ts';
import { mirrored } from './mirrored.ts';
import { inFolder, type Settings } from './program-run.ts';
import { type RunningProgram, startProgram } from './running-program.ts';
import { median } from './statistics.ts';

const POLLS: Readonly<Record<Size, number>> = { full: 200, quick: 20 };
const RUNS = 3;
/** From poll to poll: what one sets going is over when the next one comes. */
const POLL_EVERY_MS = 50;
/** What the start leaves to be done is done. */
const SETTLED_AFTER_MS = 3_000;
const CHECK_EVERY_MS = 2;

export const idlePoll: BenchCase = {
  name: 'idle-poll',
  what: 'a poll with nothing new, in a daemon with one subscription of 3,000 datasets',
  reach: [
    { measure: 'requestsPerPoll', atMost: 1 },
    { measure: 'cpuMsPerPoll', atMost: 5 },
  ],
  fewRuns: RUNS,
  validate: (size, workspace) => pollContest(THREE_THOUSAND_DATASETS[size], size, workspace),
};

async function pollContest(recipe: Recipe, size: Size, workspace: string): Promise<Contest> {
  const { feed, data } = await mirrored(recipe, workspace);
  return {
    subject: () => inFolder(workspace, (folder) => pollsOf({ feed, data, folder, size })),
    reference: null,
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

interface PolledMirror {
  readonly feed: FeedProcess;
  readonly data: string;
  readonly folder: string;
  readonly size: Size;
  readonly settings?: Settings;
}

/** Starts a daemon on the mirror and polls. */
export async function pollsOf({ feed, data, folder, size, settings }: PolledMirror): Promise<Sample> {
  const polls = POLLS[size];
  await using program = await startProgram(feed, data, folder, settings);
  await sleep(SETTLED_AFTER_MS);
  const busy = await spent(program, () => pollAgainAndAgain(feed, program, polls));
  const idle = await spent(program, () => sleep(busy.seconds * 1_000));
  const { peakMegabytes } = await program.stop();
  return sampleOf(polls, busy, idle.cpuSeconds, peakMegabytes);
}

interface Spent<Result> {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly result: Result;
}

async function spent<Result>(program: RunningProgram, work: () => Promise<Result>): Promise<Spent<Result>> {
  const startedMs = performance.now();
  const before = program.cpuSeconds();
  const result = await work();
  return {
    seconds: (performance.now() - startedMs) / 1_000,
    cpuSeconds: program.cpuSeconds() - before,
    result,
  };
}

interface Polls {
  readonly requests: number;
  /** From each signal to the request that it brought. */
  readonly wokenMs: readonly number[];
}

/** Each waits for the request of the one before. */
async function pollAgainAndAgain(feed: FeedProcess, program: RunningProgram, polls: number): Promise<Polls> {
  const wokenMs: number[] = [];
  let requests = 0;
  await feed.requests();
  for (let number = 0; number < polls; number += 1) {
    const dueMs = Date.now() + POLL_EVERY_MS;
    const askedMs = Date.now();
    program.poll();
    let met = await feed.requests();
    while (met.length === 0) {
      await sleep(CHECK_EVERY_MS);
      met = await feed.requests();
    }
    wokenMs.push((met[0]?.atMs ?? askedMs) - askedMs);
    await sleep(Math.max(0, dueMs - Date.now()));
    requests += met.length + (await feed.requests()).length;
  }
  return { requests, wokenMs };
}

function sampleOf(
  polls: number,
  { cpuSeconds, result }: Spent<Polls>,
  idleCpuSeconds: number,
  peakMegabytes: number,
): Sample {
  const cpuPerPoll = (cpuSeconds - idleCpuSeconds) / polls;
  return {
    seconds: median(result.wokenMs) / 1_000,
    cpuSeconds: cpuPerPoll,
    peakMegabytes,
    counts: {
      requestsPerPoll: result.requests / polls,
      cpuMsPerPoll: cpuPerPoll * 1_000,
      idleCpuMsOfAsLong: idleCpuSeconds * 1_000,
      wokenMs: median(result.wokenMs),
    },
    repetitions: { wokenMs: result.wokenMs },
  };
}
