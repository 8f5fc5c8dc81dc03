/** A running daemon with PostgreSQL: one small version as it takes it in, and a poll with nothing new. */

import { statement } from '../../fixtures/postgres-server.ts';
import { type Contest, type Sample, type Size, WrongResultError } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import type { FeedProcess } from './feed-process.ts';
import { pollsOf } from './idle-poll.ts';
import { disposed, firstVersion, mirroredIn } from './postgres-contests.ts';
import type { ServerKind } from './postgres-server.ts';
import { inFolder } from './program-run.ts';
import { type RunningProgram, startProgram } from './running-program.ts';
import { median } from './statistics.ts';

const CHANGED_ROWS = 100;
/** Of each process: they load code and warm caches, and do not count. */
const WARM_UPS = 2;
const UPDATES: Readonly<Record<Size, number>> = { full: 20, quick: 3 };
const RUNS = 3;

/** From the request of the poll, by the feed's clock, until the daemon has logged that the version is committed. */
export async function updateContest(
  recipe: Recipe,
  size: Size,
  workspace: string,
  kind: ServerKind = 'alone',
): Promise<Contest> {
  const { feed, server, data, loaded: address } = await firstVersion(recipe, workspace, kind);
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
    [Symbol.asyncDispose]: () => disposed(feed, server),
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
  const { feed, server, data, loaded: address } = await firstVersion(recipe, workspace);
  return {
    subject: () =>
      inFolder(workspace, (folder) => pollsOf({ feed, data, folder, size, settings: mirroredIn(address) })),
    reference: null,
    [Symbol.asyncDispose]: () => disposed(feed, server),
  };
}
