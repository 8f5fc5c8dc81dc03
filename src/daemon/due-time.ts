/**
 * When something that is done again and again is due, by both clocks of the machine. The monotonic clock stands still
 * while the machine is suspended, and the wall clock can be set: neither alone tells how much time has passed.
 *
 * Invariant: no interval becomes longer because a clock was set or the machine was suspended. Pure: time is passed in.
 */

/** Both clocks, read at once. */
export interface ClockReading {
  readonly wall: Date;
  readonly monotonicMs: number;
}

export interface DueTime {
  /** On the monotonic clock, as far as the two clocks tell now; it is due once this is not later than now. */
  dueMs(now: ClockReading): number;
}

export const AT_ONCE: DueTime = { dueMs: ({ monotonicMs }) => monotonicMs };

/** Due once either clock has gone on by `waitMs`. */
export function dueAfter(waitMs: number, since: ClockReading): DueTime {
  const byMonotonicMs = since.monotonicMs + waitMs;
  const byWall = new Date(since.wall.getTime() + waitMs);
  return { dueMs: (now) => Math.min(byMonotonicMs, monotonicMsAt(byWall, now)) };
}

/** When the wall clock will show this, on the monotonic clock; now, where it is later already. */
export function monotonicMsAt(wall: Date, now: ClockReading): number {
  return now.monotonicMs + Math.max(0, wall.getTime() - now.wall.getTime());
}
