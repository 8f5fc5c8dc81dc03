/** The daemon where its machine is suspended, or its wall clock is set by an hour or a day. Time is steered by the test. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Timing } from '../../src/daemon/session.ts';
import { type ClockReading, dueAfter, nextPoll } from '../../src/sync/clocks.ts';
import { NOON } from '../support/checkpoint-files.ts';
import { smallDaemon } from '../support/small-daemon.ts';
import {
  calm,
  oneSubscription,
  publish,
  publishWithSnapshot,
  versions,
  type World,
} from '../support/small-world.ts';
import type { SteppedClock } from '../support/stepped-clock.ts';
import { event, version } from '../support/sync-values.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const STEP_MS = 10 * SECOND_MS;

const EVERY_DAY_AT_SIX = '0 6 * * *';
const EVERY_HOUR = '0 * * * *';

interface ClockFault {
  readonly title: string;
  readonly act: (clock: SteppedClock) => void;
}

const FORWARD: readonly ClockFault[] = [
  { title: 'the machine is suspended for 26 hours', act: (clock) => clock.suspend(26 * HOUR_MS) },
  { title: 'the clock is set forward by 1 hour', act: (clock) => clock.jump(HOUR_MS) },
  { title: 'the clock is set forward by 1 day', act: (clock) => clock.jump(DAY_MS) },
];
const BACK: readonly ClockFault[] = [
  { title: 'the clock is set back by 1 hour', act: (clock) => clock.jump(-HOUR_MS) },
  { title: 'the clock is set back by 1 day', act: (clock) => clock.jump(-DAY_MS) },
];

// Schedules are read in the time zone of the process.
beforeEach(() => void vi.stubEnv('TZ', 'UTC'));
afterEach(() => void vi.unstubAllEnvs());

const polls = ({ calls }: World): number => calls.filter((call) => call === 'events sub_1').length;
const audits = ({ calls }: World): number => calls.filter((call) => call === 'manifest sub_1').length;

/** A daemon that has caught up at noon (UTC), and half an hour later. */
async function halfPastNoon(timing: Timing) {
  const world = await oneSubscription('parcels');
  const daemon = smallDaemon(world, timing);
  await daemon.pass(30 * MINUTE_MS, STEP_MS);
  calm(world);
  return { world, ...daemon };
}

/** Audits come seldom, so that all reading is that of polls. */
const scheduled = (schedule: string): Timing => ({
  poll: { kind: 'schedule', schedule },
  auditEveryMs: 1_000 * DAY_MS,
});
const every = (everyMs: number): Timing => ({
  poll: { kind: 'every', everyMs },
  auditEveryMs: 1_000 * DAY_MS,
});

describe.each(FORWARD)('F52 where $title', ({ act }) => {
  it('polls at once, and once, for a time of the schedule that was passed over', async () => {
    const { world, clock, pass } = await halfPastNoon(scheduled(EVERY_HOUR));
    publish(world, 'parcels');
    act(clock);
    await pass(SECOND_MS);
    expect(polls(world)).toBe(1);
    expect(versions(world)).toEqual({ parcels: 2 });
    await pass(29 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(1);
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(2);
  });

  it('polls at once, and once, for an interval that has passed by the wall clock', async () => {
    const { world, clock, pass } = await halfPastNoon(every(50 * MINUTE_MS));
    act(clock);
    await pass(SECOND_MS);
    expect(polls(world)).toBe(1);
    await pass(49 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(1);
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(2);
  });

  it('makes an audit that is due by the wall clock with the next poll, and once', async () => {
    const { world, clock, pass } = await halfPastNoon({
      poll: { kind: 'every', everyMs: MINUTE_MS },
      auditEveryMs: HOUR_MS,
    });
    act(clock);
    await pass(MINUTE_MS + SECOND_MS);
    expect(audits(world)).toBe(1);
    await pass(58 * MINUTE_MS, STEP_MS);
    expect(audits(world)).toBe(1);
    await pass(3 * MINUTE_MS, STEP_MS);
    expect(audits(world)).toBe(2);
  });
});

describe.each(BACK)('F52 where $title', ({ act }) => {
  it('polls by the schedule as often as before the clock was set back', async () => {
    const { world, clock, pass } = await halfPastNoon(scheduled(EVERY_HOUR));
    act(clock);
    await pass(29 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(0);
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(1);
    await pass(5 * HOUR_MS, STEP_MS);
    expect(polls(world)).toBe(6);
  });

  it('polls by the interval as often as before the clock was set back', async () => {
    const { world, clock, pass } = await halfPastNoon(every(MINUTE_MS));
    act(clock);
    await pass(31 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBeGreaterThanOrEqual(30);
    expect(polls(world)).toBeLessThanOrEqual(32);
  });

  it('audits as often as before the clock was set back', async () => {
    const { world, clock, pass } = await halfPastNoon({
      poll: { kind: 'every', everyMs: MINUTE_MS },
      auditEveryMs: HOUR_MS,
    });
    act(clock);
    await pass(29 * MINUTE_MS, STEP_MS);
    expect(audits(world)).toBe(0);
    await pass(3 * MINUTE_MS, STEP_MS);
    expect(audits(world)).toBe(1);
  });
});

describe('F52 a time of the schedule that the clock shows twice', () => {
  /** Polled for at six in the morning of the next day, half an hour ago. */
  async function halfPastSix() {
    const followed = await halfPastNoon(scheduled(EVERY_DAY_AT_SIX));
    await followed.pass(18 * HOUR_MS, MINUTE_MS);
    expect(polls(followed.world)).toBe(1);
    calm(followed.world);
    return followed;
  }

  it('does not poll twice for a time of the schedule where the clock was set back by an hour', async () => {
    const { world, clock, pass } = await halfPastSix();
    clock.jump(-HOUR_MS);
    await pass(24 * HOUR_MS, MINUTE_MS);
    expect(polls(world)).toBe(0);
    await pass(HOUR_MS, MINUTE_MS);
    expect(polls(world)).toBe(1);
  });

  it('polls a day after the last poll where the clock was set back by a day', async () => {
    const { world, clock, pass } = await halfPastSix();
    clock.jump(-DAY_MS);
    await pass(23 * HOUR_MS, MINUTE_MS);
    expect(polls(world)).toBe(0);
    await pass(HOUR_MS, MINUTE_MS);
    expect(polls(world)).toBe(1);
    await pass(DAY_MS, MINUTE_MS);
    expect(polls(world)).toBe(2);
  });

  it('does not poll twice for a time of the schedule where the clock is set back by seconds right after it', async () => {
    const { world, clock, pass } = await halfPastNoon(scheduled(EVERY_HOUR));
    await pass(30 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(1);
    clock.jump(-3 * SECOND_MS);
    await pass(59 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(1);
    await pass(2 * MINUTE_MS, STEP_MS);
    expect(polls(world)).toBe(2);
  });
});

describe('F52 reading that waits for the next poll', () => {
  const EVERY_SIX_HOURS: Timing = { poll: { kind: 'every', everyMs: 6 * HOUR_MS }, auditEveryMs: DAY_MS };

  it('checks a withdrawn version at once where the machine was suspended over the next poll', async () => {
    const { world, clock, daemon, pass } = await halfPastNoon(EVERY_SIX_HOURS);
    publishWithSnapshot(world, 'parcels');
    publishWithSnapshot(world, 'parcels');
    daemon.pollNow();
    await pass(MINUTE_MS, STEP_MS);
    expect(versions(world)).toEqual({ parcels: 3 });
    world.service.versions.set('parcels', [version('parcels', 2), version('parcels', 1)]);
    world.service.logs.get('sub_1')?.push(event(103, 'dataset.schema_changed'));
    daemon.pollNow();
    await pass(MINUTE_MS, STEP_MS);
    expect(daemon.state().datasets.get('parcels')?.waitsFor).not.toBeNull();
    calm(world);
    clock.suspend(7 * HOUR_MS);
    await pass(SECOND_MS);
    expect(world.calls).toContain('versions parcels');
  });

  it('checks an absent member at once where the machine was suspended over the next poll', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const { clock, daemon, pass } = smallDaemon(world, EVERY_SIX_HOURS);
    await pass(SECOND_MS);
    world.service.members.set('sub_1', ['parcels']);
    await pass(24 * HOUR_MS + MINUTE_MS, MINUTE_MS);
    expect(world.checkpoint.absences()).toHaveLength(1);
    expect(world.retired).toEqual([]);
    clock.suspend(7 * HOUR_MS);
    await pass(2 * SECOND_MS);
    expect(world.retired).toMatchObject([{ datasetId: 'permits' }]);
    expect(daemon.state().phase).toBe('following');
  });
});

describe('F52 a rule of fifteen minutes', () => {
  const JUST_BELOW_MS = 14 * MINUTE_MS;

  it.each([...BACK, ...FORWARD.slice(1)])(
    'waits fifteen minutes for a manifest that lags, no less and no longer, where $title',
    async ({ act }) => {
      const { world, clock, daemon, pass } = await halfPastNoon(every(MINUTE_MS));
      world.service.watermarkCovers.delete('sub_1');
      const resync = event(101, 'dataset.resync_required');
      const createdAt = new Date(NOON.getTime() + clock.passedMs);
      world.service.logs.get('sub_1')?.push({ ...resync, createdAt });
      daemon.pollNow();
      act(clock);
      await pass(JUST_BELOW_MS, STEP_MS);
      expect(world.calls).not.toContain('download parcels');
      expect(daemon.state().datasets.get('parcels')?.waitsFor).not.toBeNull();
      // It is read again with growing waits, each of at most a quarter of an hour.
      await pass(16 * MINUTE_MS, STEP_MS);
      expect(world.calls).toContain('download parcels');
    },
  );
});

describe('F52 the due time of a poll', () => {
  const at = (wall: string, monotonicMs: number): ClockReading => ({ wall: new Date(wall), monotonicMs });
  const hourly = nextPoll({ kind: 'schedule', schedule: EVERY_HOUR }, at('2026-03-01T12:30:00Z', 0), {
    next: () => 0.5,
  });

  it('computes on the monotonic clock when a time of the schedule comes by the wall clock', () => {
    expect(hourly.dueMs(at('2026-03-01T12:40:00Z', 600_000))).toBe(30 * MINUTE_MS);
    expect(hourly.dueMs(at('2026-03-01T12:50:00Z', 600_000))).toBe(20 * MINUTE_MS);
    expect(hourly.dueMs(at('2026-03-02T12:50:00Z', 600_000))).toBe(600_000);
  });

  it('takes an interval to be over by whichever clock has gone on further', () => {
    const due = dueAfter(HOUR_MS, at('2026-03-01T12:00:00Z', 0));
    expect(due.dueMs(at('2026-03-01T12:10:00Z', 600_000))).toBe(HOUR_MS);
    expect(due.dueMs(at('2026-03-01T12:40:00Z', 600_000))).toBe(600_000 + 20 * MINUTE_MS);
    expect(due.dueMs(at('2026-02-28T12:40:00Z', 600_000))).toBe(HOUR_MS);
    expect(due.dueMs(at('2026-03-02T12:40:00Z', 600_000))).toBe(600_000);
  });
});
