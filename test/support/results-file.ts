/** A file of results, with a line of JSON for each, that several runs of a command add to; and of which program they are. */

import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { projectRoot } from './source-tree.ts';

/** Returns nothing where there is no file yet. */
export function readResults<Result>(path: string): readonly Result[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  // A run that was killed while it wrote leaves a part of a line.
  return lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as Result);
}

/** The line begins with a new one: the line before it may be a part. */
export function noteResult(path: string, result: unknown): void {
  appendFileSync(path, `\n${JSON.stringify(result)}`);
}

/** Names the program of this checkout: `c1e38bd4`, `c1e38bd4 and changes`. */
export function testedCommit(): string {
  const git = (...words: readonly string[]): string =>
    execFileSync('git', words, { cwd: projectRoot, encoding: 'utf8' }).trim();
  const changes = git('status', '--porcelain', 'src') === '' ? '' : ' and changes';
  return `${git('rev-parse', '--short', 'HEAD')}${changes}`;
}
