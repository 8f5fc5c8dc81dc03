/** Other programs, run to their end: the one place where this process starts another. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { promisify } from 'node:util';
import type { Clock } from './clock.ts';
import { systemReason } from './files.ts';

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

interface FedRun extends ProgramRun {
  /** What it gets on its standard input. It need not read it. */
  readonly input: string;
  readonly clock: Clock;
  /** Ends it when aborted. */
  readonly signal: AbortSignal;
}

export type FedEnd =
  /** It ended with 0. */
  | { readonly kind: 'done' }
  /** `how`: `ended with 3`, `was ended by SIGSEGV`. */
  | { readonly kind: 'failed'; readonly how: string; readonly output: string }
  | { readonly kind: 'late'; readonly output: string }
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'not-started'; readonly reason: string };

/** Never rejects. `output`: the end of what it wrote, to either stream. */
export type FeedProgram = (run: FedRun) => Promise<FedEnd>;

/** What is kept of what it writes. */
const MAX_OUTPUT_BYTES = 2_000;
/** So long a program that is asked to end may take. */
const END_MS = 5_000;
/** So long the last of its output may take after its end: what it has left running may keep the pipes for ever. */
const LAST_OUTPUT_MS = 1_000;

type Ended = { readonly code: number | null; readonly signal: string | null } | { readonly error: Error };

/** The program runs in a process group of its own, with which it is ended where it takes too long. */
export const feedProgram: FeedProgram = async (run) => {
  try {
    return await fedToItsEnd(run);
  } catch (error) {
    return { kind: 'not-started', reason: systemReason(error) };
  }
};

/** @throws the system's error where the program cannot be started; for some reasons only. */
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
  await within(LAST_OUTPUT_MS, closed, clock);
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

/** What `work` gives; `late` where it takes longer, `aborted` as soon as the signal is. */
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

/** It may have ended by itself meanwhile. */
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
