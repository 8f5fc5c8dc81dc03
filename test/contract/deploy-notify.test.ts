/** The notifications of systemd, seen by a `systemd-notify` that stands first in PATH and writes down what it is given. */

import { describe, expect, it } from 'vitest';
import {
  createNotifier,
  type Notifier,
  type NotifierParts,
  watchdogFeedMs,
} from '../../src/daemon/notify.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { type ProgramRun, runProgram } from '../../src/lib/run-program.ts';
import { recordingSystemdNotify } from '../support/recording-systemd-notify.ts';

const PID = 4_711;
const SOCKET = '/run/systemd/notify';

/** Time that passes only where a test says so; a pause is over at once. */
class SteppedClock implements Clock {
  #nowMs = 0;
  now = (): Date => new Date(this.#nowMs);
  monotonicMs = (): number => this.#nowMs;
  sleep = (): Promise<void> => Promise.resolve();
  pass(durationMs: number): void {
    this.#nowMs += durationMs;
  }
}

function parts(changed: Partial<NotifierParts>): NotifierParts {
  return {
    environment: { NOTIFY_SOCKET: SOCKET },
    pid: PID,
    run: () => Promise.reject(new Error('nothing is to be run here')),
    clock: new SteppedClock(),
    microsecondsSinceBoot: () => 1_234_567n,
    log: silentLog,
    ...changed,
  };
}

/** A program that ends when the test says so. */
function heldProgram(): { readonly run: NotifierParts['run']; readonly runs: ProgramRun[]; end(): void } {
  const runs: ProgramRun[] = [];
  let end = (): void => {};
  const run = (started: ProgramRun): Promise<void> => {
    runs.push(started);
    return new Promise((resolve) => {
      end = resolve;
    });
  };
  return { run, runs, end: () => end() };
}

async function inTurn(notifier: Notifier, ...steps: readonly (() => void)[]): Promise<void> {
  for (const step of steps) {
    step();
    await notifier.settled();
  }
}

describe('notifications of systemd', () => {
  it('notifies systemd of ready, progress, reload and stop, and passes on nothing of the environment', async () => {
    const { path, reported } = recordingSystemdNotify();
    const environment = {
      PATH: path,
      NOTIFY_SOCKET: SOCKET,
      WATCHDOG_USEC: '40000000',
      FEED_SYNC_API_KEY: 'a-key',
    };
    const notifier = createNotifier(parts({ environment, run: runProgram }));
    await inTurn(
      notifier,
      () => notifier.status('Loading 3 datasets.'),
      () => notifier.ready(),
      () => notifier.progress(),
      () => notifier.reloading(),
      () => notifier.ready(),
      () => notifier.stopping(),
    );
    const status = 'STATUS=Loading 3 datasets.';
    expect(reported()).toEqual([
      `${status}|0`,
      `READY=1|${status}|0`,
      `READY=1|${status}|WATCHDOG=1|0`,
      `RELOADING=1|MONOTONIC_USEC=1234567|${status}|0`,
      `READY=1|${status}|0`,
      `STOPPING=1|${status}|0`,
    ]);
  });

  it('notifies nobody where systemd does not listen', async () => {
    const { run, runs } = heldProgram();
    const notifier = createNotifier(parts({ environment: { WATCHDOG_USEC: '40000000' }, run }));
    await inTurn(
      notifier,
      () => notifier.status('Idle.'),
      () => notifier.ready(),
      () => notifier.progress(),
      () => notifier.reloading(),
      () => notifier.stopping(),
    );
    expect(runs).toEqual([]);
  });

  it('notifies systemd by one process at a time, and then of the state by then', async () => {
    const { run, runs, end } = heldProgram();
    const notifier = createNotifier(parts({ run }));
    notifier.ready();
    notifier.status('One.');
    notifier.status('Two.');
    notifier.stopping();
    notifier.ready();
    await Promise.resolve();
    expect(runs.map(({ args }) => args)).toEqual([['READY=1']]);
    end();
    await expect.poll(() => runs.length).toBe(2);
    end();
    await notifier.settled();
    expect(runs.slice(1).map(({ args }) => args)).toEqual([['STOPPING=1', 'STATUS=Two.']]);
    expect(runs.every(({ timeoutMs }) => timeoutMs <= 10_000)).toBe(true);
  });

  it('notifies systemd of a status in one short line, and only where it has changed', async () => {
    const lines: (readonly string[])[] = [];
    const run = ({ args }: ProgramRun): Promise<void> => {
      lines.push(args);
      return Promise.resolve();
    };
    const notifier = createNotifier(parts({ run }));
    const long = `One\nREADY=1 ${'x'.repeat(500)}`;
    await inTurn(
      notifier,
      () => notifier.status(long),
      () => notifier.status(long),
    );
    expect(lines).toEqual([[`STATUS=One READY=1 ${'x'.repeat(188)}`]]);
  });
});

describe('the watchdog', () => {
  it('feeds the watchdog four times in its period at most, however much progress there is', async () => {
    const clock = new SteppedClock();
    let feeds = 0;
    const run = ({ args }: ProgramRun): Promise<void> => {
      feeds += args.includes('WATCHDOG=1') ? 1 : 0;
      return Promise.resolve();
    };
    const environment = { NOTIFY_SOCKET: SOCKET, WATCHDOG_USEC: '40000000', WATCHDOG_PID: String(PID) };
    const notifier = createNotifier(parts({ environment, run, clock }));
    for (let second = 0; second < 40; second += 1) {
      notifier.progress();
      await notifier.settled();
      clock.pass(1_000);
    }
    expect(feeds).toBe(4);
  });

  it.each([
    [{ WATCHDOG_USEC: '600000000' }, 150_000],
    [{ WATCHDOG_USEC: '600000000', WATCHDOG_PID: String(PID) }, 150_000],
    [{ WATCHDOG_USEC: '600000000', WATCHDOG_PID: '1' }, null],
    [{ WATCHDOG_USEC: '0' }, null],
    [{ WATCHDOG_USEC: 'soon' }, null],
    [{}, null],
  ])('feeds the watchdog with %j every %s ms', (environment, feedMs) => {
    expect(watchdogFeedMs(environment, PID)).toBe(feedMs);
  });
});

describe('a systemd-notify that does not work', () => {
  it('warns once of a systemd-notify that does not work, and goes on', async () => {
    const warnings: string[] = [];
    const log: Log = { ...silentLog, warn: (_fields, message) => void warnings.push(message) };
    const environment = { PATH: '/nowhere', NOTIFY_SOCKET: SOCKET };
    const notifier = createNotifier(parts({ environment, run: runProgram, log }));
    await inTurn(
      notifier,
      () => notifier.ready(),
      () => notifier.stopping(),
    );
    expect(warnings).toEqual(['systemd could not be notified.']);
  });

  it('kills systemd-notify at its time limit', async () => {
    const run = {
      file: 'sleep',
      args: ['600'],
      environment: { PATH: process.env['PATH'] ?? '' },
      timeoutMs: 50,
    };
    await expect(runProgram(run)).rejects.toMatchObject({ killed: true, signal: 'SIGKILL' });
  });
});
