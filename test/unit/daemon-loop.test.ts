/** The daemon as a whole, with a service and a mirror in memory, a real checkpoint, and time that the test lets pass. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpointBeside } from '../../src/checkpoint/sqlite/open.ts';
import type { JobQueue } from '../../src/destination/destination.ts';
import { present } from '../../src/lib/assert.ts';
import type { LogPosition } from '../../src/model/desired-state.ts';
import {
  BusyError,
  ConfigurationError,
  ServiceUnavailableError,
  StorageError,
} from '../../src/model/errors.ts';
import { NOON_CLOCK } from '../support/checkpoint-files.ts';
import { commitAll } from '../support/commit-all.ts';
import { until } from '../support/patience.ts';
import { followingDaemon, smallDaemon } from '../support/small-daemon.ts';
import {
  calm,
  oneSubscription,
  publish,
  publishWithSnapshot,
  smallWorld,
  subscribe,
  throwAt,
  versions,
  type World,
} from '../support/small-world.ts';
import { entry, event, refusal, subscription, suspension } from '../support/sync-values.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const OUT_OF_REACH = new ServiceUnavailableError('It cannot be reached.');

/** Returns the messages that were logged at these levels. */
function reported(world: World, ...levels: readonly string[]): readonly string[] {
  return world.logged.filter(([level]) => levels.includes(level)).map(([, , message]) => message);
}

/** Lets another process of feed-sync act on the checkpoint meanwhile. */
function beside(world: World, act: (checkpoint: Checkpoint) => unknown): void {
  const checkpoint = openCheckpointBeside({ path: world.checkpointPath, uid: 1000, clock: NOON_CLOCK });
  if (checkpoint === null) throw new Error('there is a checkpoint');
  act(checkpoint);
  checkpoint.close();
}

function followedAt(checkpoint: Checkpoint): LogPosition | null {
  const one = checkpoint.followed().get('sub_1');
  return one === undefined
    ? null
    : { ...one, isExpiredCursorReplay: one.replayedAt !== null, readAt: one.cursorAt };
}

describe('the start', () => {
  it('starts with an audit, which catches every dataset up', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const { daemon, pass } = smallDaemon(world);
    await pass(SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1 });
    const state = daemon.state();
    expect(state).toMatchObject({ phase: 'following', suspensions: [], incidents: [] });
    expect(state.caughtUpAt).not.toBeNull();
    expect(state.subscriptions.get('sub_1')).toMatchObject({
      condition: 'idle',
      cursor: 'evt_100',
      head: 'evt_100',
    });
    expect(state.counters.commits).toEqual(new Map([['snapshot', 2]]));
  });

  it('reports its state without lifting a suspension of another API key', async () => {
    const { world, daemon } = await followingDaemon('parcels');
    const ofAnotherKey = { ...suspension({ kind: 'workspace' }), keyHash: 'another/key' };
    beside(world, (checkpoint) => checkpoint.suspend(ofAnotherKey));
    expect(daemon.state().suspensions).toEqual([]);
    beside(world, (checkpoint) => expect(checkpoint.suspensions()).toEqual([ofAnotherKey]));
  });

  it('starts while the service cannot be reached, and asks it less and less often', async () => {
    const world = await oneSubscription('parcels');
    throwAt(world, /^subscriptions/, OUT_OF_REACH);
    const { daemon, pass } = smallDaemon(world);
    await pass(10 * MINUTE_MS, 5 * SECOND_MS);
    expect(world.calls.length).toBeGreaterThan(4);
    expect(world.calls.length).toBeLessThan(12);
    expect(daemon.state()).toMatchObject({ phase: 'starting', caughtUpAt: null });
    expect(daemon.state().incidents).toMatchObject([{ of: 'service', error: 'service_unavailable' }]);
    calm(world);
    await pass(5 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 1 });
    expect(daemon.state().incidents).toEqual([]);
  });

  it('ends at the start where the mirror belongs to another service', async () => {
    const world = await oneSubscription('parcels');
    const own = { subscriptionIds: ['sub_1'], forgottenSubscriptionIds: [], datasetIds: [] };
    world.enrolments.push({ ...own, origin: 'https://other.example' });
    const { ended, pass } = smallDaemon(world);
    await pass(SECOND_MS);
    expect(await ended).toMatchObject({ kind: 'misconfigured', error: expect.any(ConfigurationError) });
  });
});

describe('a poll', () => {
  it('sends one request a minute where nothing is new, and logs nothing', async () => {
    const { world, pass } = await followingDaemon('parcels');
    await pass(30 * MINUTE_MS, 10 * SECOND_MS);
    expect(new Set(world.calls)).toEqual(new Set(['events sub_1']));
    expect(world.calls.length).toBeGreaterThanOrEqual(29);
    expect(world.calls.length).toBeLessThanOrEqual(31);
    expect(world.logged).toEqual([]);
  });

  it('makes an audit once an hour', async () => {
    const { world, pass } = await followingDaemon('parcels');
    await pass(3 * HOUR_MS + MINUTE_MS, 10 * SECOND_MS);
    expect(world.calls.filter((call) => call === 'manifest sub_1')).toHaveLength(3);
    // Before the logs are read, and after each manifest.
    expect(world.calls.filter((call) => call === 'subscriptions')).toHaveLength(6);
  });

  it('reconciles the datasets of new events, and reads no manifest where changes lead on', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    publish(world, 'parcels', { rowCount: 100_000 });
    await pass(MINUTE_MS + SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2, permits: 1 });
    expect(world.calls).toEqual(['events sub_1', 'versions parcels', 'schemas parcels', 'changes parcels 2']);
    expect(reported(world, 'info', 'warn', 'error')).toEqual(['Applied changes.']);
    expect(daemon.state().datasets.get('parcels')).toMatchObject({ version: 2, behindSince: null });
    expect(daemon.state().counters).toMatchObject({
      events: new Map([['dataset.updated', 1]]),
      rows: new Map([
        ['loaded', 20],
        ['added', 0],
        ['changed', 1],
        ['removed', 0],
      ]),
    });
  });

  it('reads the manifest once for all datasets that need their snapshot', async () => {
    const { world, pass } = await followingDaemon('parcels', 'permits');
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    publishWithSnapshot(world, 'permits', { resyncRequired: true });
    await pass(MINUTE_MS + SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2, permits: 2 });
    expect(world.calls.filter((call) => call === 'manifest sub_1')).toHaveLength(1);
  });

  it('reads only the manifest of the dataset in question where each dataset has its own', async () => {
    const world = await smallWorld();
    world.service.shape = 'dataset';
    const record = subscription({ datasetIds: ['parcels', 'permits'], datasetCount: 2 });
    subscribe(world, record, 'parcels', 'permits');
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 1 });
    calm(world);
    publishWithSnapshot(world, 'parcels', { resyncRequired: true });
    await pass(MINUTE_MS + SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2, permits: 1 });
    expect(world.calls.filter((call) => call.startsWith('entry'))).toEqual(['entry parcels']);
  });

  it('reads a long log to its end without waiting for the next poll', async () => {
    const { world, pass } = await followingDaemon('parcels');
    const log = world.service.logs.get('sub_1') ?? [];
    for (let number = 101; number <= 1_200; number += 1)
      log.push(event(number, 'dataset.updated', { version: 1 }));
    await pass(MINUTE_MS + 2 * SECOND_MS);
    expect(world.checkpoint.followed().get('sub_1')?.cursor?.number).toBe(1_200n);
  });

  it('takes an expired position anew from the manifest', async () => {
    const { world, pass } = await followingDaemon('parcels');
    publishWithSnapshot(world, 'parcels');
    publishWithSnapshot(world, 'parcels');
    world.service.keepsEventsFrom = 102n;
    await pass(2 * MINUTE_MS);
    expect(versions(world)).toEqual({ parcels: 3 });
    expect(world.calls).toContain('manifest sub_1');
  });

  it('W10 reads the members again after an event about a dataset that is no member', async () => {
    const { world, pass } = await followingDaemon('parcels');
    world.service.members.get('sub_1')?.push('zoning');
    world.service.snapshots.set('zoning', entry('zoning', 1));
    world.service.logs.get('sub_1')?.push(event(101, 'dataset.updated', { datasetId: 'zoning', version: 1 }));
    world.service.watermarkCovers.set('sub_1', { text: 'evt_101', number: 101n });
    await pass(2 * MINUTE_MS);
    expect(versions(world)).toEqual({ parcels: 1, zoning: 1 });
  });

  it('retires a former member only once every log was read since it left', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels', 'permits');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    world.service.logs.get('sub_1')?.push(event(101, 'dataset.removed', { datasetId: 'permits' }));
    throwAt(world, /^events sub_2/, OUT_OF_REACH);
    await pass(3 * MINUTE_MS, 5 * SECOND_MS);
    expect(world.retired).toEqual([]);
    const waits = world.logged.filter(([, , message]) => message === 'Waiting.');
    expect(waits.at(-1)?.[1]).toMatchObject({ dataset: 'permits', subscriptions: ['sub_2'] });
    calm(world);
    await pass(6 * MINUTE_MS, 5 * SECOND_MS);
    expect(world.retired).toMatchObject([{ datasetId: 'permits' }]);
  });
});

describe('a dataset that moved to a new subscription', () => {
  it('lists the subscriptions again before it retires a dataset, and keeps one that moved to a new subscription', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels', 'permits');
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    subscribe(world, subscription({ id: 'sub_2' }), 'permits');
    world.service.logs.get('sub_1')?.push(event(101, 'dataset.removed', { datasetId: 'permits' }));
    await pass(6 * MINUTE_MS, 5 * SECOND_MS);
    expect(world.retired).toEqual([]);
    expect(world.calls.filter((call) => call === 'events sub_2').length).toBeGreaterThan(1);
  });
});

describe('an incident', () => {
  it('delays no other subscription while one fails, and logs the incident louder as it lasts, and its end', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    const { daemon, pass } = smallDaemon(world);
    await pass(SECOND_MS);
    world.logged.length = 0;
    throwAt(world, /^events sub_1/, OUT_OF_REACH);
    await pass(40 * MINUTE_MS, 5 * SECOND_MS);
    expect(daemon.state().subscriptions.get('sub_1')?.condition).toBe('failing');
    expect(daemon.state().subscriptions.get('sub_2')?.condition).toBe('idle');
    expect(world.calls.filter((call) => call === 'events sub_2').length).toBeGreaterThan(36);
    calm(world);
    await pass(6 * MINUTE_MS, 5 * SECOND_MS);
    expect(world.logged.map(([level, , message]) => [level, message])).toEqual([
      ['info', 'Failed; will be tried again.'],
      ['warn', 'Still failing.'],
      ['error', 'Still failing.'],
      ['warn', 'Recovered.'],
    ]);
  });

  it('M20 F32 lets a dataset wait for a manifest that lags, and reads it again at growing intervals', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    publish(world, 'parcels', { resyncRequired: true });
    await pass(30 * MINUTE_MS, 5 * SECOND_MS);
    const tries = world.calls.filter((call) => call === 'manifest sub_1').length;
    expect(tries).toBeGreaterThan(4);
    expect(tries).toBeLessThan(12);
    expect(daemon.state().datasets.get('parcels')).toMatchObject({
      version: 1,
      waitsFor: 'the manifest is older than what the service has announced, or may be',
      retryAt: expect.any(Date),
      behindSince: expect.any(Date),
    });
    expect(daemon.state().subscriptions.get('sub_1')?.condition).toBe('behind');
    expect(reported(world, 'info', 'warn', 'error')).toEqual(['Waiting.']);
    world.service.snapshots.set('parcels', entry('parcels', 2));
    await pass(15 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2 });
  });

  it('F10 retries a commit while a reader has the mirror open, without a busy loop, and reports a stall in the end', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    publish(world, 'parcels');
    let attempts = 0;
    world.intervene = (call) => {
      if (call !== 'commit') return;
      attempts += 1;
      throw new BusyError('A reader has it.');
    };
    await pass(20 * MINUTE_MS, 5 * SECOND_MS);
    expect(attempts).toBeGreaterThan(5);
    expect(attempts).toBeLessThan(20);
    expect(daemon.state().incidents).toMatchObject([{ of: 'run', error: 'mirror_busy', isStall: true }]);
    expect(daemon.state().subscriptions.get('sub_1')?.condition).toBe('stalled');
    calm(world);
    await pass(16 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2 });
    expect(daemon.state().incidents).toEqual([]);
  });

  it('F07 raises one incident where many datasets meet a full disk, and recovers soon once there is room', async () => {
    const datasetIds = Array.from({ length: 40 }, (_, index) => `dataset-${index}`);
    const { world, daemon, pass } = await followingDaemon(...datasetIds);
    for (const datasetId of datasetIds) publish(world, datasetId);
    throwAt(world, /^changes/, new StorageError('The disk is full.'));
    await pass(MINUTE_MS + SECOND_MS);
    expect(daemon.state().incidents).toMatchObject([{ of: 'run', error: 'storage_failed' }]);
    calm(world);
    await pass(15 * SECOND_MS);
    expect(versions(world)).toEqual(Object.fromEntries(datasetIds.map((datasetId) => [datasetId, 2])));
    expect(daemon.state().incidents).toEqual([]);
  });

  it('F07 lets a dataset without room on the disk delay no other, and retries it once there is room', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    for (const datasetId of ['parcels', 'permits'])
      publishWithSnapshot(world, datasetId, { resyncRequired: true });
    throwAt(
      world,
      /^download parcels/,
      new StorageError('The files of dataset parcels need 3 GB.', { code: 'disk_full' }),
    );
    await pass(2 * MINUTE_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 2 });
    expect(daemon.state().datasets.get('parcels')?.failure?.error).toBe('disk_full');
    calm(world);
    await pass(3 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2, permits: 2 });
    expect(daemon.state().datasets.get('parcels')?.failure).toBeNull();
  });

  it('lets a dataset that fails delay no other, and retries it on a clock of its own', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    publish(world, 'parcels');
    publish(world, 'permits');
    throwAt(world, /^versions parcels/, OUT_OF_REACH);
    await pass(2 * MINUTE_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 2 });
    expect(daemon.state().datasets.get('parcels')?.failure?.error).toBe('service_unavailable');
    calm(world);
    await pass(3 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2, permits: 2 });
    expect(daemon.state().datasets.get('parcels')?.failure).toBeNull();
  });
});

describe('work that takes long', () => {
  /** Commits wait until they are let go. */
  function slowMirror(world: World) {
    const { destination } = world.parts;
    const waiting = Promise.withResolvers<void>();
    const started: string[] = [];
    Object.assign(world.parts, {
      destination: {
        ...destination,
        commit: async (queue: JobQueue) => {
          const jobs = queue.take();
          started.push(...jobs.map(({ job }) => `${job.datasetId} ${job.kind}`));
          await waiting.promise;
          for (const [index, outcome] of (await commitAll(destination, jobs)).entries())
            queue.report(present(jobs[index], 'every outcome belongs to a write job'), outcome);
        },
      },
    });
    return { started, release: () => waiting.resolve() };
  }

  it('polls on during work of hours, does not start it twice, and finds what was published meanwhile', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const { started, release } = slowMirror(world);
    const { daemon, clock, settle } = smallDaemon(world);
    const pass = async (durationMs: number) => {
      for (let restMs = durationMs; restMs > 0; restMs -= 30 * SECOND_MS) {
        clock.pass(30 * SECOND_MS);
        daemon.notePlannedWait(MINUTE_MS);
        for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await pass(MINUTE_MS);
    try {
      await until('a commit that is under way', () => started.length === 1);
      publishWithSnapshot(world, 'parcels', { resyncRequired: true });
      publishWithSnapshot(world, 'permits');
      await pass(2 * HOUR_MS + 10 * MINUTE_MS);
      expect(world.calls.filter((call) => call === 'events sub_1').length).toBeGreaterThan(110);
      expect(world.calls.filter((call) => call === 'discover').length).toBe(3);
      expect(world.checkpoint.followed().get('sub_1')?.cursor?.number).toBe(102n);
      expect(daemon.state().datasets.get('parcels')?.work?.step).toBe('loading version 1');
      // Which of the two is ready first is left to the threads that read their files.
      expect(started).toHaveLength(1);
    } finally {
      release();
    }
    await pass(MINUTE_MS);
    await settle();
    expect(versions(world)).toEqual({ parcels: 2, permits: 2 });
  });

  it('resumes work that failed while the service was out of reach once the service answers', async () => {
    const { world, pass } = await followingDaemon('parcels');
    publish(world, 'parcels');
    throwAt(world, /^(versions|events)/, OUT_OF_REACH);
    world.intervene = (call) => {
      if (/^versions/.test(call)) throw OUT_OF_REACH;
    };
    await pass(MINUTE_MS + SECOND_MS);
    throwAt(world, /^(versions|events)/, OUT_OF_REACH);
    await pass(3 * HOUR_MS, 10 * SECOND_MS);
    calm(world);
    await pass(6 * MINUTE_MS, 10 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 2 });
  });
});

describe('a quiet log', () => {
  it('F37 warns 30, 14 and 3 days before the position of a quiet log expires, each time once', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    const days: number[] = [];
    for (let day = 1; day < 90; day += 1) {
      world.logged.length = 0;
      await pass(24 * HOUR_MS, 12 * HOUR_MS);
      const warnings = reported(world, 'warn');
      if (warnings.length > 0) days.push(90 - day);
      expect(warnings.length).toBeLessThan(2);
    }
    expect(days).toEqual([30, 14, 3]);
    expect(daemon.state().subscriptions.get('sub_1')?.cursorAgeMs).toBeGreaterThan(88 * 24 * HOUR_MS);
    expect(daemon.state().subscriptions.get('sub_1')?.condition).toBe('idle');
  });

  it('F13 polls a quiet log as before when the clock is set by a day', async () => {
    const { world, clock, daemon, pass } = await followingDaemon('parcels');
    for (const byMs of [24 * HOUR_MS, -48 * HOUR_MS]) {
      clock.jump(byMs);
      calm(world);
      await pass(10 * MINUTE_MS, 5 * SECOND_MS);
      expect(world.calls.filter((call) => call === 'events sub_1').length).toBeGreaterThanOrEqual(9);
      expect(daemon.state().subscriptions.get('sub_1')?.cursorAgeMs).toBeGreaterThanOrEqual(0);
    }
  });
});

describe('a refusal', () => {
  it('R16 F23 sends no request while the workspace is refused, and notices within a second when an operator lifts it', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    throwAt(world, /^events/, refusal({ kind: 'workspace' }));
    await pass(2 * MINUTE_MS);
    expect(world.calls).toEqual(['events sub_1']);
    expect(reported(world, 'warn')).toEqual(['Suspended: an operator must act. See feed-sync status.']);
    expect(daemon.state().subscriptions.get('sub_1')?.condition).toBe('suspended');
    calm(world);
    await pass(30 * MINUTE_MS, 10 * SECOND_MS);
    expect(world.calls).toEqual([]);
    beside(world, (checkpoint) => checkpoint.lift({ kind: 'workspace' }));
    await pass(SECOND_MS);
    expect(world.calls).toContain('subscriptions');
  });

  it('R16 stops waiting datasets, too, while the workspace is refused', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels');
    publish(world, 'parcels', { resyncRequired: true });
    await pass(MINUTE_MS + SECOND_MS);
    expect(daemon.state().datasets.get('parcels')).toMatchObject({ version: 1 });
    throwAt(world, /^events/, refusal({ kind: 'workspace' }));
    await pass(MINUTE_MS);
    calm(world);
    await pass(30 * MINUTE_MS, 10 * SECOND_MS);
    expect(world.calls).toEqual([]);
  });

  it('R4 R16 suspends a subscription that is refused, and polls the others', async () => {
    const world = await oneSubscription('parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    throwAt(world, /^events sub_2/, refusal({ kind: 'subscription', subscriptionId: 'sub_2' }));
    await pass(MINUTE_MS + SECOND_MS);
    calm(world);
    await pass(5 * MINUTE_MS, 5 * SECOND_MS);
    expect(new Set(world.calls)).toEqual(new Set(['events sub_1']));
    beside(world, (checkpoint) => checkpoint.lift({ kind: 'subscription', subscriptionId: 'sub_2' }));
    await pass(SECOND_MS);
    expect(world.calls).toContain('events sub_2');
  });

  it('ends where the workspace is refused before there is a mirror', async () => {
    const world = await oneSubscription('parcels');
    throwAt(world, /^subscriptions/, refusal({ kind: 'workspace' }));
    const first = smallDaemon(world);
    await first.pass(2 * SECOND_MS);
    expect(await first.ended).toMatchObject({ kind: 'refused' });
    calm(world);
    const second = smallDaemon(world);
    await second.pass(SECOND_MS);
    expect(await second.ended).toMatchObject({ kind: 'refused' });
    expect(world.calls).toEqual([]);
  });

  it('F24 suspends a dataset that is refused, and catches the others up', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    publish(world, 'parcels');
    publish(world, 'permits');
    throwAt(world, /^versions parcels/, refusal({ kind: 'dataset', datasetId: 'parcels' }));
    await pass(MINUTE_MS + SECOND_MS);
    calm(world);
    publish(world, 'parcels');
    await pass(5 * MINUTE_MS, 5 * SECOND_MS);
    expect(versions(world)).toEqual({ parcels: 1, permits: 2 });
    expect(world.calls.filter((call) => call !== 'events sub_1')).toEqual([]);
    expect(daemon.state().suspensions).toHaveLength(1);
  });
});

describe('an operator', () => {
  it('notices within a second that an operator requested a resync', async () => {
    const { world, daemon, pass } = await followingDaemon('parcels', 'permits');
    beside(world, (checkpoint) => checkpoint.requestResync(['permits']));
    await pass(SECOND_MS);
    expect(world.calls).toContain('download permits');
    expect(world.calls).not.toContain('download parcels');
    expect(daemon.state().counters.resyncs).toEqual(new Map([['resync', 1]]));
  });

  it('reads the mirror again where another process worked on it meanwhile, and asks the service for nothing', async () => {
    const { world, pass } = await followingDaemon('parcels', 'permits');
    const request = {
      createdAt: NOON_CLOCK.now(),
      readAt: NOON_CLOCK.now(),
      knownVersion: 1,
      isWithdrawal: false,
    };
    const mark = { logNumber: 1, eventNumber: 200n };
    beside(world, (checkpoint) => {
      checkpoint.commitFollowStep({
        subscriptionId: 'sub_1',
        subscriptionName: 'Travis',
        position: present(followedAt(checkpoint), 'it is followed'),
        changes: [{ kind: 'reload', datasetId: 'parcels', version: null, ...mark, ...request }],
      });
      const parcels = present(world.tables.get('parcels'), 'it is there');
      const satisfied = { ...mark, createdAt: request.createdAt };
      world.tables.set('parcels', { ...parcels, reloads: new Map([['sub_1', satisfied]]) });
    });
    await pass(10 * SECOND_MS);
    expect(world.calls).toEqual([]);
  });

  it('retires the datasets of a subscription that the operator gives up, where no other contains them', async () => {
    const world = await smallWorld();
    subscribe(world, subscription(), 'parcels');
    subscribe(world, subscription({ id: 'sub_2' }), 'zoning');
    const { pass } = smallDaemon(world);
    await pass(SECOND_MS);
    world.service.subscriptions.pop();
    await pass(HOUR_MS + MINUTE_MS, 10 * SECOND_MS);
    expect(world.checkpoint.suspensions()).toEqual([]);
    await pass(11 * MINUTE_MS, 10 * SECOND_MS);
    expect(world.checkpoint.suspensions()).toMatchObject([{ refusal: { code: 'subscription_missing' } }]);
    expect(world.tables.has('zoning')).toBe(true);
    beside(world, (checkpoint) => checkpoint.forget('sub_2'));
    await pass(30 * SECOND_MS);
    expect(world.retired).toMatchObject([{ datasetId: 'zoning' }]);
    expect(world.checkpoint.forgotten()).toEqual([]);
  });

  it('polls at once where the operator requests it', async () => {
    const { world, daemon, settle } = await followingDaemon('parcels');
    publish(world, 'parcels');
    daemon.pollNow();
    await settle();
    expect(versions(world)).toEqual({ parcels: 2 });
  });
});

describe('the end of the daemon', () => {
  it('stops when it is asked to', async () => {
    const { daemon, ended } = await followingDaemon('parcels');
    daemon.stop();
    expect(await ended).toEqual({ kind: 'stopped' });
    expect(daemon.state().phase).toBe('draining');
  });

  it('reports itself stuck where work under way does not end after the demand to stop', async () => {
    const { world, daemon, ended, clock } = await followingDaemon('parcels');
    publish(world, 'parcels');
    let reached = (): void => {};
    const began = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let release = (): void => {};
    world.service.changes.set('parcels 2', () => {
      reached();
      return new Promise((resolve) => {
        release = () => resolve({ recorded: false, why: 'it was released' });
      });
    });
    clock.pass(MINUTE_MS);
    await began;
    daemon.stop();
    await new Promise((resolve) => setImmediate(resolve));
    clock.pass(30 * SECOND_MS);
    expect(await ended).toEqual({ kind: 'stuck' });
    release();
  });

  it('ends where nothing moves for five minutes; bytes that are read for a digest count as movement', async () => {
    const { world, daemon, ended, clock } = await followingDaemon('parcels');
    publish(world, 'parcels');
    let release = (): void => {};
    let reached = (): void => {};
    const began = new Promise<void>((resolve) => {
      reached = resolve;
    });
    world.service.changes.set('parcels 2', () => {
      reached();
      return new Promise((_, reject) => {
        release = () => reject(new ServiceUnavailableError('it was released'));
      });
    });
    clock.pass(MINUTE_MS);
    await began;
    throwAt(world, /^events/, OUT_OF_REACH);
    const pass = async (lastingSeconds: number, readBytes: number): Promise<void> => {
      for (let seconds = 0; seconds < lastingSeconds; seconds += 1) {
        world.service.progress += readBytes;
        clock.pass(SECOND_MS);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await pass(600, 1_000_000);
    expect(daemon.state().phase).toBe('following');
    await pass(310, 0);
    release();
    expect(await ended).toEqual({ kind: 'standstill' });
  });
});
