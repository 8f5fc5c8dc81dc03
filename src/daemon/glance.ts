/**
 * The daemon at a glance, for somebody who watches it work: a few numbers that are at hand, several times a second. Reads
 * no file, and walks over no list but that of what is to be done.
 */

import type { DaemonState, StandingTrouble } from './state.ts';
import type { Watched } from './state-of.ts';

export interface Glance {
  readonly phase: DaemonState['phase'];
  /** Tables in the mirror. */
  readonly tables: number;
  /** Datasets that are worked on now. */
  readonly underWay: number;
  /** Datasets that are worked on as soon as there is room. */
  readonly due: number;
  /** Datasets that are tried again later. */
  readonly waiting: number;
  readonly holds: number;
  /** Everything that goes wrong now, the longest first. */
  readonly troubles: readonly StandingTrouble[];
  readonly now: Date;
  /** When a log was last read to its head; null: not since the start of this process. */
  readonly lastPollAt: Date | null;
  readonly nextPollInMs: number;
}

export function glanceAt(
  { session, following, phase }: Watched,
  { underWay, holds }: Pick<Glance, 'underWay' | 'holds'>,
): Glance {
  const nowMs = session.nowMs();
  const items = [...session.agenda.items.values()];
  const waiting = items.filter(({ dueMs, waitsFor }) => dueMs > nowMs && waitsFor !== null).length;
  const polls = [...following.followees.values()].flatMap(({ lastGoodPollAt }) => lastGoodPollAt ?? []);
  return {
    phase,
    tables: session.mirror.held.datasets.size,
    underWay,
    due: items.length - waiting,
    waiting,
    holds,
    troubles: session.troubles.standing(nowMs),
    now: session.parts.clock.now(),
    lastPollAt: polls.toSorted((left, right) => right.getTime() - left.getTime())[0] ?? null,
    nextPollInMs: Math.max(0, following.nextPollMs() - nowMs),
  };
}
