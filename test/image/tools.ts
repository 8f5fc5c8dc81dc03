/** Programs of the system that build and run an image, and their answers. */

import { spawnSync } from 'node:child_process';

const LONGEST_RUN_MS = 10 * 60_000;
const MAX_OUTPUT_BYTES = 64e6;

/** Standard output of a program. Standard error goes to the terminal. */
export function run(file: string, args: readonly string[], input?: Uint8Array): string {
  const { status, stdout, error } = spawnSync(file, args, {
    ...(input === undefined ? {} : { input }),
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'inherit'],
    encoding: 'utf8',
    timeout: LONGEST_RUN_MS,
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${status}:\n${stdout}`);
  return stdout;
}

/** Of these programs those that are not here. */
export function missingTools(names: readonly string[]): readonly string[] {
  return names.filter((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0);
}

/** Bytes of all files below the paths, as the files say, not as a disk rounds them. */
export function sizeBytes(...paths: readonly string[]): number {
  const total =
    run('du', ['-scb', ...paths])
      .trimEnd()
      .split('\n')
      .at(-1) ?? '';
  return Number.parseInt(total, 10);
}
