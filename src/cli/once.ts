/** `feed-sync once`: catch up with everything published so far, print a summary, exit. */

import type { Configuration } from '../configuration/configuration.ts';
import { catchUp } from '../sync/catch-up.ts';
import type { Context } from './context.ts';
import { type ExitCode, mostUrgent } from './exit-codes.ts';
import { readersOf, serveReaders } from './for-readers.ts';
import { LiveView } from './live/live-view.ts';
import { WorkSeen } from './live/work-seen.ts';
import { logFor, screenFor } from './log-for.ts';
import { openParts } from './open-parts.ts';
import { progressLog } from './progress-log.ts';
import { exitCodeOfResult, summarize } from './summary.ts';
import { write } from './terminal.ts';

/** @throws FeedSyncError when it cannot even begin. */
export async function once(configuration: Configuration, context: Context): Promise<ExitCode> {
  const { terminal, clock, signal } = context;
  const screen = screenFor(configuration, terminal, clock);
  const log = logFor(configuration, terminal, screen);
  const work = new WorkSeen(clock);
  const progress = screen === null ? progressLog(log) : work;
  const opened = await openParts({ configuration, context, log, progress, command: 'once', signal });
  try {
    const look = () => ({ work, glance: null });
    const view = screen === null ? null : new LiveView(screen, terminal, clock, look);
    const result = await catchUp(opened.parts, signal).finally(() => view?.end());
    const readers = readersOf({ ...opened, configuration, context, signal });
    const served = await serveReaders(readers, signal);
    await write(terminal.stdout, `${[summarize(result), ...served.told].join('\n')}\n`);
    return mostUrgent([exitCodeOfResult(result), ...served.codes]);
  } finally {
    await opened.close();
  }
}
