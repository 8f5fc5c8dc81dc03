/** Runs commands of one copy of the program and reads mirrors, each in a process of its own, because damage may crash it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import type { Said } from './command-line.ts';
import { HANGS_AFTER_MS, type SentExpectation, Worker, WorkerEnded } from './program-worker.ts';

/** What a shell reports of a process that a signal ended is this and the signal's number. */
const SIGNALLED = 128;
export const KILLED = SIGNALLED + constants.signals.SIGKILL;

/** How commands are run and mirrors are read. */
export type Runner = Pick<Worker, 'run' | 'differences'>;

/** `program`: the folder of the built program. */
export function inProcesses(program: string, expected: SentExpectation): Runner {
  return {
    run: (words, environment) => runCommand(program, words, environment),
    async differences(path) {
      const worker = new Worker(program, expected);
      try {
        return await worker.differences(path);
      } catch (error) {
        if (!(error instanceof WorkerEnded)) throw error;
        return [`cannot be read: ${error.message}`];
      } finally {
        await worker.end();
      }
    },
  };
}

/** Resolves to what the command said; a command that hangs is killed, and ends with 137. */
export async function runCommand(
  program: string,
  words: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Said> {
  const child = spawn(process.execPath, [join(program, 'main.js'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: HANGS_AFTER_MS,
    killSignal: 'SIGKILL',
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...environment },
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
