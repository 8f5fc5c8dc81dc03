/** The compiler and the tests, run in the copy. */

import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { systemClock } from '../../src/lib/clock.ts';
import { type FedEnd, feedProgram } from '../../src/lib/run-program.ts';
import type { ScratchCopy } from './scratch-copy.ts';

const COMPILER_LIMIT_MS = 120_000;
/** The limit of one test: one that hangs because something is broken is reported by name, long before all others would be late. */
const TEST_LIMIT_MS = 60_000;

export interface Tools {
  readonly copy: ScratchCopy;
  /** Ends what runs when aborted. */
  readonly signal: AbortSignal;
}

/** What the compiler has to say against the sources; null: nothing. */
export async function compilerSays(tools: Tools): Promise<string | null> {
  const kept = join(tools.copy.temporaryPath, 'compiled');
  const args = ['--project', 'src/tsconfig.json', '--noEmit', '--incremental', '--tsBuildInfoFile', kept];
  const end = await run('tsc', args, COMPILER_LIMIT_MS, tools);
  return end.kind === 'done' ? null : outputOf(end);
}

export type TestsEnd =
  | { readonly kind: 'passed' }
  /** `test` is its whole name; null where the file failed as a whole. */
  | { readonly kind: 'failed'; readonly file: string; readonly test: string | null }
  /** Something went wrong outside of every test: an error that nobody handles. */
  | { readonly kind: 'crashed'; readonly output: string }
  | { readonly kind: 'late' };

/** Runs the test files, from the folder `test`, until the first of their tests fails. */
export async function runTests(
  files: readonly string[],
  limitMs: number,
  tools: Tools,
  bail = 1,
): Promise<TestsEnd> {
  const report = join(tools.copy.temporaryPath, 'report.json');
  await rm(report, { force: true });
  const paths = files.map((file) => `test/${file}`);
  const limits = [`--bail=${bail}`, `--testTimeout=${TEST_LIMIT_MS}`];
  const args = ['run', ...paths, ...limits, '--reporter=json', `--outputFile=${report}`];
  const end = await run('vitest', args, limitMs, tools);
  if (end.kind === 'done') return { kind: 'passed' };
  if (end.kind === 'late') return { kind: 'late' };
  const reported = await readFile(report, 'utf8').catch(() => null);
  const failed = reported === null ? null : firstFailure(JSON.parse(reported), tools.copy.path);
  return failed ?? { kind: 'crashed', output: outputOf(end) };
}

/** As vitest writes it. */
interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/** A test says more than a file that failed as a whole. */
function firstFailure({ testResults }: Report, root: string): TestsEnd | null {
  const failures = testResults.flatMap(({ name, status, assertionResults }): readonly TestsEnd[] => {
    const failed = assertionResults.find((test) => test.status === 'failed');
    if (failed === undefined && status !== 'failed') return [];
    return [{ kind: 'failed', file: name.slice(`${root}/test/`.length), test: failed?.fullName ?? null }];
  });
  return failures.find((end) => end.kind === 'failed' && end.test !== null) ?? failures[0] ?? null;
}

async function run(program: string, args: readonly string[], limitMs: number, tools: Tools): Promise<FedEnd> {
  const { copy, signal } = tools;
  const end = await feedProgram({
    file: join(copy.path, 'node_modules/.bin', program),
    args,
    environment: {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      TMPDIR: copy.temporaryPath,
    },
    input: '',
    timeoutMs: limitMs,
    clock: systemClock,
    signal,
  });
  if (end.kind === 'not-started') throw new Error(`${program} cannot be started: ${end.reason}`);
  signal.throwIfAborted();
  return end;
}

function outputOf(end: FedEnd): string {
  return 'output' in end ? end.output : end.kind;
}
