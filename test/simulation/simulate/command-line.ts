/** `npm run simulate`: what may be asked for. */

import { parseArgs } from 'node:util';

export const USAGE = `Plays random histories of a feed and an installation in memory, and says what of them broke a rule.

  npm run simulate -- [--seed N] [--histories N] [--processes N]

  --seed N        the seed of the first history; the others follow it (1)
  --histories N   how many (1000)
  --processes N   how many processes play side by side (one for each core)
  --help          this

It ends with 0 if every rule held, with 1 if one was broken, and with 64 for an invalid command line. The first
history that fails is printed with its settings, its steps, and the command that repeats it. The same seed is the same history
as long as the steps are the same.
`;

export interface Asked {
  readonly seed: number;
  readonly histories: number;
  /** Null: one for each core. */
  readonly processes: number | null;
}

/** Null: help. @throws UsageError */
export function readCommandLine(words: readonly string[]): Asked | null {
  const { values } = parsed(words);
  if (values.help) return null;
  return {
    seed: numberOf('seed', values.seed, 0),
    histories: numberOf('histories', values.histories, 1),
    processes: values.processes === undefined ? null : numberOf('processes', values.processes, 1),
  };
}

export class UsageError extends Error {}

function parsed(words: readonly string[]) {
  try {
    return parseArgs({
      args: [...words],
      options: {
        seed: { type: 'string', default: '1' },
        histories: { type: 'string', default: '1000' },
        processes: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function numberOf(name: string, text: string, least: number): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least) return number;
  throw new UsageError(`--${name} takes a whole number from ${least} on, and not "${text}".`);
}
