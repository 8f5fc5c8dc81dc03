/** A running daemon with PostgreSQL: one small version as it takes it in, and a poll with nothing new. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { statement } from '../../fixtures/postgres-server.ts';
import { type Contest, type Sample, type Size, WrongResultError } from './case.ts';
import { datasetFiles, type Recipe } from './dataset-files.ts';
import { type FeedProcess, startFeedProcess } from './feed-process.ts';
import { pollsOf } from './idle-poll.ts';
import { mirroredIn } from './postgres-contests.ts';
import { BenchServer } from './postgres-server.ts';
import { inFolder, measureProgram } from './program-run.ts';
import { type RunningProgram, startProgram } from './running-program.ts';
import { median } from './statistics.ts';

const CHANGED_ROWS = 100;
/** Of each process: they load code and warm caches, and do not count. */
const WARM_UPS = 2;
const UPDATES: Readonly<Record<Size, number>> = { full: 20, quick: 3 };
const RUNS = 3;

interface Mirror extends AsyncDisposable {
  readonly feed: FeedProcess;
  readonly data: string;
  readonly address: string;
}

async function mirror(recipe: Recipe, workspace: string): Promise<Mirror> {
  const feed = await startFeedProcess(recipe, await datasetFiles(recipe));
  const server = await BenchServer.start();
  const address = await server.empty();
  const data = join(workspace, 'mirrored');
  await mkdir(data, { mode: 0o700 });
  await measureProgram(feed, data, workspace, mirroredIn(address));
  return {
    feed,
    data,
    address,
    async [Symbol.asyncDispose]() {
      await feed[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** From the request of the poll, by the feed's clock, until the daemon has logged that the version is committed. */
export async function updateContest(recipe: Recipe, size: Size, workspace: string): Promise<Contest> {
  const made = await mirror(recipe, workspace);
  const { feed, data, address } = made;
  const updates = WARM_UPS + UPDATES[size];
  await feed.plan(recipe, { versions: RUNS * updates, changedRows: CHANGED_ROWS });
  let version = 1;
  return {
    subject: () =>
      inFolder(workspace, async (folder) => {
        await using program = await startProgram(feed, data, folder, mirroredIn(address));
        const totals: number[] = [];
        const cpuMs: number[] = [];
        for (let number = 0; number < updates; number += 1) {
          version += 1;
          const before = program.cpuSeconds();
          totals.push(await oneUpdate(feed, program, version));
          cpuMs.push((program.cpuSeconds() - before) * 1_000);
        }
        const { peakMegabytes } = await program.stop();
        const [[found] = []] = await statement(address, 'SELECT version FROM feed_sync.datasets');
        if (Number(found) !== version) throw new WrongResultError(`It is at ${found} instead of ${version}.`);
        return sampleOf(totals.slice(WARM_UPS), cpuMs.slice(WARM_UPS), peakMegabytes);
      }),
    reference: null,
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  };
}

async function oneUpdate(feed: FeedProcess, program: RunningProgram, version: number): Promise<number> {
  await feed.publish(1);
  await feed.requests();
  program.poll();
  await program.logged((line) => line['version'] === version);
  const overMs = Date.now();
  const poll = (await feed.requests()).find(({ operation }) => operation === 'events');
  if (poll === undefined) throw new WrongResultError('A version was taken in that no poll has brought.');
  return overMs - poll.atMs;
}

function sampleOf(totals: readonly number[], cpuMs: readonly number[], peakMegabytes: number): Sample {
  return {
    seconds: median(totals) / 1_000,
    cpuSeconds: cpuMs.reduce((sum, each) => sum + each, 0) / cpuMs.length / 1_000,
    peakMegabytes,
    counts: { updateMs: median(totals), worstUpdateMs: Math.max(...totals) },
    repetitions: { updateMs: totals },
  };
}

export async function idleContest(recipe: Recipe, size: Size, workspace: string): Promise<Contest> {
  const made = await mirror(recipe, workspace);
  const { feed, data, address } = made;
  return {
    subject: () =>
      inFolder(workspace, (folder) => pollsOf({ feed, data, folder, size, settings: mirroredIn(address) })),
    reference: null,
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  };
}
