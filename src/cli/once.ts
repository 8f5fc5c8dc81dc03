/** `feed-sync once`: catch up with everything published so far, print a summary, exit. */

import type { Configuration } from '../configuration/configuration.ts';
import { catchUp } from '../sync/catch-up.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-codes.ts';
import { logFor } from './log-for.ts';
import { openParts } from './open-parts.ts';
import { progressFor } from './progress-line.ts';
import { exitCodeOfResult, summarize } from './summary.ts';
import { write } from './terminal.ts';

/** @throws FeedSyncError when it cannot even begin. */
export async function once(configuration: Configuration, context: Context): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const log = logFor(configuration, terminal);
  const progress = progressFor(terminal, clock, log);
  const opened = await openParts({ configuration, context, log, progress, command: 'once', signal });
  try {
    const result = await catchUp(opened.parts, signal);
    progress.end();
    await write(terminal.stdout, `${summarize(result)}\n`);
    return exitCodeOfResult(result);
  } finally {
    await opened.close();
  }
}
