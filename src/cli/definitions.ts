/** The base on which commands are defined, and the options that several of them have. */

import { type Argument, type Command, Option } from 'commander';
import type { Configuration, LocalConfiguration } from '../configuration/configuration.ts';
import type { LoadInput } from '../configuration/resolve.ts';
import { parseDurationMs } from '../lib/units.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-codes.ts';

/** The program on which commands are defined, and the parts that they use when they are called. */
export interface Definitions {
  readonly program: Command;
  readonly version: string;
  readonly context: Context;
  readonly loadInput: () => LoadInput;
  /** @throws ConfigurationError */
  readonly configured: () => Configuration;
  /** For commands that do not ask the service. @throws ConfigurationError */
  readonly local: () => LocalConfiguration;
  /** `run` gets the arguments of the command, and then its options. */
  readonly define: <Words extends readonly unknown[]>(
    name: string,
    description: string,
    parts: readonly (Argument | Option)[],
    run: (...words: Words) => Promise<ExitCode>,
  ) => void;
}

export interface JsonFlag {
  readonly json?: boolean;
}

export const JSON_OPTION = new Option('--json', 'print JSON, for programs');

export interface YesFlag {
  readonly yes?: boolean;
}

export const YES_OPTION = new Option('--yes', 'go on without asking');

/** Parses the duration of an option. @throws UsageError */
export function durationMs(option: string, text: string, example: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null) return ms;
  throw new UsageError(`${option} is '${text}', which is not a duration; for example ${example}.`);
}

export function repeatable(flags: string, description: string): Option {
  const collect = (value: string, values: readonly string[] = []) => [...values, value];
  return new Option(flags, description).argParser(collect);
}
