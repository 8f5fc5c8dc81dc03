/** When the daemon publishes a copy and runs the command after commits, on a clock that the test lets pass. */

import { expect, it } from 'vitest';
import { nextCopyMs } from '../../src/daemon/after-commit.ts';
import { Session } from '../../src/daemon/session.ts';
import { Upkeep } from '../../src/daemon/upkeep.ts';
import type { Forgotten } from '../../src/destination/destination.ts';
import type { Publication } from '../../src/destination/publication.ts';
import {
  HookError,
  InterruptedError,
  NotificationError,
  ServiceUnavailableError,
  StorageError,
} from '../../src/model/errors.ts';
import type { Condition } from '../../src/model/notification.ts';
import type { Exported } from '../../src/post-commit/export/export.ts';
import type { Readers } from '../../src/post-commit/hook.ts';
import { smallWorld } from '../support/small-world.ts';
import { SteppedClock } from '../support/stepped-clock.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const EVERY = { path: '/srv/copy.duckdb', everyMs: MINUTE_MS };

/** A mirror with so many commits, a copy of it and a command, all in memory. */
async function postCommitOf(options: {
  readonly isPublished: boolean;
  readonly hasHook: boolean;
  readonly notifications?: Readers['notifications'];
  /** Called for each export, at the time of the clock. */
  readonly onExport?: (atMs: number) => Promise<Exported | null>;
}) {
  const world = await smallWorld();
  const clock = new SteppedClock();
  const ending = new AbortController();
  const seen = { commits: 1, copied: 0, copies: [] as number[], reported: [] as (number | null)[] };
  const acts = { copy: async () => {}, report: async () => {} };
  const session = new Session({
    parts: { ...world.parts, clock },
    random: { next: () => 1 },
    timing: { poll: { kind: 'every', everyMs: MINUTE_MS }, auditEveryMs: MINUTE_MS },
    ending,
    readers: {
      publish: options.isPublished ? EVERY : null,
      exports:
        options.onExport === undefined
          ? null
          : {
              path: '/srv/export',
              everyMs: 15 * MINUTE_MS,
              exporter: { export: () => options.onExport?.(clock.monotonicMs()) ?? Promise.resolve(null) },
            },
      postCommit: {
        async publish(): Promise<Publication> {
          const { commits } = seen;
          seen.copies.push(clock.monotonicMs());
          await acts.copy();
          if (seen.copied === commits) return { kind: 'current', commitNumber: commits };
          seen.copied = commits;
          return { kind: 'published', commitNumber: commits, bytes: 1, isClone: false };
        },
      },
      hook: options.hasHook
        ? {
            async report(upTo) {
              seen.reported.push(upTo);
              await acts.report();
              return 1;
            },
          }
        : null,
      notifications: options.notifications ?? null,
    },
  });
  const goRound = async (): Promise<void> => {
    session.afterCommit?.begin(true);
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  };
  return {
    seen,
    acts,
    session,
    ending,
    logged: world.logged,
    async commit() {
      seen.commits += 1;
      session.report({ kind: 'retired', datasetId: 'parcels' });
      await goRound();
    },
    async pass(durationMs: number) {
      for (let restMs = durationMs; restMs > 0; restMs -= SECOND_MS) {
        clock.pass(Math.min(restMs, SECOND_MS));
        await goRound();
      }
    },
    goRound,
  };
}

it('publishes a copy at the start and after commits, at most once per interval, and none without a commit', async () => {
  const { seen, commit, pass, goRound } = await postCommitOf({ isPublished: true, hasHook: false });
  await goRound();
  expect(seen.copies).toEqual([0]);
  await pass(10 * MINUTE_MS);
  expect(seen.copies).toEqual([0]);
  await commit();
  expect(seen.copies).toEqual([0, 10 * MINUTE_MS]);
  for (let second = 0; second < 90; second += 1) {
    await pass(SECOND_MS);
    await commit();
  }
  await pass(10 * MINUTE_MS);
  expect(seen.copies.slice(2)).toEqual([11 * MINUTE_MS, 12 * MINUTE_MS]);
  expect(seen.copied).toBe(seen.commits);
});

it('publishes a copy after old history was forgotten, and none where nothing was too old', async () => {
  const { seen, pass, goRound, session } = await postCommitOf({ isPublished: true, hasHook: false });
  await goRound();
  await session.mirror.refresh(true);
  const upkeep = new Upkeep(session);
  let forgotten: Forgotten = 'nothing';
  session.parts.destination.forgetPast = async () => forgotten;
  upkeep.begin(true);
  await upkeep.ended();
  await pass(MINUTE_MS);
  expect(seen.copies).toEqual([0]);
  forgotten = 'all';
  upkeep.begin(true);
  await upkeep.ended();
  await goRound();
  expect(seen.copies).toEqual([0, MINUTE_MS]);
});

it('makes a slow copy less often: commits wait for it a tenth of the time at most', () => {
  expect(nextCopyMs(1_000, 1_100, MINUTE_MS)).toBe(1_000 + MINUTE_MS);
  expect(nextCopyMs(1_000, 1_000 + MINUTE_MS, MINUTE_MS)).toBe(1_000 + 10 * MINUTE_MS);
});

const GENERATION = { generation: 1, written: 1, files: 1, bytes: 1 };

it('exports at the start and after commits, at most once per export.every, and nothing without a commit', async () => {
  const exports: number[] = [];
  const { commit, pass, goRound } = await postCommitOf({
    isPublished: false,
    hasHook: false,
    async onExport(atMs) {
      exports.push(atMs);
      return GENERATION;
    },
  });
  await goRound();
  await pass(60 * MINUTE_MS);
  expect(exports).toEqual([0]);
  for (let minute = 0; minute < 40; minute += 1) {
    await commit();
    await pass(MINUTE_MS);
  }
  await pass(60 * MINUTE_MS);
  expect(exports.slice(1)).toEqual([60 * MINUTE_MS, 75 * MINUTE_MS, 90 * MINUTE_MS, 105 * MINUTE_MS]);
});

it('counts and reports a failed export, and tries it again before export.every is over', async () => {
  let attempts = 0;
  const { pass, goRound, session } = await postCommitOf({
    isPublished: false,
    hasHook: false,
    async onExport() {
      attempts += 1;
      if (attempts < 3) throw new StorageError('No space.', { code: 'export_failed' });
      return GENERATION;
    },
  });
  await goRound();
  expect(session.incidents.ongoing(session.nowMs())).toMatchObject([
    { of: 'export', error: 'export_failed' },
  ]);
  await pass(10 * MINUTE_MS);
  expect(attempts).toBe(3);
  expect(session.incidents.ongoing(session.nowMs())).toEqual([]);
  expect(Object.fromEntries(session.counts.counters().exports)).toEqual({ failed: 2, written: 1 });
});

it('publishes a commit that comes while a copy is made with the next copy', async () => {
  const { seen, acts, commit, pass, goRound } = await postCommitOf({ isPublished: true, hasHook: false });
  let finish = (): void => {};
  acts.copy = () => new Promise((resolve) => (finish = resolve));
  await goRound();
  await commit();
  await pass(2 * MINUTE_MS);
  expect(seen.copies).toEqual([0]);
  acts.copy = async () => {};
  finish();
  await pass(30 * MINUTE_MS);
  expect(seen.copied).toBe(2);
});

it('runs the command once the copy contains the commits that it reports', async () => {
  const { seen, acts, commit, pass, goRound } = await postCommitOf({ isPublished: true, hasHook: true });
  let finish = (): void => {};
  acts.copy = () => new Promise((resolve) => (finish = resolve));
  await goRound();
  expect(seen.reported).toEqual([]);
  finish();
  await pass(2 * SECOND_MS);
  expect(seen.reported).toEqual([1]);
  acts.copy = async () => {
    throw new StorageError('no space');
  };
  await commit();
  await pass(5 * MINUTE_MS);
  expect(seen.reported).toEqual([1]);
  acts.copy = async () => {};
  await pass(15 * MINUTE_MS);
  expect(seen.reported).toEqual([1, 2]);
});

it('runs the command at once for all commits where no copy is published, one run at a time', async () => {
  const { seen, acts, commit, goRound } = await postCommitOf({ isPublished: false, hasHook: true });
  let finish = (): void => {};
  acts.report = () => new Promise((resolve) => (finish = resolve));
  await goRound();
  await commit();
  await commit();
  expect(seen.reported).toEqual([null]);
  finish();
  await goRound();
  await goRound();
  expect(seen.reported).toEqual([null, null]);
  expect(seen.copies).toEqual([]);
});

it('retries a failed command with growing waits, and logs the failure once and the recovery once', async () => {
  const { seen, acts, pass, goRound, logged, session } = await postCommitOf({
    isPublished: false,
    hasHook: true,
  });
  acts.report = () => Promise.reject(new HookError('It ended with 1.'));
  await goRound();
  await pass(10 * SECOND_MS);
  expect(seen.reported).toHaveLength(2);
  await pass(MINUTE_MS);
  expect(seen.reported).toHaveLength(4);
  expect(session.incidents.ongoing(session.nowMs())).toMatchObject([
    { of: 'command after commits', error: 'hook_failed', message: 'It ended with 1.', attempts: 4 },
  ]);
  acts.report = async () => {};
  await pass(20 * MINUTE_MS);
  expect(seen.reported).toHaveLength(5);
  expect(session.incidents.ongoing(session.nowMs())).toEqual([]);
  expect(logged.map(([, { of }, message]) => `${of}: ${message}`)).toEqual([
    'command after commits: Failed; will be tried again.',
    'command after commits: Recovered.',
  ]);
});

it('starts nothing more once asked to stop, and raises no incident for an interruption', async () => {
  const { seen, acts, commit, ending, session, goRound } = await postCommitOf({
    isPublished: false,
    hasHook: true,
  });
  acts.report = () =>
    new Promise((_resolve, reject) =>
      ending.signal.addEventListener('abort', () => reject(ending.signal.reason)),
    );
  await goRound();
  session.stop(new InterruptedError('enough'));
  await session.afterCommit?.ended();
  await commit();
  expect(seen.reported).toEqual([null]);
  expect(session.incidents.ongoing(session.nowMs())).toEqual([]);
});

it('a notification that is not delivered holds up nothing, and is tried again with growing waits', async () => {
  const reports: (readonly string[])[] = [];
  const fates: (() => Promise<number>)[] = [
    () => new Promise<number>(() => {}),
    () => Promise.reject(new NotificationError('no')),
  ];
  let fate = fates[1];
  let kept = 0;
  const keep = () => {
    kept += 1;
  };
  const notify = (conditions: readonly Condition[]) => {
    reports.push(conditions.map(({ kind, cause, subject }) => `${kind} ${cause} ${subject}`));
    return fate?.() ?? Promise.resolve(0);
  };
  const { seen, session, commit, pass, goRound } = await postCommitOf({
    isPublished: true,
    hasHook: false,
    notifications: { notify, keep },
  });
  session.raise('service', new ServiceUnavailableError('It cannot be reached.'));
  await goRound();
  await pass(MINUTE_MS);
  const failing = 'failing service_unavailable service';
  expect(reports.slice(0, 2), 'its own failure is reported to nobody').toEqual([[failing], [failing]]);
  expect(reports.length).toBeLessThan(6);
  fate = fates[0];
  await pass(15 * MINUTE_MS);
  const before = reports.length;
  const keptBefore = kept;
  await commit();
  await pass(2 * MINUTE_MS);
  expect(kept - keptBefore, 'what happens meanwhile is stored').toBeGreaterThan(1);
  expect(seen.copied, 'copies go on').toBe(seen.commits);
  expect(reports.length, 'one at a time').toBe(before);
});
