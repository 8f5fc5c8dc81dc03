/** Decisions of the daemon by time: polls, retries, warnings, and the conditions of subscriptions. */

import { afterEach, describe, expect, it, vi } from 'vitest';
import { ERROR_AFTER_MS, IncidentLog, loudness, WARN_AFTER_MS } from '../../src/daemon/incident-log.ts';
import {
  type Condition,
  conditionOf,
  dueExpiryWarningMs,
  STALLED_AFTER_MS,
  STANDSTILL_MS,
  Watchdog,
} from '../../src/daemon/liveness.ts';
import { steadyDelayMs } from '../../src/lib/backoff.ts';
import { silentLog } from '../../src/lib/log.ts';
import { BusyError, DataError, ServiceUnavailableError, StorageError } from '../../src/model/errors.ts';
import { nextPoll, RetryClock } from '../../src/sync/clocks.ts';
import { WorkQueue } from '../../src/sync/work-queue.ts';

const DAY_MS = 86_400_000;
const NOON = new Date('2026-03-01T12:00:00Z');
const always = (value: number) => ({ next: () => value });

describe('the next poll', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('polls after the interval, up to a tenth sooner or later', () => {
    const every = { kind: 'every', everyMs: 60_000 } as const;
    const now = { wall: NOON, monotonicMs: 500_000 };
    const waits = [0, 0.5, 0.999].map((value) => nextPoll(every, now, always(value)).dueMs(now) - 500_000);
    expect(waits).toEqual([54_000, 60_000, 65_988]);
  });

  it('polls by the schedule in the time zone of the process, and never twice for one time', () => {
    const hourly = { kind: 'schedule', schedule: '0 * * * *' } as const;
    const at = (time: string) => {
      const now = { wall: new Date(time), monotonicMs: 500_000 };
      return nextPoll(hourly, now, always(0.5)).dueMs(now) - now.monotonicMs;
    };
    vi.stubEnv('TZ', 'Asia/Kolkata');
    expect(at('2026-03-01T12:45:00Z')).toBe(45 * 60_000);
    vi.stubEnv('TZ', 'UTC');
    expect(at('2026-03-01T12:45:00Z')).toBe(15 * 60_000);
    expect(at('2026-03-01T13:00:00Z')).toBe(60 * 60_000);
    expect(at('2026-03-01T12:59:59.900Z')).toBe(100);
  });
});

describe('the waits between attempts', () => {
  it('lets waits grow to the longest, each at least half of its nominal length', () => {
    const backoff = { baseDelayMs: 1_000, maxDelayMs: 10_000 };
    const at = (value: number) =>
      [1, 2, 3, 4, 5, 60].map((attempt) => steadyDelayMs(backoff, attempt, always(value)));
    expect(at(0)).toEqual([500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    expect(at(1)).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
  });

  it('starts from the shortest wait again after an attempt that succeeded', () => {
    const clock = new RetryClock({ baseDelayMs: 1_000, maxDelayMs: 10_000 }, always(0.5));
    clock.failed(0);
    clock.failed(1_000);
    expect(clock).toMatchObject({ attempts: 2, dueMs: 2_500 });
    clock.succeeded();
    expect(clock).toMatchObject({ attempts: 0, dueMs: 0 });
    clock.failed(5_000);
    expect(clock.dueMs).toBe(5_750);
  });
});

describe('the work queue', () => {
  const all = () => true;

  it('hands out the dataset that is due for longest, and none that is worked on', () => {
    const workQueue = new WorkQueue(always(0.5));
    workQueue.ask('b', 10);
    workQueue.ask('a', 20);
    expect(workQueue.take(5, all)).toBeNull();
    expect(workQueue.take(30, (datasetId) => datasetId !== 'b')?.datasetId).toBe('a');
    expect(workQueue.take(30, all)?.datasetId).toBe('b');
    expect(workQueue.take(30, all)).toBeNull();
  });

  it('postpones a waiting dataset for longer each time, and not at all once something new is known', () => {
    const workQueue = new WorkQueue(always(1));
    workQueue.ask('a', 0);
    const waits: number[] = [];
    let nowMs = 0;
    for (let attempt = 0; attempt < 9; attempt += 1) {
      const entry = workQueue.take(nowMs, all);
      if (entry === null) throw new Error('it is due');
      workQueue.postpone(entry, 'the manifest lags', nowMs);
      const dueMs = workQueue.entries.get('a')?.dueMs ?? 0;
      waits.push(dueMs - nowMs);
      nowMs = dueMs;
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900].map((seconds) => seconds * 1_000));
    workQueue.ask('a', 7);
    expect(workQueue.entries.get('a')).toMatchObject({ dueMs: 7, sinceMs: 7, attempts: 0, waitsFor: null });
  });

  it('keeps a request for a dataset that comes while the dataset is worked on', () => {
    const workQueue = new WorkQueue(always(0.5));
    workQueue.ask('a', 0);
    const entry = workQueue.take(0, all);
    workQueue.ask('a', 5);
    if (entry !== null) workQueue.postpone(entry, 'why', 6);
    expect(workQueue.entries.get('a')).toMatchObject({ dueMs: 5, waitsFor: null });
  });

  it('makes datasets that an outage postponed due once the service answers, and no others', () => {
    const workQueue = new WorkQueue(always(0.5));
    workQueue.askLater('lagging', 'the manifest lags', 0, 60_000);
    workQueue.ask('out of reach', 0);
    const entry = workQueue.take(0, all);
    if (entry !== null) workQueue.postpone(entry, 'no answer', 0, { waitMs: 60_000, isOutage: true });
    workQueue.outageOver(5_000);
    expect(workQueue.entries.get('out of reach')?.dueMs).toBe(5_000);
    expect(workQueue.entries.get('lagging')?.dueMs).toBe(60_000);
  });

  it('does not take a manifest for new that was read before an event', () => {
    const workQueue = new WorkQueue(always(0.5));
    workQueue.ask('a', 10);
    workQueue.ask('a', 20, 5);
    expect(workQueue.entries.get('a')?.sinceMs).toBe(10);
  });
});

describe('the condition of a subscription', () => {
  const calm: Condition = {
    isSuspended: false,
    isFailing: false,
    isAtHead: true,
    work: 'none',
    sinceMovedMs: 100 * DAY_MS,
  };
  it.each<readonly [string, Partial<Condition>, string]>([
    ['idle, however long nothing has happened', {}, 'idle'],
    ['behind, where its log is not read to the end', { isAtHead: false, sinceMovedMs: 0 }, 'behind'],
    ['behind, where its datasets have work to do', { work: 'to-do', sinceMovedMs: 0 }, 'behind'],
    ['behind, where its datasets wait, however long', { work: 'waiting' }, 'behind'],
    [
      'stalled, where it is behind and nothing has moved for long',
      { work: 'to-do', sinceMovedMs: STALLED_AFTER_MS },
      'stalled',
    ],
    ['failing, where its last reading failed', { isFailing: true }, 'failing'],
    ['stalled, where it fails and is behind for long', { isFailing: true, isAtHead: false }, 'stalled'],
    [
      'suspended, whatever else is the case',
      { isSuspended: true, isFailing: true, work: 'to-do' },
      'suspended',
    ],
  ])('calls a subscription %s', (_, changed, condition) => {
    expect(conditionOf({ ...calm, ...changed })).toBe(condition);
  });

  it('F37 warns 30, 14 and 3 days before a position expires', () => {
    let warned: number | null = null;
    const given: number[] = [];
    for (let day = 0; day <= 95; day += 1) {
      const due = dueExpiryWarningMs(day * DAY_MS, warned);
      if (typeof due !== 'number') continue;
      warned = due;
      given.push(day);
    }
    expect(given).toEqual([60, 76, 87]);
    expect(dueExpiryWarningMs(DAY_MS, warned)).toBe('none');
  });
});

describe('an incident', () => {
  it('logs an incident at a higher level the longer it lasts', () => {
    const passing = new ServiceUnavailableError('no');
    expect([0, WARN_AFTER_MS, ERROR_AFTER_MS].map((lastedMs) => loudness(passing, lastedMs))).toEqual([
      'info',
      'warn',
      'error',
    ]);
    expect(loudness(new DataError('bad'), 0)).toBe('warn');
    expect(loudness(new StorageError('full'), 0)).toBe('warn');
    expect(loudness(new TypeError('a bug'), 0)).toBe('error');
  });

  it('logs an incident once a level, however often it is met, and again when the error is another', () => {
    const reported: string[] = [];
    const at = (level: string) => (fields: Readonly<Record<string, unknown>>) => {
      reported.push(`${level} ${String(fields['error'])}`);
    };
    const log = { ...silentLog, info: at('info'), warn: at('warn'), error: at('error') };
    const incidents = new IncidentLog(log);
    for (let nowMs = 0; nowMs < ERROR_AFTER_MS * 2; nowMs += 10_000) {
      incidents.raise('run', new BusyError(`attempt at ${nowMs}`), NOON, nowMs);
      incidents.escalate(nowMs);
    }
    expect(reported).toEqual(['info mirror_busy', 'warn mirror_busy', 'error mirror_busy']);
    expect(incidents.ongoing(ERROR_AFTER_MS * 2)).toMatchObject([
      { of: 'run', attempts: 360, isStall: true },
    ]);
    incidents.raise('run', new StorageError('full'), NOON, ERROR_AFTER_MS * 2);
    incidents.resolve('run', ERROR_AFTER_MS * 2);
    incidents.resolve('run', ERROR_AFTER_MS * 2);
    expect(reported.slice(3)).toEqual(['error storage_failed', 'warn storage_failed']);
    expect(incidents.ongoing(0)).toEqual([]);
  });
});

describe('the watchdog', () => {
  it('finds a standstill where nothing has moved for long while something is under way', () => {
    const watchdog = new Watchdog(0);
    expect(watchdog.standsStill(STANDSTILL_MS - 1, true)).toBe(false);
    expect(watchdog.standsStill(STANDSTILL_MS, true)).toBe(true);
    watchdog.moved(STANDSTILL_MS);
    expect(watchdog.standsStill(STANDSTILL_MS + 1, true)).toBe(false);
  });

  it('finds no standstill where nothing is under way, or during a planned wait', () => {
    const watchdog = new Watchdog(0);
    expect(watchdog.standsStill(10 * STANDSTILL_MS, false)).toBe(false);
    expect(watchdog.standsStill(10 * STANDSTILL_MS + 1, true)).toBe(false);
    watchdog.planned(20 * STANDSTILL_MS);
    watchdog.moved(11 * STANDSTILL_MS);
    expect(watchdog.standsStill(20 * STANDSTILL_MS, true)).toBe(false);
    expect(watchdog.standsStill(21 * STANDSTILL_MS, true)).toBe(true);
  });
});
