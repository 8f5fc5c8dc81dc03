/** A daemon on a small world, whose time a test lets pass; it ends with the test. */

import { onTestFinished } from 'vitest';
import { Daemon, type End } from '../../src/daemon/daemon.ts';
import { silentNotifier } from '../../src/daemon/notify.ts';
import type { Timing } from '../../src/daemon/session.ts';
import type { Readers } from '../../src/post-commit/hook.ts';
import { NOON } from './checkpoint-files.ts';
import { documentedLog } from './documented-lines.ts';
import { calm, oneSubscription, type World } from './small-world.ts';
import { SteppedClock } from './stepped-clock.ts';

/** The loop goes round at least this often. */
const TICK_MS = 500;

export interface SmallDaemon {
  readonly daemon: Daemon;
  readonly clock: SteppedClock;
  /** Resolves when the daemon has ended. */
  readonly ended: Promise<End>;
  /** Time passes, half a second at a time unless said otherwise, and everything that begins meanwhile ends. */
  pass(durationMs: number, stepMs?: number): Promise<void>;
  /** The loop goes round, once it was woken, and what it begins has ended. */
  settle(): Promise<void>;
}

interface Setting {
  readonly readers?: Readers | null;
  /** When it is started. */
  readonly began?: Date;
}

export const EVERY_MINUTE: Timing = { poll: { kind: 'every', everyMs: 60_000 }, auditEveryMs: 3_600_000 };

/**
 * Without jitter, unless a test brings chance of its own. The time of the service passes with that of the test, however the
 * clock of the machine is set.
 */
export function smallDaemon(
  { parts }: World,
  timing: Timing = EVERY_MINUTE,
  random = { next: () => 0.5 },
  { readers = null, began = NOON }: Setting = {},
): SmallDaemon {
  const clock = new SteppedClock(began);
  Object.assign(parts, {
    clock: { ...parts.clock, now: () => new Date(began.getTime() + clock.passedMs) },
  });
  const daemon = new Daemon({
    parts: { ...parts, clock, log: documentedLog(parts.log) },
    random,
    timing,
    readers,
    notifier: silentNotifier,
    ending: new AbortController(),
  });
  const ended = daemon.run();
  onTestFinished(async () => {
    daemon.stop();
    await ended;
  });
  const settle = async (): Promise<void> => {
    // What was begun begins further things in turns of the event loop.
    for (let turns = 0; turns < 5; turns += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      await daemon.settled();
    }
  };
  return {
    daemon,
    clock,
    ended,
    settle,
    async pass(durationMs, stepMs = TICK_MS) {
      await settle();
      for (let restMs = durationMs; restMs > 0; restMs -= stepMs) {
        clock.pass(Math.min(restMs, stepMs));
        await settle();
      }
    },
  };
}

/** A daemon that has caught up with one subscription; what it called and logged until then is forgotten. */
export async function followingDaemon(...datasetIds: string[]) {
  const world = await oneSubscription(...datasetIds);
  const daemon = smallDaemon(world);
  await daemon.pass(1_000);
  calm(world);
  world.logged.length = 0;
  return { world, ...daemon };
}
