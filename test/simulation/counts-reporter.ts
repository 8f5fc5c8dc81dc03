/** At the end of a run: how often everything occurred in its random histories. A whole run in which something never did has failed. */

import type { Reporter, TestModule } from 'vitest/node';
import { type Counts, missing, sum, table } from './counters.ts';

/** With fewer, something may well never occur. */
export const HISTORIES_OF_A_WHOLE_RUN = 200;

export class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap(({ children }) => [...children.allTests()]);
    const histories = tests.flatMap((test) => {
      const { counts } = test.meta();
      return counts === undefined ? [] : [{ counts, durationMs: test.diagnostic()?.duration ?? 0 }];
    });
    if (histories.length === 0) return;
    const reported = report(
      histories.map(({ counts }) => counts),
      histories.map(({ durationMs }) => durationMs),
    );
    process.stdout.write(`\n${reported.text}\n`);
    if (reported.isFailed) process.exitCode = 1;
  }
}

export interface Announcement {
  readonly text: string;
  readonly isFailed: boolean;
}

export function report(counts: readonly Counts[], durationsMs: readonly number[]): Announcement {
  const total = sum(counts);
  const names = Object.keys(total);
  const mean = durationsMs.reduce((before, duration) => before + duration, 0) / durationsMs.length;
  const times = `${Math.round(mean)} ms each, the longest ${Math.round(Math.max(...durationsMs))} ms`;
  const text = table(`Of ${counts.length} random histories (${times}):`, names, total);
  const never = counts.length < HISTORIES_OF_A_WHOLE_RUN ? [] : missing(names, total);
  if (never.length === 0) return { text, isFailed: false };
  return {
    text: `${text}\n\nNever occurred, so nothing was shown of it:\n  ${never.join('\n  ')}`,
    isFailed: true,
  };
}
