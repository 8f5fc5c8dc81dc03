/** What is to happen at once, on a machine of whatever speed: compared with a start of the program on the same machine. */

import { expect } from 'vitest';
import type { Program } from './program.ts';

/** Far more than what is done at once takes where nothing else keeps the machine busy, and far less than any wait. */
const AT_ONCE_MS = 5_000;
/** Starting the program and doing nothing takes longer than whatever is done at once; on a busy machine both do. */
const TIMES_A_START = 40;

/** Expects what has just ended after `tookMs` not to have waited for anything. */
export async function expectAtOnce(tookMs: number, installed: Program): Promise<void> {
  const fromMs = performance.now();
  expect(await installed.run('--version')).toMatchObject({ exitCode: 0 });
  const startMs = performance.now() - fromMs;
  expect(tookMs).toBeLessThan(Math.max(AT_ONCE_MS, TIMES_A_START * startMs));
}
