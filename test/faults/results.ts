/** What became of faults: a line of JSON for each, kept in a file over several runs, and the sums. */

import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { type File, KINDS, type Kind, type State } from './fault.ts';
import { OUTCOMES, type Played } from './player.ts';

export interface Result extends Played {
  readonly seed: number;
  /** Of the program that was tried. */
  readonly commit: string;
  readonly state: State;
  readonly file: File;
  readonly kind: Kind;
}

export function readResults(path: string): readonly Result[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  // A run that was killed while it wrote leaves a part of a line.
  return lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as Result);
}

/** The line begins with a new one: the line before it may be a part. */
export function noted(path: string, result: Result): void {
  appendFileSync(path, `\n${JSON.stringify(result)}`);
}

/** Returns a table of how often each kind of damage of each file had which outcome. */
export function tableOf(results: readonly Result[]): string {
  const files = [...new Set(results.map(({ file }) => file))].sort();
  const rows = files.flatMap((file) =>
    KINDS.map((kind) => {
      const cells = OUTCOMES.map(
        (outcome) =>
          results.filter((one) => one.file === file && one.kind === kind && one.outcome === outcome).length,
      );
      return `| ${file}, ${kind} | ${cells.join(' | ')} |`;
    }),
  );
  return [`| | ${OUTCOMES.join(' | ')} |`, `|---|${OUTCOMES.map(() => '---').join('|')}|`, ...rows].join(
    '\n',
  );
}

/** Returns a line for each commit that was tried: its seeds, and how many of them went wrong. */
export function verdictOf(results: readonly Result[]): string {
  const commits = [...new Set(results.map(({ commit }) => commit))];
  return commits
    .map((commit) => {
      const tried = results.filter((one) => one.commit === commit && one.outcome !== 'unchanged');
      const seeds = tried.map(({ seed }) => seed);
      const wrong = tried.filter(({ outcome }) => outcome === 'wrong').map(({ seed }) => seed);
      const which = wrong.length === 0 ? '' : `: ${wrong.join(', ')}`;
      return `Commit ${commit}, seeds ${Math.min(...seeds)} to ${Math.max(...seeds)}: ${wrong.length} of ${tried.length} wrong${which}.`;
    })
    .join('\n');
}
