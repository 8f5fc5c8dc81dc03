/**
 * Something asked of the service for several subjects, one after another. One that is refused does not keep the others
 * from being asked; what would meet them all in the same way does.
 */

import { isAboutKey } from '../../feed/http/refusal.ts';
import { formatCount } from '../../lib/units.ts';
import { CommandRefusedError, FeedSyncError } from '../../model/errors.ts';
import type { Context } from '../context.ts';
import { type ExitCode, exitCodeOf, mostUrgent } from '../exit-codes.ts';
import { tellError } from '../person.ts';
import { write } from '../terminal.ts';

export interface Asked<Subject> {
  ask(subject: Subject): Promise<void>;
  /** A line for one that was done. */
  tell(subject: Subject): string;
}

/** Tells each, and gives the code of the most urgent trouble. */
export async function oneByOne<Subject>(
  subjects: readonly Subject[],
  { terminal }: Pick<Context, 'terminal'>,
  { ask, tell }: Asked<Subject>,
): Promise<ExitCode> {
  const codes: ExitCode[] = [];
  for (const [index, subject] of subjects.entries()) {
    try {
      await ask(subject);
      await write(terminal.stdout, `${tell(subject)}\n`);
    } catch (error) {
      if (!(error instanceof FeedSyncError)) throw error;
      codes.push(exitCodeOf(error));
      await write(terminal.stderr, `feed-sync: ${tellError(error)}\n`);
      if (isOfThisOneOnly(error)) continue;
      const left = subjects.length - index - 1;
      if (left > 0) await write(terminal.stderr, `Not asked for the ${formatCount(left)} that follow.\n`);
      break;
    }
  }
  return mostUrgent(codes);
}

function isOfThisOneOnly(error: FeedSyncError): boolean {
  return error instanceof CommandRefusedError && !isAboutKey(error);
}
