/**
 * The command line in this process: the real commands on real files, with a clock, a screen, an identity and a randomness
 * of the test's. For what a command says; what a process does is tested by `program.ts`.
 */

import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Context } from '../../src/cli/context.ts';
import { start } from '../../src/cli/program.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { collector } from './collector.ts';
import { IDLE_PROCESS } from './idle-process.ts';
import { refuseSecret } from './secret-search.ts';
import { unwatchedTerminal } from './unwatched-terminal.ts';

export interface Said {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandLineOptions {
  readonly feed: { readonly baseUrl: string; readonly apiKey: string };
  /** Time stands still but for this; waits pass at once. */
  readonly now: () => Date;
  /** Called for each wait before it passes, in milliseconds; with it, waits take their time by the monotonic clock. */
  readonly onWait?: (durationMs: number) => void;
  /** Asks the process to stop. */
  readonly signal?: AbortSignal;
  /** Beside the three of a run. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly standardInput?: string;
  /** Answers a question on the terminal; without it there is no terminal. */
  readonly ask?: Context['ask'];
  /** What others take for the process of each command; by default none that runs. */
  readonly pid?: number;
}

interface Screen {
  readonly width: number;
  /** Of the screen that shows standard output; without it there is none. */
  readonly resultWidth?: number | null;
}

/** An installation whose commands are run in this process. */
export interface CommandLine {
  readonly dataDirectory: string;
  /** Runs a command on a screen of 120 columns. */
  run(...words: readonly string[]): Promise<Said>;
  runOn(screen: Screen, ...words: readonly string[]): Promise<Said>;
  /** What is set from now on; `undefined` takes a variable away. */
  readonly environment: Record<string, string | undefined>;
  /** Removes everything. @throws where the key was printed or written. */
  remove(): void;
}

/** Who every command is: in what is shown of it. */
export const IDENTITY = { pid: 4_711, host: 'mirror-1', uid: 1_000 };

export function commandLine({
  feed,
  now,
  onWait,
  environment = {},
  standardInput = '',
  ask = null,
  pid = IDENTITY.pid,
  signal = new AbortController().signal,
}: CommandLineOptions): CommandLine {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-commands-')));
  const dataDirectory = join(home, 'data');
  const printed: string[] = [];
  const variables: Record<string, string | undefined> = {
    FEED_SYNC_BASE_URL: feed.baseUrl,
    FEED_SYNC_API_KEY: feed.apiKey,
    FEED_SYNC_DATA_DIR: dataDirectory,
    ...environment,
  };
  const runOn = async ({ width, resultWidth = null }: Screen, ...words: readonly string[]): Promise<Said> => {
    const [stdout, stderr] = [collector(), collector()];
    const terminal = unwatchedTerminal({ stdout, stderr, width, resultWidth });
    const exitCode = await start(words, '1.2.3', {
      ...contextOf(terminal, home, variables, waitingClock(now, onWait)),
      identity: { ...IDENTITY, pid },
      readStandardInput: async () => standardInput,
      ask,
      signal,
    });
    const said = { exitCode, stdout: stdout.text(), stderr: stderr.text() };
    printed.push(said.stdout, said.stderr);
    return said;
  };
  return {
    dataDirectory,
    environment: variables,
    run: (...words) => runOn({ width: 120 }, ...words),
    runOn,
    remove() {
      try {
        refuseSecret(feed.apiKey, { texts: printed, folders: [home] });
      } finally {
        rmSync(home, { recursive: true, force: true });
      }
    },
  };
}

function waitingClock(now: () => Date, onWait: CommandLineOptions['onWait']): Clock {
  let waitedMs = 0;
  return {
    now,
    monotonicMs: () => waitedMs,
    async sleep(durationMs, signal) {
      signal?.throwIfAborted();
      if (onWait === undefined) return;
      waitedMs += durationMs;
      onWait(durationMs);
      signal?.throwIfAborted();
    },
  };
}

/** The surroundings of a command, but for who it is and what is written to it. */
export function contextOf(
  terminal: Context['terminal'],
  workingDirectory: string,
  environment: Context['environment'],
  clock: Clock,
): Omit<Context, 'identity' | 'readStandardInput'> {
  return {
    terminal,
    environment,
    workingDirectory,
    machine: { memoryBytes: 4e9, constrainedMemoryBytes: 0, heapBytes: 2e9, cores: 2 },
    runtime: { nodeVersion: '24.0.0', leastNodeVersion: '24.0.0', operatingSystem: 'Linux 6.0 x64' },
    readFile: (path) => readFileSync(path, 'utf8'),
    clock,
    random: { next: () => 0.5 },
    signal: new AbortController().signal,
    ...IDLE_PROCESS,
  };
}
