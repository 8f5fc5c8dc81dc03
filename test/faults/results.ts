/** What became of faults, and the sums of it. Pure. */

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
  const judged = results.filter(({ outcome }) => outcome !== 'unchanged');
  const commits = [...new Set(judged.map(({ commit }) => commit))];
  return commits
    .map((commit) => {
      const tried = judged.filter((one) => one.commit === commit);
      const seeds = tried.map(({ seed }) => seed);
      const wrong = tried.filter(({ outcome }) => outcome === 'wrong').map(({ seed }) => seed);
      const which = wrong.length === 0 ? '' : `: ${wrong.join(', ')}`;
      return `Commit ${commit}, seeds ${Math.min(...seeds)} to ${Math.max(...seeds)}: ${wrong.length} of ${tried.length} wrong${which}.`;
    })
    .join('\n');
}
