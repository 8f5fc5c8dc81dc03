/** The names of all durable effects, as the sources say them: the one list from which checks and crash tests begin. */

import type { SourceFile } from './source-tree.ts';

/** `durable` itself, everything that takes the name of an effect as its first argument, and objects that have one as `effect`. */
const NAMED =
  /(?:\b(durable|transaction|makeDirectory|makeScratchDirectory|makeTemporaryDirectory|replaceFile|writeScratch|createFile|renameFile|renameScratch|remove|openForWriting|cloneFile|settleFile|syncFile|giveFile|cutFile)\(\s*|\beffect: )'([^']*)'/g;

export interface NamedEffect {
  /** Of the file it stands in. */
  readonly path: string;
  /** The function that takes the name; `effect` where an object has it. */
  readonly by: string;
  readonly name: string;
}

/** One for each place in the sources, in their order. */
export function durableEffects(files: readonly SourceFile[]): readonly NamedEffect[] {
  return files.flatMap(({ path, code }) =>
    Array.from(code.matchAll(NAMED), (match) => ({ path, by: match[1] ?? 'effect', name: match[2] ?? '' })),
  );
}
