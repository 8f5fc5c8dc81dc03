/** A decision of the program that is broken on purpose, to see that a test notices. */

export interface Mutant {
  /** What the program does then, in plain words. */
  readonly name: string;
  /** From the project's root. */
  readonly file: string;
  /** What stands in the file, exactly once. */
  readonly text: string;
  /** What stands there instead. It compiles. */
  readonly instead: string;
  /**
   * What is lost by it: rules of `src/rules.md`, promises (`P1` to `P10`), faults (`F16`); in words where it has no
   * number.
   */
  readonly breaks: readonly string[];
  /** The test files that are expected to notice, the quickest first; from the folder `test`. */
  readonly tests: readonly string[];
}

/** Decisions that belong together. */
export interface Area {
  readonly title: string;
  readonly mutants: readonly Mutant[];
}

/** How often a text stands in a file. */
export function occurrences(text: string, content: string): number {
  return content.split(text).length - 1;
}

/** The content of the file with the decision broken. The text must stand in it once. */
export function broken({ text, instead }: Mutant, content: string): string {
  return content.replace(text, () => instead);
}
