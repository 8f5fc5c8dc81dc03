/** What a setting is: how its value is read, what holds without one, and what to tell people about it. */

import type { Kind } from './kinds.ts';

export interface Setting<Value> {
  readonly kind: Kind<Value>;
  readonly default: Default<Value>;
  /** One sentence. */
  readonly description: string;
}

export type Default<Value> =
  /** There is none; the example takes its place in the example file. */
  | { readonly kind: 'required'; readonly example: string }
  /** A value as a person would write it. */
  | { readonly kind: 'written'; readonly text: string }
  /** A value that depends on where we run; `words` say so without naming the machine's. */
  | { readonly kind: 'derived'; readonly words: string; readonly derive: Derive }
  /** A value that no text stands for; `words` say what it means, and `example` what could be written instead. */
  | { readonly kind: 'absent'; readonly words: string; readonly value: Value; readonly example: string };

/** `dataDirectory` is absolute; it is the working directory while the data directory itself is looked for. */
export type Derive = (surroundings: Surroundings, dataDirectory: string) => DerivedDefault;

export interface DerivedDefault {
  /** As a person would write it. */
  readonly text: string;
  /** Where it comes from, where not from this program: `environment STATE_DIRECTORY`. */
  readonly source?: string;
}

/** What defaults depend on. */
export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Absolute. */
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly stderrIsTerminal: boolean;
}

export interface Machine {
  readonly memoryBytes: number;
  /** What the container may use, as `process.constrainedMemory()` has it: 0, or more than there is, means no limit. */
  readonly constrainedMemoryBytes: number;
  readonly cores: number;
}

export function required(example: string) {
  return { kind: 'required', example } as const;
}

export function written(text: string) {
  return { kind: 'written', text } as const;
}

export function derived(words: string, derive: Derive) {
  return { kind: 'derived', words, derive } as const;
}

export function absent<const Value>(words: string, value: Value, example: string) {
  return { kind: 'absent', words, value, example } as const;
}
