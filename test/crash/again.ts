/**
 * The commands after kills. What they find is in files alone, so that one process may run them one after another, which
 * takes half the CPU time of a process for each.
 */

import { dirname } from 'node:path';
import { afterAll } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import type { Ended, Program } from '../support/program.ts';
import { Worker } from '../support/program-worker.ts';
import { refuseSecret } from '../support/secret-search.ts';

export type Said = Pick<Ended, 'exitCode' | 'stdout' | 'stderr'>;

/** A process gets slower and larger with time. */
const MOST_RUNS = 100;

let worker: Worker | null = null;
let runs = 0;

/** @throws where the process ends, or prints the key. */
export async function runAgain(installed: Program, words: readonly string[]): Promise<Said> {
  if (runs === MOST_RUNS) await end();
  worker ??= new Worker(dirname(builtProgram()), null);
  runs += 1;
  const said = await worker.run(words, installed.environment, installed.workingDirectory);
  refuseSecret(installed.environment['FEED_SYNC_API_KEY'] ?? '', {
    texts: [said.stdout, said.stderr],
    folders: [],
  });
  return said;
}

/** Ends the process, for the test file that has used it. */
export function endAfterAll(): void {
  afterAll(end);
}

async function end(): Promise<void> {
  await worker?.end();
  worker = null;
  runs = 0;
}
