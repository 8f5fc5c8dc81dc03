/** Runs a command line and tells its trouble: the last line of defence, where every error becomes words and a code. */

import { FeedSyncError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { type ExitCode, exitCodeOf } from './exit-codes.ts';
import { tellError } from './person.ts';
import { runProgram } from './program.ts';
import { write } from './terminal.ts';

/** `words` is the command line without program and script. Never throws. */
export async function start(words: readonly string[], version: string, context: Context): Promise<ExitCode> {
  try {
    return await runProgram(words, version, context);
  } catch (error) {
    await write(context.terminal.stderr, `feed-sync: ${tell(error)}\n`);
    return exitCodeOf(error);
  }
}

/** Of a bug, the stack is what helps; of everything else, what happened and what to do. */
function tell(error: unknown): string {
  if (error instanceof FeedSyncError) return tellError(error);
  const stack = error instanceof Error ? error.stack : String(error);
  return `A bug in feed-sync ended it:\n${stack}\n→ Nothing was committed in part. Run it again, and report this.`;
}
