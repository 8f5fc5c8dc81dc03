/**
 * `feed-sync status`: reports the desired and the observed state, and the obstacles between them. Works beside a running
 * instance.
 */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { BusyError } from '../../model/errors.ts';
import { statusJson, statusOf } from '../../reporting/status.ts';
import { readCheckpoint, seeMirror } from '../../reporting/stores.ts';
import { runningInstance } from '../beside.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from '../exit-codes.ts';
import { renderStatus } from '../render/status.ts';
import { jsonText } from '../render/table.ts';

export interface StatusOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when the checkpoint cannot be read. */
export async function status(
  configuration: LocalConfiguration,
  context: Context,
  { json }: StatusOptions,
): Promise<ExitCode> {
  const { identity, readFile, clock, terminal } = context;
  const mirror = await seeMirror(configuration, context);
  const report = statusOf(configuration, {
    mirror,
    runningInstance: runningInstance(configuration, context),
    checkpoint: readCheckpoint(configuration, identity.uid),
    pid: identity.pid,
    readFile,
  });
  const { stdout, width } = terminal;
  const text = json ? jsonText(statusJson(report)) : `${renderStatus(report, { now: clock.now(), width })}\n`;
  await write(stdout, text);
  return mirror instanceof Error && !(mirror instanceof BusyError) ? exitCodeOf(mirror) : EXIT_CODES.caughtUp;
}
