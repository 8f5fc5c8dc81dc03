/** The numbers of the structure of `src`: what a reader has to find their way in. Pure. */

import { dirname } from 'node:path';
import type { SourceFile } from '../support/source-tree.ts';

/** A file with fewer lines that only one file of its own folder imports belongs into that file. */
export const LEAST_LINES_OF_A_PART = 40;

export interface FolderNumbers {
  readonly folder: string;
  readonly files: number;
  /** Without comments and blank lines. */
  readonly lines: number;
}

export interface StructureNumbers {
  readonly files: number;
  /** Without comments and blank lines. */
  readonly lines: number;
  readonly longest: { readonly path: string; readonly lines: number };
  readonly folders: readonly FolderNumbers[];
  /** Files that are too small to stand alone, with their only importer. */
  readonly parts: readonly { readonly path: string; readonly importer: string }[];
  /** Pairs of folders that import each other, and of which none contains the other. */
  readonly mutual: readonly string[];
}

/** Counts `src`; `all` are the files that may import from it. */
export function numbersOf(src: readonly SourceFile[], all: readonly SourceFile[]): StructureNumbers {
  const lengths = src.map(({ path, lines }) => ({ path, lines: lines.length }));
  const folders = [...Map.groupBy(src, ({ path }) => dirname(path))].map(([folder, files]) => ({
    folder,
    files: files.length,
    lines: sumOf(files.map(linesOfCode)),
  }));
  return {
    files: src.length,
    lines: sumOf(src.map(linesOfCode)),
    longest: lengths.reduce((longest, each) => (each.lines > longest.lines ? each : longest)),
    folders,
    parts: partsIn(src, all),
    mutual: mutualFolders(src),
  };
}

function linesOfCode({ code }: SourceFile): number {
  return code.split('\n').filter((line) => line.trim() !== '').length;
}

function partsIn(src: readonly SourceFile[], all: readonly SourceFile[]): StructureNumbers['parts'] {
  return src
    .filter((file) => file.lines.length < LEAST_LINES_OF_A_PART)
    .flatMap(({ path }) => {
      const importers = all.filter(({ imports }) => imports.includes(path));
      const [only] = importers;
      const isPart = only !== undefined && importers.length === 1 && dirname(only.path) === dirname(path);
      return isPart ? [{ path, importer: only.path }] : [];
    });
}

/** A folder and one inside it are read together: the outer one has the port, the inner one what stands behind it. */
export function mutualFolders(files: readonly SourceFile[]): readonly string[] {
  const imported = new Set(
    files.flatMap(({ path, imports }) => imports.map((each) => `${dirname(path)} ${dirname(each)}`)),
  );
  return [...imported].flatMap((pair) => {
    const [from = '', to = ''] = pair.split(' ');
    const isInside = to.startsWith(`${from}/`) || from.startsWith(`${to}/`);
    return from < to && !isInside && imported.has(`${to} ${from}`) ? [`${from} and ${to}`] : [];
  });
}

/** Files that load each other, directly or by way of others: none of them can be understood, or loaded, before the others. */
export function filesInRings(files: readonly SourceFile[]): readonly string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const isReachedFrom = (path: string, target: string, visited: Set<string>): boolean =>
    (byPath.get(path)?.loads ?? []).some((loaded) => {
      if (loaded === target) return true;
      if (visited.has(loaded)) return false;
      visited.add(loaded);
      return isReachedFrom(loaded, target, visited);
    });
  return files.map(({ path }) => path).filter((path) => isReachedFrom(path, path, new Set()));
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0);
}
