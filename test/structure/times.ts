/** What is waited for: a start of the built program, and the fast tests. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { projectRoot } from '../support/source-tree.ts';

export interface StartTimes {
  /** The median of the starts of `status` in an empty folder, without a configuration. */
  readonly statusMs: number;
  /** The median of as many starts of Node that do nothing, each beside a start of `status`. */
  readonly nodeMs: number;
}

/** `program`: the path of the built `main.js`. */
export function startTimes(program: string, starts: number): StartTimes {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-numbers-'));
  const timed = (...words: readonly string[]): number => {
    const fromMs = performance.now();
    const { status, stderr } = spawnSync(process.execPath, words, {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
    });
    if (status !== 0) throw new Error(`node ${words.join(' ')} ended with ${status}: ${stderr}`);
    return performance.now() - fromMs;
  };
  try {
    // The first start fills the caches of the disk.
    timed(program, 'status');
    const pairs = Array.from({ length: starts }, () => [timed(program, 'status'), timed('-e', '0')] as const);
    return { statusMs: median(pairs.map(([ms]) => ms)), nodeMs: median(pairs.map(([, ms]) => ms)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs `npm test`, or only its files that `filters` name, and returns its time. @throws Error where a test fails. */
export function testSeconds(filters: readonly string[]): number {
  const fromMs = performance.now();
  const { status } = spawnSync('npm', ['test', '--', ...filters], { cwd: projectRoot, stdio: 'inherit' });
  if (status !== 0) throw new Error(`npm test ended with ${status}.`);
  return (performance.now() - fromMs) / 1000;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2;
}
