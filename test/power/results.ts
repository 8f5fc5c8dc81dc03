/** What became of the states, and the sums of it. Pure. */

import type { CourseName } from './courses.ts';

export interface Result {
  readonly course: CourseName;
  readonly seed: number;
  /** Of the program that was tried. */
  readonly commit: string;
  readonly moment: number;
  readonly lost: string;
  readonly digest: string;
  /** Byte for byte the same as a state before, and so not judged again. */
  readonly isKnown: boolean;
  readonly faults: readonly string[];
}

/** Returns a line for each commit and course: its seeds, how many states there were, and which went wrong. */
export function sumsOf(results: readonly Result[]): string {
  const groups = Map.groupBy(results, ({ commit, course }) => `Commit ${commit}, ${course}`);
  const lines = [...groups].map(([name, all]) => {
    const seeds = all.map(({ seed }) => seed);
    const wrong = all.filter(({ faults }) => faults.length > 0).map(({ seed }) => seed);
    const which = wrong.length === 0 ? '' : `: ${wrong.join(', ')}`;
    const lost = [...Map.groupBy(all, (one) => one.lost)].map(([kind, some]) => `${some.length} ${kind}`);
    const range = `${Math.min(...seeds)} to ${Math.max(...seeds)}`;
    return `${name}, seeds ${range}: ${all.length} states (lost: ${lost.sort().join(', ')}), ${countDistinct(all)} different, ${wrong.length} wrong${which}.`;
  });
  const wrong = results.filter(({ faults }) => faults.length > 0).length;
  return [
    ...lines,
    `In sum ${results.length} states, ${countDistinct(results)} different, ${wrong} wrong.`,
  ].join('\n');
}

function countDistinct(results: readonly Result[]): number {
  return results.filter(({ isKnown }) => !isKnown).length;
}
