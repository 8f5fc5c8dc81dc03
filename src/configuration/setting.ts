/** A setting: its schema, its description, and the default that stands for a missing value. */

import { join } from 'node:path';
import { z } from 'zod';
import type { Relative } from './value-types.ts';

/** The default of a setting without a value. */
export interface Default<Value = unknown> {
  /** For the operator; null: the setting is required. */
  readonly words: string | null;
  /** The default as an operator would write it, or how it follows from the surroundings; null where no text stands for it. */
  readonly text: string | Derive | null;
  /** The value where no text stands for it. */
  readonly value?: Value;
  /** An example value, as YAML. */
  readonly example: string | null;
}

/** Null where the default depends on the data directory (an absolute path) and that is unknown. */
type Derive = (surroundings: Surroundings, dataDirectory: unknown) => DerivedDefault | null;

interface DerivedDefault {
  /** The default as an operator would write it. */
  readonly text: string;
  /** The source where the default comes from elsewhere: `environment STATE_DIRECTORY`. */
  readonly source?: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The surroundings on which defaults depend. */
export interface Surroundings {
  readonly environment: Environment;
  /** Absolute. */
  readonly workingDirectory: string;
  readonly machine: Machine;
  readonly stderrIsTerminal: boolean;
}

export interface Machine {
  readonly memoryBytes: number;
  /**
   * The memory limit of the container, as `process.constrainedMemory()` returns it: 0, or more than the machine has, means
   * no limit.
   */
  readonly constrainedMemoryBytes: number;
  /** The limit of Node's heap: about half of the memory, unless `--max-old-space-size` says otherwise. */
  readonly heapBytes: number;
  readonly cores: number;
}

/** The default of each setting, by its schema. */
export const defaults = z.registry<Default>();

/** Describes a setting. Its value is the result of the schema or, without one, the value that stands for its absence. */
export function setting<Value, Missing = never>(
  schema: z.ZodType<Value>,
  whenMissing: string | Default<Missing>,
  description: string,
) {
  const described = schema.meta({ ...schema.meta(), description });
  const text = whenMissing;
  defaults.add(described, typeof text === 'string' ? { words: text, text, example: null } : text);
  // The resolver makes paths absolute, and puts the value of a missing setting in its place.
  return described as unknown as z.ZodType<(Value extends Relative<infer Whole> ? Whole : Value) | Missing>;
}

/** Returns the default of a setting that has none. */
export function required(example: string): Default<never> {
  return { words: null, text: null, example };
}

/** Returns a default that follows from the surroundings. */
export function derived(words: string, text: Derive): Default<never> {
  return { words, text, example: null };
}

/** Returns a default without a text: the value stands for the absence of the setting. */
export function absent<Value>(words: string, value: Value, example: string): Default<Value> {
  return { words, text: null, value, example };
}

/** Returns the default of a setting that is off unless something is given. */
export function off(example: string): Default<never> {
  return { words: 'off', text: 'off', example };
}

/** A wrong unit, 4MB for 4GB, is reported here and not in the middle of a load. */
export const LEAST_MEMORY_LIMIT_BYTES = 64e6;
/** Returns the service manager's folder for feed-sync; the first of several. */
export function dataDirectoryDefault({ environment }: Surroundings): DerivedDefault {
  const { STATE_DIRECTORY: directories = '' } = environment;
  const [directory = ''] = directories.split(':');
  return directory === '' ? { text: './data' } : { text: directory, source: 'environment STATE_DIRECTORY' };
}

/** Returns the default of a file in the data directory. */
export function inDataDirectory(name: string): Derive {
  return (_, dataDirectory) =>
    typeof dataDirectory === 'string' ? { text: join(dataDirectory, name) } : null;
}

/** Returns the bytes of memory that the container or machine has. */
export function usableMemory({ memoryBytes, constrainedMemoryBytes }: Machine): number {
  return constrainedMemoryBytes > 0 ? Math.min(constrainedMemoryBytes, memoryBytes) : memoryBytes;
}

/** Returns half of what the container or machine has. */
export function halfOfMemory(machine: Machine): DerivedDefault {
  return { text: inMegabytes(Math.max(usableMemory(machine) / 2, LEAST_MEMORY_LIMIT_BYTES)) };
}

/** Returns the size as an operator would write it. */
export function inMegabytes(bytes: number): string {
  return `${Math.floor(bytes / 1e6)}MB`;
}
