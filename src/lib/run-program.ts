/** Other programs, run to their end: the one place where this process starts another. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

export interface ProgramRun {
  /** Found by the PATH of `environment`. */
  readonly file: string;
  readonly args: readonly string[];
  /** All of its environment. Ours holds the API key, so it is never handed on whole. */
  readonly environment: Readonly<Record<string, string>>;
  /** After this the program is killed. */
  readonly timeoutMs: number;
}

/** Resolves when the program ended with 0. Rejects where it cannot be started, ends otherwise or takes too long. */
export type RunProgram = (run: ProgramRun) => Promise<void>;

const runFile = promisify(execFile);

export const runProgram: RunProgram = async ({ file, args, environment, timeoutMs }) => {
  await runFile(file, args, { env: environment, timeout: timeoutMs, killSignal: 'SIGKILL' });
};
