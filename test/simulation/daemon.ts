/**
 * An installation that is followed by a daemon for a while, in this process: it polls, and works on what it finds behind.
 * It sleeps in between. Two processes never follow one installation: where a catch-up came between, the daemon was ended for it,
 * and another one is started.
 */

import { Daemon } from '../../src/daemon/daemon.ts';
import { silentNotifier } from '../../src/daemon/notify.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Parts } from '../../src/sync/parts.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { BrokenRule, refuseBroken, refuseCallsAboutSuspended } from './rules.ts';
import type { World } from './world.ts';

/** Long enough for what waits to be tried again a few times. */
const FOLLOWED_MS = 4 * 60_000;
const STEP_MS = 20_000;

interface Asleep {
  readonly daemon: Daemon;
  readonly clock: SteppedClock;
  /** Of other processes, before it fell asleep. */
  catchUps: number;
  readonly ended: Promise<void>;
  isEnded: boolean;
}

const asleep = new WeakMap<Parts, Asleep>();

/** @throws Error where a rule was broken. */
export async function followOn(world: World, followedMs = FOLLOWED_MS): Promise<void> {
  const { feed, installation, counters } = world;
  world.tick();
  const parts = await installation.parts();
  const observedBefore = parts.checkpoint.suspensions();
  feed.requests.clear();
  const woken = await wake(parts, world);
  const { daemon, clock } = woken;
  for (let passedMs = 0; passedMs < followedMs && !woken.isEnded; passedMs += STEP_MS) {
    clock.pass(STEP_MS);
    world.pass(STEP_MS);
    for (let turns = 0; turns < 3; turns += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      await daemon.settled();
    }
  }
  woken.catchUps = world.catchUps;
  world.reported.push(`  followed: ${daemon.state().phase}`);
  refuseCallsAboutSuspended(observedBefore, parts.checkpoint.suspensions(), feed.requests.entries());
  refuseBugs(daemon);
  refuseBroken(world);
  counters.add('followed by a daemon');
}

async function wake(parts: Parts, world: World): Promise<Asleep> {
  const before = asleep.get(parts);
  if (before !== undefined && !before.isEnded) {
    if (before.catchUps === world.catchUps) return before;
    before.daemon.stop();
    await before.ended;
  }
  const clock = new SteppedClock();
  const daemon = new Daemon({
    parts: { ...parts, clock: { now: () => world.clock.now(), ...monotonic(clock) } },
    random: { next: () => 0.5 },
    timing: { poll: { kind: 'every', everyMs: 60_000 }, auditEveryMs: 3_600_000 },
    notifier: silentNotifier,
    ending: new AbortController(),
  });
  const ended = daemon.run().then(() => {
    made.isEnded = true;
  });
  const made: Asleep = { daemon, clock, catchUps: world.catchUps, ended, isEnded: false };
  asleep.set(parts, made);
  return made;
}

function monotonic(clock: SteppedClock): Pick<Clock, 'monotonicMs' | 'sleep'> {
  return {
    monotonicMs: () => clock.monotonicMs(),
    sleep: (durationMs, signal) => clock.sleep(durationMs, signal),
  };
}

/** All that goes wrong has a class that says what to do about it. */
function refuseBugs(daemon: Daemon): void {
  const { incidents } = daemon.state();
  const bug = incidents.find(({ error }) => error === 'bug');
  if (bug !== undefined) throw new BrokenRule('bug', bug.message);
}
