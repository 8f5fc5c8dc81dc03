/**
 * The copied lines of a folder. Pure.
 *
 * Lines are compared without comments, imports and the space around them; lines without a letter or a digit are left out. A line
 * is copied when it belongs to a run of at least five lines that stands, equal, at an earlier place. The place where a run
 * stands first is not counted.
 */

import type { SourceFile } from '../support/source-tree.ts';

export const LEAST_RUN = 5;

export interface CopiedRun {
  readonly path: string;
  readonly lines: number;
  readonly firstLine: string;
  /** Where the run, or its beginning, stands first. */
  readonly original: string;
}

export interface CopiedNumbers {
  readonly compared: number;
  readonly copied: number;
  /** The longest ones first. */
  readonly runs: readonly CopiedRun[];
}

export function copiedIn(files: readonly SourceFile[]): CopiedNumbers {
  const places = new Map<string, Place>();
  const compared = files.map(({ path, code }) => ({ path, lines: comparedLines(code) }));
  const runs = compared.flatMap((file) => runsIn(file, places));
  return {
    compared: compared.reduce((sum, { lines }) => sum + lines.length, 0),
    copied: runs.reduce((sum, { lines }) => sum + lines, 0),
    runs: runs.sort((left, right) => right.lines - left.lines),
  };
}

interface Place {
  readonly path: string;
  readonly start: number;
}

interface ComparedFile {
  readonly path: string;
  readonly lines: readonly string[];
}

function comparedLines(code: string): readonly string[] {
  const lines = code.replaceAll(/^import\s[^;]*;$/gm, '').split('\n');
  return lines.map((line) => line.trim()).filter((line) => /[\p{L}\p{N}]/u.test(line));
}

/** `places` has where each sequence of `LEAST_RUN` lines stands first, and gets those of this file. */
function runsIn({ path, lines }: ComparedFile, places: Map<string, Place>): readonly CopiedRun[] {
  const runs: CopiedRun[] = [];
  let end = 0;
  for (let start = 0; start + LEAST_RUN <= lines.length; start += 1) {
    const sequence = lines.slice(start, start + LEAST_RUN).join('\n');
    const first = places.get(sequence) ?? { path, start };
    places.set(sequence, first);
    const overlaps = first.path === path && first.start + LEAST_RUN > start;
    if (overlaps) continue;
    const last = runs.at(-1);
    if (last !== undefined && start <= end) runs[runs.length - 1] = longer(last, start + LEAST_RUN - end);
    else runs.push({ path, lines: LEAST_RUN, firstLine: lines[start] ?? '', original: first.path });
    end = start + LEAST_RUN;
  }
  return runs;
}

function longer(run: CopiedRun, lines: number): CopiedRun {
  return { ...run, lines: run.lines + lines };
}
