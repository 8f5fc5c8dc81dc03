/** Runs one case: both sides in turn, so that what disturbs the machine for a while disturbs both. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchCase, Contest, Size } from './case.ts';
import { type JudgedGoal, judge, type Pair, type Summary, summarize } from './statistics.ts';

export interface CaseResult {
  readonly name: string;
  readonly what: string;
  readonly summary: Summary;
  readonly goals: readonly JudgedGoal[];
  readonly pairs: readonly Pair[];
}

export interface RunOptions {
  readonly size: Size;
  /** Of one large dataset, in the cases that may be made smaller. */
  readonly rows?: number;
  /** How many pairs are measured, after one that warms the caches and counts for nothing; fewer where the case says so. */
  readonly runs: number;
  /** Told of every pair as it is done; number 0 is the one that does not count. */
  readonly onPair: (number: number, pair: Pair) => void;
}

/** @throws WrongResultError where a run of either side did not do its work. */
export async function runCase(benchCase: BenchCase, options: RunOptions): Promise<CaseResult> {
  const { name, what, reach, fewRuns } = benchCase;
  const workspace = await mkdtemp(join(tmpdir(), `feed-sync-bench-${name}-`));
  try {
    await using contest = await benchCase.validate(options.size, workspace, options.rows);
    const pairs =
      fewRuns === undefined
        ? (await runPairs(contest, options.runs + 1, 0, options.onPair)).slice(1)
        : await runPairs(contest, Math.min(options.runs, fewRuns), 1, options.onPair);
    const summary = summarize(pairs);
    return { name, what, summary, goals: judge(reach, summary), pairs };
  } finally {
    await rm(workspace, { recursive: true, force: true });
  }
}

async function runPairs(
  contest: Contest,
  count: number,
  firstNumber: number,
  onPair: RunOptions['onPair'],
): Promise<readonly Pair[]> {
  const pairs: Pair[] = [];
  for (let number = 0; number < count; number += 1) {
    const subject = await contest.subject();
    const reference = contest.reference === null ? null : await contest.reference();
    const pair = { subject, reference };
    onPair(firstNumber + number, pair);
    pairs.push(pair);
  }
  return pairs;
}
