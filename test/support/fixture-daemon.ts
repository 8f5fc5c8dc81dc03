/**
 * A real daemon in this process: the HTTP fixture, a real checkpoint and a real mirror, with time that a test lets pass.
 * The parts wait by the system's clock; only the daemon itself goes by the test's.
 */

import process from 'node:process';
import { onTestFinished } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { randomFrom } from '../../fixtures/source/random.ts';
import { openParts } from '../../src/cli/open-parts.ts';
import { loadConfiguration } from '../../src/configuration/configuration.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import { silentNotifier } from '../../src/daemon/notify.ts';
import type { Timing } from '../../src/daemon/session.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import { silentProgress } from '../../src/sync/progress.ts';
import { inputOf } from './configuration.ts';
import { IDLE_PROCESS } from './idle-process.ts';
import type { Program } from './program.ts';
import { SEED } from './seed.ts';
import { SteppedClock } from './stepped-clock.ts';
import { unwatchedTerminal } from './unwatched-terminal.ts';

/** The same waits in every run. */
const random = randomFrom(SEED);

export interface FixtureDaemon {
  readonly daemon: Daemon;
  /** What was logged: level, fields, message. */
  readonly logged: (readonly [string, LogFields, string])[];
  /** Time passes here and at the service, so much at a time, and everything that begins meanwhile ends. */
  pass(durationMs: number, stepMs: number): Promise<void>;
  /** Ends it and closes its parts. */
  end(): Promise<void>;
}

export async function fixtureDaemon(
  installed: Program,
  feed: FixtureFeed,
  timing: Pick<Timing, 'scrubEveryMs'> = {},
): Promise<FixtureDaemon> {
  const logged: (readonly [string, LogFields, string])[] = [];
  const ending = new AbortController();
  const opened = await openParts(optionsOf(installed, feed, logInto(logged), ending.signal));
  const clock = new SteppedClock(new Date());
  const { poll, audit } = configurationOf(installed, feed);
  const daemon = new Daemon({
    parts: { ...opened.parts, clock },
    random: { next: random.fraction },
    timing: { poll, auditEveryMs: audit.everyMs, ...timing },
    notifier: silentNotifier,
    ending,
  });
  const ended = daemon.run();
  let isClosed = false;
  const end = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    daemon.stop();
    await ended;
    await opened.close();
  };
  onTestFinished(end);
  return {
    daemon,
    logged,
    end,
    async pass(durationMs, stepMs) {
      for (let restMs = durationMs; restMs > 0; restMs -= stepMs) {
        const passedMs = Math.min(restMs, stepMs);
        feed.clock.advance(passedMs);
        clock.pass(passedMs);
        for (let turns = 0; turns < 3; turns += 1) {
          await new Promise((resolve) => setImmediate(resolve));
          await daemon.settled();
        }
      }
    },
  };
}

function configurationOf(
  { dataDirectory }: Program,
  feed: FixtureFeed,
  further: Readonly<Record<string, string>> = {},
) {
  const environment = {
    FEED_SYNC_BASE_URL: feed.baseUrl,
    FEED_SYNC_API_KEY: feed.apiKey,
    FEED_SYNC_DATA_DIR: dataDirectory,
    FEED_SYNC_DISK_RESERVE: '0MB',
    FEED_SYNC_RETRY_BASE_DELAY: '1ms',
    FEED_SYNC_RETRY_MAX_ATTEMPTS: '2',
    ...further,
  };
  return loadConfiguration(inputOf({ environment })).configuration;
}

/** What the parts of a daemon are opened with. */
export function optionsOf(
  installed: Program,
  feed: FixtureFeed,
  log: Log,
  signal: AbortSignal,
  environment: Readonly<Record<string, string>> = {},
) {
  const { stdout, stderr } = process;
  const context = {
    terminal: unwatchedTerminal({ stdout, stderr, width: 80 }),
    environment,
    workingDirectory: installed.home,
    machine: { memoryBytes: 4e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 2 },
    identity: { pid: process.pid, host: 'here', uid: process.getuid?.() ?? null },
    runtime: { nodeVersion: '24', leastNodeVersion: '24.0.0', operatingSystem: 'none' },
    readFile: () => '',
    readStandardInput: async () => '',
    clock: systemClock,
    random: { next: random.fraction },
    signal,
    ...IDLE_PROCESS,
  };
  const configuration = configurationOf(installed, feed, environment);
  return { configuration, context, log, progress: silentProgress, command: 'run', signal };
}

function logInto(logged: (readonly [string, LogFields, string])[]): Log {
  const at = (level: string) => (fields: LogFields, message: string) => {
    logged.push([level, fields, message]);
  };
  return { trace() {}, debug() {}, info: at('info'), warn: at('warn'), error: at('error') };
}
