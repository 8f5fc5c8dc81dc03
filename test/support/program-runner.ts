/** Runs commands of one copy of the program and reads mirrors, in processes that damage may crash. */

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

/** A process gets slower and larger with time. */
const MOST_JUDGED = 100;

export interface Judgement<Verdict> {
  readonly verdict: Verdict;
  /** Why it was made again; null: it was not. */
  readonly again: string | null;
}

/**
 * Has one judgement after another made in one process. A judgement that ends this process, or that is doubtful, is made again with a
 * process for each command, and that one counts.
 */
export class Judgements {
  readonly #program: string;
  readonly #expected: SentExpectation;
  #worker: Worker | null = null;
  #judged = 0;

  /** `program`: the folder of the built program. */
  constructor(program: string, expected: SentExpectation) {
    this.#program = program;
    this.#expected = expected;
  }

  /** `doubtOf` returns why a judgement is doubtful, or null. `judge` is called once or twice. */
  async make<Verdict>(
    judge: (runner: Runner) => Promise<Verdict>,
    doubtOf: (verdict: Verdict) => string | null = () => null,
  ): Promise<Judgement<Verdict>> {
    const again = await this.#made(judge, doubtOf);
    if (typeof again !== 'string') return { ...again, again: null };
    await this.end();
    return { verdict: await judge(inProcesses(this.#program, this.#expected)), again };
  }

  /** Returns why it has to be made again. */
  async #made<Verdict>(
    judge: (runner: Runner) => Promise<Verdict>,
    doubtOf: (verdict: Verdict) => string | null,
  ): Promise<{ readonly verdict: Verdict } | string> {
    this.#worker ??= new Worker(this.#program, this.#expected);
    try {
      const verdict = await judge(this.#worker);
      const doubt = doubtOf(verdict);
      if (doubt !== null) return doubt;
      this.#judged += 1;
      if (this.#judged >= MOST_JUDGED) await this.end();
      return { verdict };
    } catch (error) {
      if (!(error instanceof WorkerEnded)) throw error;
      return `ended: ${error.message}`;
    }
  }

  async end(): Promise<void> {
    await this.#worker?.end();
    this.#worker = null;
    this.#judged = 0;
  }
}

function inProcesses(program: string, expected: SentExpectation): Runner {
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
