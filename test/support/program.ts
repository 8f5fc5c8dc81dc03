/**
 * The real program as a process of its own, in a data directory of its own: started as programs start it, with an
 * environment of nothing but what is given. When the test has finished, what still runs is killed, and the API key is
 * searched in all that was printed and in every file that was written (F45). The log is at its most verbose level; a test that
 * does not set its level sees of it what it would see by default.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { onTestFinished } from 'vitest';
import { builtProgram } from './built-program.ts';
import { COMPILED } from './compiled.ts';
import { type InstallationPaths, installationPaths } from './installation-paths.ts';
import { refuseSecret } from './secret-search.ts';

const MAIN = builtProgram();

export interface Ended {
  /** Null where a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly pid: number;
  /** What it has printed to standard error so far. */
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Resolves when it has ended and everything it printed is here. */
  readonly ended: Promise<Ended>;
}

export interface ProgramOptions {
  /** The service and the key; without them the command line has neither. */
  readonly feed?: { readonly baseUrl: string; readonly apiKey: string };
  /** Beside PATH, HOME, TZ, the place of what Node compiles, and the variables of a run. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Further secrets that are searched like the API key. */
  readonly secrets?: readonly string[];
  /** A command that starts it, and what it is given before the program. */
  readonly within?: readonly string[];
}

/** An installation of feed-sync: a home, a data directory, and what was printed there. */
export interface Program extends InstallationPaths {
  /** The variables of its processes. */
  readonly environment: Readonly<Record<string, string>>;
  /** The folder in which its processes run. */
  readonly workingDirectory: string;
  /** Runs a command to its end. */
  run(...words: readonly string[]): Promise<Ended>;
  /** The same with further variables; `undefined` takes one away. */
  runWith(
    environment: Readonly<Record<string, string | undefined>>,
    ...words: readonly string[]
  ): Promise<Ended>;
  start(...words: readonly string[]): Running;
  /** The same with further variables. */
  startWith(environment: Readonly<Record<string, string>>, ...words: readonly string[]): Running;
}

export async function program({
  feed,
  environment = {},
  secrets = [],
  within = [],
}: ProgramOptions = {}): Promise<Program> {
  const home = await realpath(mkdtempSync(join(tmpdir(), 'feed-sync-program-')));
  const paths = installationPaths(home);
  const workingDirectory = join(home, 'work');
  mkdirSync(workingDirectory);
  const children = new Set<ChildProcess>();
  const printed: Printed[] = [];
  const variables = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    TZ: 'UTC',
    ...(feed === undefined ? {} : { FEED_SYNC_BASE_URL: feed.baseUrl, FEED_SYNC_API_KEY: feed.apiKey }),
    FEED_SYNC_DATA_DIR: paths.dataDirectory,
    // Installations of tests run side by side.
    FEED_SYNC_STATUS_LISTEN: '127.0.0.1:0',
    FEED_SYNC_LOG_LEVEL: 'trace',
    ...COMPILED,
    ...environment,
  };
  const startWith = (
    further: Readonly<Record<string, string | undefined>>,
    words: readonly string[],
  ): Running => {
    const [command = process.execPath, ...rest] = [...within, process.execPath, MAIN, ...words];
    const child = spawn(command, rest, {
      cwd: workingDirectory,
      env: { ...variables, ...further },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    const isLevelSet = 'FEED_SYNC_LOG_LEVEL' in { ...environment, ...further };
    return running(child, printed, isLevelSet);
  };
  onTestFinished(async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await once(child, 'close');
    }
    try {
      for (const secret of [...(feed === undefined ? [] : [feed.apiKey]), ...secrets]) {
        const texts = printed.flatMap(({ stdout, stderr }) => [stdout, stderr]);
        refuseSecret(secret, { texts, folders: [home] });
      }
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
  return {
    ...paths,
    environment: variables,
    workingDirectory,
    run: (...words) => startWith({}, words).ended,
    runWith: (further, ...words) => startWith(further, words).ended,
    start: (...words) => startWith({}, words),
    startWith: (further, ...words) => startWith(further, words),
  };
}

/** Log lines for programs that are printed only on request. */
const QUIET_LINE = /^\{"level":"(?:trace|debug)".*\n/gm;

interface Printed {
  stdout: string;
  stderr: string;
}

function running(child: ChildProcess, printed: Printed[], isLevelSet: boolean): Running {
  const { pid, stdout, stderr } = child;
  if (pid === undefined || stdout === null || stderr === null) throw new Error('the program did not start');
  const collected: Printed = { stdout: '', stderr: '' };
  printed.push(collected);
  for (const [name, stream] of Object.entries({ stdout, stderr })) {
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      collected[name as 'stdout' | 'stderr'] += text;
    });
  }
  const seen = (): string => (isLevelSet ? collected.stderr : collected.stderr.replace(QUIET_LINE, ''));
  const ended = once(child, 'close').then(([exitCode, signal]): Ended => {
    return { exitCode, signal, stdout: collected.stdout, stderr: seen() };
  });
  return { pid, ended, stderr: seen, kill: (signal) => void child.kill(signal) };
}
