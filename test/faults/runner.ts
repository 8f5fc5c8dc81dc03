/** Runs commands of one copy of the program, each in a process of its own, because damage may crash it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import type { Said } from '../support/command-line.ts';

/** Longer than any command of a small installation takes on a busy machine. */
const HANGS_AFTER_MS = 120_000;
/** What a shell reports of a process that a signal ended is this and the signal's number. */
const SIGNALLED = 128;

export interface RunnerOptions {
  /** The folder of the built program. */
  readonly program: string;
  readonly feed: { readonly baseUrl: string; readonly apiKey: string };
}

/** Resolves to what the command said; a command that hangs is killed, and ends with 137. */
export async function runCommand(
  { program, feed }: RunnerOptions,
  words: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Said> {
  const child = spawn(process.execPath, [join(program, 'main.js'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: HANGS_AFTER_MS,
    killSignal: 'SIGKILL',
    env: {
      PATH: process.env['PATH'],
      TZ: 'UTC',
      FEED_SYNC_BASE_URL: feed.baseUrl,
      FEED_SYNC_API_KEY: feed.apiKey,
      ...environment,
    },
  });
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  const [exitCode, signal]: (number | NodeJS.Signals | null)[] = await once(child, 'close');
  const [stdout, stderr] = await said;
  return { exitCode: codeOf(exitCode, signal), stdout, stderr };
}

function codeOf(exitCode: unknown, signal: unknown): number {
  if (typeof exitCode === 'number') return exitCode;
  return SIGNALLED + (constants.signals[signal as NodeJS.Signals] ?? 0);
}
