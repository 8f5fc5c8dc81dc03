/**
 * Asks before a command deletes, takes back or replaces something: one place, so that every such command asks in the same way and
 * none does it unasked.
 */

import { UsageError } from '../model/errors.ts';
import { type Context, write } from './context.ts';

/** The intent of a command, for people. */
export interface Intent {
  /** Whole sentences, the consequences first. */
  readonly lines: readonly string[];
  /** A question that `yes` answers: `Roll parcels back?` */
  readonly question: string;
}

/**
 * Returns where the operator agrees: by `--yes`, or on the terminal. @throws UsageError where the answer is another one, and where
 * nobody can be asked; nothing may have been done before.
 */
export async function confirm(isYes: boolean, { lines, question }: Intent, context: Context): Promise<void> {
  if (isYes) return;
  if (context.ask === null) {
    throw new UsageError(`${lines.join(' ')} Nothing was done, because nobody was asked.`, {
      hint: 'Give --yes, or run it on a terminal.',
    });
  }
  await write(context.terminal.stderr, `${lines.join('\n')}\n`);
  const answer = await context.ask(`${question} [y/N] `);
  if (/^y(?:es)?$/i.test(answer.trim())) return;
  throw new UsageError('Nothing was done: the answer was not yes.');
}
