/** States older than history.keep are forgotten also where nothing is committed any more (F69). */

import { statSync } from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type OldLog, PastLimit } from '../../src/destination/catalog/past-limit.ts';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { ServiceUnavailableError, StorageError } from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { duckdb, inMirror, manualClock, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';
import { smallDaemon } from '../support/small-daemon.ts';
import { oneSubscription, throwAt } from '../support/small-world.ts';
import { refusal } from '../support/sync-values.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe('PastLimit', () => {
  const log = (logName: string): OldLog => ({
    logName,
    tableName: logName,
    datasetId: logName,
    isFrozen: false,
  });

  it('sets no limit before the oldest state is that old, nor where history is kept for ever', async () => {
    const clock = manualClock();
    const limit = new PastLimit(3 * DAY_MS, clock);
    limit.note(null);
    await clock.sleep(3 * DAY_MS);
    expect(limit.before()).toBeNull();
    await clock.sleep(1);
    expect(limit.before()).toEqual(new Date(clock.now().getTime() - 3 * DAY_MS));
    limit.note(new Date(clock.now().getTime() - DAY_MS));
    expect(limit.before()).toBeNull();
    expect(new PastLimit(Number.POSITIVE_INFINITY, clock).before()).toBeNull();
  });

  it('prunes for two seconds or until other work waits, at least one step, and then waits for an hour', async () => {
    const clock = manualClock();
    const limit = new PastLimit(DAY_MS, clock);
    const steps: string[] = [];
    const forget = async ({ logName }: OldLog): Promise<boolean> => {
      await clock.sleep(900);
      steps.push(logName);
      return steps.length < 5;
    };
    const logs = [log('parcels'), log('roads')];
    expect(await limit.prune(logs, forget, () => false)).toBe(true);
    expect(steps).toEqual(['parcels', 'parcels', 'parcels']);
    expect(await limit.prune(logs, forget, () => true)).toBe(true);
    expect(steps).toHaveLength(4);
    expect(limit.before()).not.toBeNull();
    expect(await limit.prune(logs, forget, () => false)).toBe(false);
    expect(steps.slice(4)).toEqual(['parcels', 'roads']);
    limit.done(new Date(0), true);
    expect(limit.before()).toBeNull();
    await clock.sleep(HOUR_MS);
    expect(limit.before()).not.toBeNull();
  });
});

const people = sourceSchema([column('id', 'integer', false), column('owner', 'string')]);
const withoutOwner = sourceSchema([column('id', 'integer', false)], { schemaVersion: '2' });
const LOGS = 'SELECT log_name, first_commit::VARCHAR, row_count::VARCHAR FROM feed_sync.history_logs';

/** A mirror with the states of days 0 to 3, at the end of day 3. States that ended three days ago are forgotten. */
async function fourDays(options: Partial<MirrorOptions> = {}) {
  const clock = manualClock();
  const history = { keeps: () => true, keepMs: 3 * DAY_MS };
  const logged: string[] = [];
  const log: Log = { ...silentLog, info: (_fields, message) => void logged.push(message) };
  const world = await mirrorAtWork({ ...options, clock, history, log });
  const course = world.published(firstContent(people, [[1, 'Ann']]));
  await world.load(course);
  for (const owner of ['Bob', 'Cem', 'Dee']) {
    await clock.sleep(DAY_MS);
    course.publishRows([[1, owner]]);
    await world.apply(course);
  }
  await world.mirror.has();
  return { world, clock, history, logged };
}

describe('a mirror without commits', () => {
  it('F69 forgets each state once it ended too long ago, and keeps every later one', async () => {
    const { world, clock } = await fourDays();
    expect(await world.mirror.forgetPast()).toBe('nothing');
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '1', '3']]);
    await clock.sleep(2.5 * DAY_MS);
    expect(await world.mirror.forgetPast()).toBe('all');
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '3', '1']]);
    const stateAfter = (commit: number) =>
      inMirror(world.folder, `FROM history.parcels_as_of_commit(${commit})`);
    await expect(stateAfter(2)).rejects.toThrow('begins with commit 3');
    expect([await stateAfter(3), await stateAfter(4)]).toEqual([[['1', 'Cem']], [['1', 'Dee']]]);
    await clock.sleep(DAY_MS);
    await world.mirror.forgetPast();
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '4', '0']]);
  });

  it('F69 does not open the mirror for pruning while no state is old enough', async () => {
    const { world, clock } = await fourDays();
    const before = statSync(world.path, { bigint: true }).mtimeNs;
    await clock.sleep(0.9 * DAY_MS);
    expect(await world.mirror.forgetPast()).toBe('nothing');
    expect(statSync(world.path, { bigint: true }).mtimeNs).toBe(before);
  });

  it('F69 leaves the mirror to a reader that has it open, and prunes it once it is free', async () => {
    const { world, clock } = await fourDays();
    await clock.sleep(2.5 * DAY_MS);
    const reader = startChild('duckdb-holder-child.ts', world.path);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');
    expect(await world.mirror.forgetPast()).toBe('nothing');
    await reader.kill();
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '1', '3']]);
    await world.mirror.forgetPast();
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '3', '1']]);
  });

  it('F69 prunes a mirror that this process has not read yet', async () => {
    const { world, clock, history } = await fourDays();
    await world.mirror.close();
    await clock.sleep(2.5 * DAY_MS);
    const mirror = await mirrorIn(world.folder, { clock, history });
    onTestFinished(() => mirror.close());
    await mirror.forgetPast();
    expect(await inMirror(world.folder, LOGS)).toEqual([['parcels', '3', '1']]);
  });
});

/** Areas, which come before parcels, change on day 4, and get other columns on day 5; all of it is too old. */
async function beside(...byHand: readonly string[]) {
  const { world, clock, logged } = await fourDays();
  const areas = await world.loaded(firstContent(people, [[1, 'Ann']]), 'areas');
  await clock.sleep(DAY_MS);
  areas.publishRows([[1, 'Bob']]);
  await world.apply(areas);
  await clock.sleep(DAY_MS);
  if (byHand.some((sql) => sql.includes('areas__'))) {
    areas.publish(firstContent(withoutOwner, [[1]]));
    await world.load(areas);
  }
  await clock.sleep(9 * DAY_MS);
  await world.byHand(...byHand);
  return { world, logged, logs: () => inMirror(world.folder, `${LOGS} ORDER BY log_name`) };
}

describe('an undo log that was dropped or altered by hand', () => {
  it.each([
    ['DROP TABLE history.areas__7', ['areas', '7', '0']],
    ['DROP TABLE history.areas__7_log', ['areas', '7', '0']],
    ['DROP TABLE history.areas', ['areas', '6', '1']],
  ])('F69 forgets the other pasts after %s', async (sql, areas) => {
    const { world, logs } = await beside(sql);
    expect(await world.mirror.forgetPast()).toBe('all');
    expect(await logs()).toEqual([areas, ['parcels', '4', '0']]);
    expect(await world.mirror.forgetPast()).toBe('nothing');
  });

  it('F69 names an altered undo log and the command for it, once every other past was forgotten', async () => {
    const { world, logs, logged } = await beside('ALTER TABLE history.areas DROP COLUMN _commit');
    await expect(world.mirror.forgetPast()).rejects.toMatchObject({
      message: expect.stringContaining('The undo log history.areas of areas was dropped or altered'),
      hint: expect.stringContaining('feed-sync verify areas'),
    });
    expect(logged).toEqual(['Forgot the past of tables that is older than history.keep.']);
    expect(await logs()).toEqual([
      ['areas', '5', '1'],
      ['parcels', '4', '0'],
    ]);
  });
});

describe('a past that cannot be forgotten', () => {
  it('F69 forgets every other past, also where there is time for one only', async () => {
    const { world, logs } = await beside('ALTER TABLE history.areas DROP COLUMN _commit');
    await world.mirror.has();
    for (let time = 1; time <= 2; time += 1) {
      const forgotten = world.mirror.forgetPast().catch(() => null);
      // Work that waits ends the pruning after its first log.
      await Promise.all([forgotten, world.mirror.has()]);
    }
    expect(await logs()).toEqual([
      ['areas', '5', '1'],
      ['parcels', '4', '0'],
    ]);
  });
});

describe('the published copy after pruning', () => {
  it('F69 forgets in the published copy what the mirror has forgotten, without a commit', async () => {
    const place = await temporaryFolder();
    onTestFinished(() => place[Symbol.asyncDispose]());
    const path = `${place.path}/copy.duckdb`;
    const { world, clock } = await fourDays({ publish: { path, keptPaths: [], reserveBytes: 0 } });
    const begins = () =>
      duckdb(
        `ATTACH '${path}' AS c (READ_ONLY)`,
        'SELECT first_commit::VARCHAR FROM c.feed_sync.history_logs',
      );
    await world.mirror.publish();
    expect(await begins()).toEqual([['1']]);
    await clock.sleep(2.5 * DAY_MS);
    await world.mirror.forgetPast();
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 4 });
    expect(await begins()).toEqual([['3']]);
    expect(await world.mirror.publish()).toMatchObject({ kind: 'current' });
  });
});

describe('a catch-up that prunes', () => {
  it('F69 prunes until nothing old is left, also where the workspace is refused', async () => {
    const world = await oneSubscription('parcels');
    throwAt(world, /^subscriptions/, refusal({ kind: 'workspace' }));
    const forgetPast = vi.fn(async () => (forgetPast.mock.calls.length < 3 ? 'part' : 'all'));
    world.parts.destination.forgetPast = forgetPast;
    await world.catchUp();
    expect(forgetPast).toHaveBeenCalledTimes(3);
    await world.catchUp();
    expect(forgetPast).toHaveBeenCalledTimes(4);
  });

  it('F69 reports the error of pruning, and completes the catch-up', async () => {
    const world = await oneSubscription('parcels');
    const error = new StorageError('The disk is full.');
    world.parts.destination.forgetPast = () => Promise.reject(error);
    expect(await world.catchUp()).toMatchObject({
      datasets: [{ kind: 'updated' }],
      incidents: [{ subscriptionId: null, error }],
    });
  });
});

describe('a daemon that prunes', () => {
  it('F69 prunes once a minute, also while the service is unreachable, and reports an error until it is resolved', async () => {
    const world = await oneSubscription('parcels');
    throwAt(world, /^subscriptions/, new ServiceUnavailableError('It cannot be reached.'));
    let error: Error | null = null;
    const forgetPast = vi.fn(async () => {
      if (error !== null) throw error;
      return 'nothing' as const;
    });
    world.parts.destination.forgetPast = forgetPast;
    const { daemon, pass } = smallDaemon(world);
    await pass(10_000);
    expect(forgetPast).toHaveBeenCalledTimes(1);
    error = new StorageError('The disk is full.');
    await pass(60_000);
    expect(forgetPast).toHaveBeenCalledTimes(2);
    const incidents = () => JSON.stringify(daemon.state());
    expect(incidents()).toContain('The disk is full.');
    error = null;
    await pass(60_000);
    expect(incidents()).not.toContain('The disk is full.');
  });
});
