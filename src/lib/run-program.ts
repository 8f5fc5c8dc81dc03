/** The one place that starts other programs and waits for their end. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import type { Clock } from './clock.ts';
import { systemCode, systemReason } from './files.ts';

export interface ProgramRun {
  /** Looked up in the PATH of `environment`. */
  readonly file: string;
  readonly args: readonly string[];
  /** The complete environment. The process's own is never passed on, because it contains the API key. */
  readonly environment: Readonly<Record<string, string>>;
  /** The program is killed after this time. */
  readonly timeoutMs: number;
}

/**
 * The function that runs a program. Resolves when the program exits with 0. Rejects when it cannot be started, ends otherwise or takes too
 * long.
 */
export type RunProgram = (run: ProgramRun) => Promise<void>;

const runFile = promisify(execFile);

export const runProgram: RunProgram = async ({ file, args, environment, timeoutMs }) => {
  await runFile(file, args, { env: environment, timeout: timeoutMs, killSignal: 'SIGKILL' });
};

interface FedRun extends ProgramRun {
  /** The program's standard input, which it need not read. */
  readonly input: string;
  readonly clock: Clock;
  /** Ends the program when aborted. */
  readonly signal: AbortSignal;
}

export type FedEnd =
  /** The program exited with 0. */
  | { readonly kind: 'done' }
  /** `how`: `ended with 3`, `was ended by SIGSEGV`. */
  | { readonly kind: 'failed'; readonly how: string; readonly output: string }
  | { readonly kind: 'late'; readonly output: string }
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'not-started'; readonly reason: string };

/** The function that feeds a program. Never rejects. `output` is the end of the program's standard output and standard error. */
export type FeedProgram = (run: FedRun) => Promise<FedEnd>;

/** The most bytes that are kept of the output. */
const MAX_OUTPUT_BYTES = 2_000;
/** How long a program may take to end after SIGTERM. */
const END_MS = 5_000;
/** How long the processes that the program started may run on, and write, after its end. */
const LAST_OUTPUT_MS = 1_000;

interface ScriptRun {
  /** The path of a script of this program, which the same Node runs. */
  readonly script: string;
  readonly args: readonly string[];
  /** Kills the program when aborted. */
  readonly signal: AbortSignal | undefined;
}

/**
 * Runs a script with an empty environment, and passes each line of its output on. Resolves to how it ended: a signal, or an exit code.
 * @throws the reason of the signal; the system's error when the program cannot be started.
 */
export async function linesOf(
  { script, args, signal }: ScriptRun,
  onLine: (line: string) => void,
): Promise<string> {
  signal?.throwIfAborted();
  const child = spawn(process.execPath, [script, ...args], { env: {}, stdio: ['ignore', 'pipe', 'ignore'] });
  const kill = (): void => void child.kill('SIGKILL');
  signal?.addEventListener('abort', kill, { once: true });
  try {
    const ended = once(child, 'close');
    for await (const line of createInterface({ input: child.stdout })) onLine(line);
    const [code, endedBy]: (number | string | null)[] = await ended;
    signal?.throwIfAborted();
    return String(endedBy ?? code);
  } finally {
    signal?.removeEventListener('abort', kill);
  }
}

type Ended = { readonly code: number | null; readonly signal: string | null } | { readonly error: Error };

/** Runs the program in its own process group. Nothing of the group runs on once the program has ended or takes too long. */
export const feedProgram: FeedProgram = async (run) => {
  try {
    return await fedToItsEnd(run);
  } catch (error) {
    return { kind: 'not-started', reason: systemReason(error) };
  }
};

/** @throws the system's error when the program cannot be started, though only for some reasons. */
async function fedToItsEnd(run: FedRun): Promise<FedEnd> {
  const { file, args, environment, input, timeoutMs, clock, signal } = run;
  const child = spawn(file, args, { env: environment, detached: true });
  const output = keepOutput(child);
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const closed = once(child, 'close').catch(() => {});
  const ended = new Promise<Ended>((resolve) => {
    child.once('error', (error) => resolve({ error }));
    child.once('exit', (code, endedBy) => resolve({ code, signal: endedBy }));
  });
  const end = await within(timeoutMs, ended, clock, signal);
  if (end === 'late' || end === 'aborted') {
    signalGroup(child, 'SIGTERM');
    if ((await within(END_MS, ended, clock)) === 'late') signalGroup(child, 'SIGKILL');
    await ended;
  }
  signalGroup(child, 'SIGTERM');
  await within(LAST_OUTPUT_MS, closed, clock);
  signalGroup(child, 'SIGKILL');
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
  if (end === 'aborted') return { kind: 'interrupted' };
  return end === 'late' ? { kind: 'late', output: output() } : reported(end, output());
}

function reported(ended: Ended, output: string): FedEnd {
  if ('error' in ended) return { kind: 'not-started', reason: systemReason(ended.error) };
  if (ended.code === 0) return { kind: 'done' };
  const how = ended.code === null ? `was ended by ${ended.signal}` : `ended with ${ended.code}`;
  return { kind: 'failed', how, output };
}

/** Returns the result of `work`, `late` when it takes longer, or `aborted` as soon as the signal is. */
async function within<T>(
  limitMs: number,
  work: Promise<T>,
  clock: Clock,
  signal?: AbortSignal,
): Promise<T | 'late' | 'aborted'> {
  const over = new AbortController();
  const waiting = AbortSignal.any(signal === undefined ? [over.signal] : [over.signal, signal]);
  const limit = clock.sleep(limitMs, waiting).then(
    () => 'late' as const,
    () => 'aborted' as const,
  );
  try {
    return await Promise.race([work, limit]);
  } finally {
    over.abort();
  }
}

/** The group may meanwhile have ended by itself. */
function signalGroup({ pid }: ChildProcess, name: 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {}
}

function keepOutput(child: ChildProcess): () => string {
  let kept = Buffer.alloc(0);
  const keep = (chunk: Buffer): void => {
    kept = Buffer.concat([kept, chunk]).subarray(-MAX_OUTPUT_BYTES);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => kept.toString('utf8').trim();
}

/** Returns whether no process of this machine has the number. One of another user is there, too. */
export function isProcessGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch (error) {
    return systemCode(error) === 'ESRCH';
  }
}
