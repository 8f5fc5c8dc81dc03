/** The command after commits: its input, its failures, and that it misses no commit. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { PostCommitSource } from '../../src/destination/publication.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { feedProgram } from '../../src/lib/run-program.ts';
import { Secret } from '../../src/lib/secret.ts';
import { ConfigurationError, HookError, InterruptedError } from '../../src/model/errors.ts';
import { Hook, type HookParts, hookEnvironment, MAX_COMMITS_AT_ONCE } from '../../src/post-commit/hook.ts';
import { NOON, openAt, temporaryPath } from '../support/checkpoint-files.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { manualClock } from '../support/duckdb-mirror.ts';
import { recordingLog } from '../support/feed-client.ts';
import { expectGolden, withPlaceholders } from '../support/golden.ts';
import { hookProgram, notedBy, notedLines, notingProgram } from '../support/hook-program.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { until } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';

/** Whether the command after commits has written its mark, which shows that it runs. */
function isWritten(path: string): boolean {
  return existsSync(path) && readFileSync(path, 'utf8').endsWith(';');
}

/** A clock on which the time of a command is over once it runs, and every other sleep takes a tenth of its time. */
function hurried(limitMs: number, noted: string): Clock {
  return {
    ...systemClock,
    async sleep(durationMs, signal) {
      if (durationMs === limitMs) await until('what a command writes that runs', () => isWritten(noted));
      else await systemClock.sleep(durationMs / 10, signal);
    },
  };
}

/** A mirror with so many commits, in memory. */
function historyOf(count: number): PostCommitSource {
  const commit = (number: number) => ({
    commitNumber: number,
    datasetId: 'us-tx-parcels',
    tableName: 'us_tx_parcels',
    kind: 'changes' as const,
    fromVersion: number,
    toVersion: number + 1,
    net: { added: 1, changed: 2, removed: 3 },
    rowCount: 9,
    appliedAt: NOON,
  });
  return {
    publish: () => Promise.reject(new Error('nothing is published here')),
    storeBookmark: async () => {},
    commits: async (after, { limit, upTo }) => {
      const from = after?.commitNumber ?? 0;
      const end = Math.min(from + limit, upTo ?? count, count);
      const commits = Array.from({ length: end - from }, (_, index) => commit(from + index + 1));
      const position = { commitNumber: end, mark: `commit ${end}` };
      return { commits, position, hasMore: end < Math.min(upTo ?? count, count) };
    },
  };
}

async function hookOf(command: readonly string[], parts: Partial<HookParts> = {}) {
  const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'));
  const hook = new Hook({
    command,
    timeoutMs: 30_000,
    environment: { PATH: '/usr/bin:/bin' },
    mirrorPath: '/data/mirror.duckdb',
    publishedPath: null,
    postCommit: historyOf(3),
    checkpoint,
    run: feedProgram,
    clock: systemClock,
    log: silentLog,
    signal: new AbortController().signal,
    ...parts,
  });
  return { hook, checkpoint, noted: temporaryPath('noted') };
}

async function errorOf(reporting: Promise<number>): Promise<Error> {
  return reporting.then(
    () => new Error('it should have failed'),
    (error: Error) => error,
  );
}

describe('the input of the command after commits', () => {
  it('does not report commits again because the mirror could not store the bookmark, and logs that error', async () => {
    const lines: string[] = [];
    const log = recordingLog(lines);
    const storeBookmark = () => Promise.reject(new Error('the disk is full'));
    const { hook, checkpoint } = await hookOf(['true'], {
      postCommit: { ...historyOf(3), storeBookmark },
      log,
    });
    expect(await hook.report(null)).toBe(3);
    expect(await hook.report(null)).toBe(0);
    expect(checkpoint.hook()).toMatchObject({ reported: { commitNumber: 3 }, failure: null });
    expect(lines.join()).toContain('the disk is full');
  });

  it('reports every commit once, as JSON', async () => {
    const world = await mirrorAtWork({ clock: manualClock() });
    const parcels = await world.loaded(firstContent(PEOPLE, [[1, 'one']]));
    parcels.publishRows([[2, 'two']]);
    await world.apply(parcels);
    const roads = await world.loaded(firstContent(PEOPLE, [[1, 'one']]), 'us-tx-roads');
    await world.retire(roads, 'archive');
    const noted = temporaryPath('noted');
    const { hook, checkpoint } = await hookOf(notingProgram(noted), {
      postCommit: world.mirror,
      mirrorPath: world.path,
    });
    expect(await hook.report(3)).toBe(3);
    expect(await hook.report(null)).toBe(1);
    expect(await hook.report(null)).toBe(0);
    expect(notedLines(noted)).toEqual([[1, 2, 3], [4]]);
    expect(checkpoint.hook()).toMatchObject({ reported: { commitNumber: 4 }, failure: null });
    const [first] = JSON.parse(withPlaceholders(JSON.stringify(notedBy(noted)), { data: world.folder }));
    expectGolden('hook/commits', first);
  });

  it('names the published copy, and reports many commits in several runs', async () => {
    const noted = temporaryPath('noted');
    const count = MAX_COMMITS_AT_ONCE + 1;
    const postCommit = historyOf(count);
    const { hook } = await hookOf(notingProgram(noted), { postCommit, publishedPath: '/srv/copy.duckdb' });
    expect(await hook.report(null)).toBe(count);
    expect(notedLines(noted).map((lines) => lines.length)).toEqual([MAX_COMMITS_AT_ONCE, 1]);
    const [{ commits = [], ...first } = {}, second] = notedBy(noted);
    expect(second).toMatchObject({ hasMore: false, commits: [{ commit: count }] });
    expectGolden('hook/published', { ...first, commits: commits.slice(0, 1) });
  });

  it('succeeds with a command that does not read its input', async () => {
    const { hook } = await hookOf(['true'], { postCommit: historyOf(MAX_COMMITS_AT_ONCE) });
    expect(await hook.report(null)).toBe(MAX_COMMITS_AT_ONCE);
  });
});

describe('a command after commits that fails', () => {
  it('F61 reports the same commits again after a failure, and writes the end of its output to the log alone', async () => {
    const noted = temporaryPath('noted');
    const [file = '', ...args] = hookProgram(`
      const path = ${JSON.stringify(noted)};
      const isFirst = !fs.existsSync(path);
      fs.appendFileSync(path, JSON.stringify(input) + '\\n');
      if (isFirst) { console.log('x'.repeat(10000)); console.error('no such model'); process.exit(3); }`);
    const lines: string[] = [];
    const { hook, checkpoint } = await hookOf([file, ...args], { log: recordingLog(lines) });
    const error = await errorOf(hook.report(null));
    expect(error).toBeInstanceOf(HookError);
    expect(error.message).toMatch(/^The command after commits, .*, ended with 3\.$/);
    expect(lines).toHaveLength(1);
    const { program, output } = JSON.parse(lines[0] ?? '{}');
    expect(program).toBe(file);
    expect(output).toMatch(/^x+\nno such model$/);
    expect(output.length).toBeLessThanOrEqual(2_000);
    expect(checkpoint.hook()).toMatchObject({
      reported: null,
      failure: { attempts: 1, message: error.message },
    });
    expect(await hook.report(null)).toBe(3);
    expect(notedLines(noted)).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
    expect(checkpoint.hook().failure).toBeNull();
  });

  it('ends a command that takes too long, with every process that it started, also where it ignores SIGTERM', async () => {
    const noted = temporaryPath('noted');
    const script = `
      process.on('SIGTERM', () => {});
      const child = require('node:child_process').spawn('sleep', ['600']);
      fs.writeFileSync(${JSON.stringify(noted)}, child.pid + ';');
      setInterval(() => {}, 1000);`;
    const clock = hurried(10_000, noted);
    const { hook } = await hookOf(hookProgram(script), { timeoutMs: 10_000, clock });
    const error = await errorOf(hook.report(null));
    expect(error).toBeInstanceOf(HookError);
    expect(error.message).toContain('took longer than 10.0 s and was ended.');
    const startedPid = Number.parseInt(readFileSync(noted, 'utf8'), 10);
    await until('the end of what it has started', () => !isRunning(startedPid));
  });

  it('F61 ends the processes that a successful command leaves running', async () => {
    const noted = temporaryPath('noted');
    const script = `
      const child = require('node:child_process').spawn('sleep', ['600'], { stdio: 'inherit' });
      fs.writeFileSync(${JSON.stringify(noted)}, child.pid + ';');
      process.exit(0);`;
    const { hook } = await hookOf(hookProgram(script));
    expect(await hook.report(null)).toBe(3);
    const startedPid = Number.parseInt(readFileSync(noted, 'utf8'), 10);
    await until('the end of what it has started', () => !isRunning(startedPid));
  });

  it('counts no failure of a command that was interrupted', async () => {
    const controller = new AbortController();
    const noted = temporaryPath('noted');
    const script = `fs.writeFileSync(${JSON.stringify(noted)}, ';'); setInterval(() => {}, 1000);`;
    const { hook, checkpoint } = await hookOf(hookProgram(script), { signal: controller.signal });
    const reporting = errorOf(hook.report(null));
    await until('a command that runs', () => isWritten(noted));
    controller.abort(new InterruptedError('enough'));
    expect(await reporting).toBeInstanceOf(InterruptedError);
    expect(checkpoint.hook()).toEqual({ reported: null, reportedAt: null, failure: null });
    expect(await errorOf(hook.report(null))).toBeInstanceOf(InterruptedError);
  });

  it('takes a command that cannot be run for a wrong configuration', async () => {
    const plain = temporaryPath('plain');
    writeFileSync(plain, 'no program');
    for (const file of ['feed-sync-no-such-program', join(plain, 'x'), plain]) {
      const { hook, checkpoint } = await hookOf([file]);
      const error = await errorOf(hook.report(null));
      expect(error).toBeInstanceOf(ConfigurationError);
      expect(error.message).toMatch(/^The command after commits, .*, cannot be run: .*\.$/);
      expect(checkpoint.hook().failure?.message).toBe(error.message);
    }
  });
});

describe('the environment of the command after commits', () => {
  it('removes the key under any name, and the variables of feed-sync alone, from the environment', () => {
    const environment = {
      PATH: '/bin',
      FEED_SYNC_DATA_DIR: '/data',
      FEED_SYNC_API_KEY: 'sk_1-and-more',
      COPY_OF_IT: 'Bearer sk_1-and-more',
      ENCODED: Buffer.from('user:sk_1-and-more').toString('base64'),
      FEED_SYNC_API_KEY_FILE: '/run/key',
      CREDENTIALS_DIRECTORY: '/run/credentials',
      NOTIFY_SOCKET: '/run/notify',
      NOTHING: undefined,
    };
    expect(hookEnvironment(environment, new Secret('sk_1-and-more'))).toEqual({
      PATH: '/bin',
      FEED_SYNC_DATA_DIR: '/data',
    });
    expect(hookEnvironment({ SHORT: 'Bearer sk_1' }, new Secret('sk_1'))).toEqual({});
  });
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A process whose parent does not wait for it stays in the list of processes.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}
