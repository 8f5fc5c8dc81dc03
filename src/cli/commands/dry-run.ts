/** `feed-sync once --dry-run`: reports the next step of each dataset and changes nothing. Works beside a running instance. */

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Configuration } from '../../configuration/configuration.ts';
import { freeBytes } from '../../lib/files.ts';
import { catchUp } from '../../sync/catch-up.ts';
import { dryRunExecutor } from '../../sync/dry-run.ts';
import { askedBy, unknownAmong } from '../asked-datasets.ts';
import { type Context, write, writeMessage } from '../context.ts';
import { type ExitCode, mostUrgent } from '../exit-codes.ts';
import { openReadOnlyParts } from '../read-only-parts.ts';
import { dryRunOf, renderDryRun } from '../render/dry-run.ts';
import { jsonText } from '../render/formats.ts';
import { logFor } from '../render/screen.ts';
import { exitCodeOfResult } from '../render/summary.ts';

export interface DryRunOptions {
  readonly json: boolean;
  /** Ids and globs of the datasets that are asked for; none: all of them. */
  readonly names: readonly string[];
}

/** Reports the next steps, and changes nothing. @throws FeedSyncError when the dry run cannot begin. */
export async function dryRun(
  configuration: Configuration,
  context: Context,
  { json, names }: DryRunOptions,
): Promise<ExitCode> {
  const { stdout, width } = context.terminal;
  const opened = openReadOnlyParts(configuration, context, logFor(configuration, context.terminal));
  try {
    const result = await catchUp(opened.parts, context.signal, dryRunExecutor, askedBy(names));
    const free = await freeBytes(nearestFolder(configuration.dataDirectory));
    const disk = { freeBytes: free, reserveBytes: configuration.disk.reserveBytes };
    const view = dryRunOf(result, disk);
    await write(stdout, json ? jsonText(view) : `${renderDryRun(view, result, width)}\n`);
    const unknown = unknownAmong(names, opened.parts, configuration);
    if (unknown !== null) await writeMessage(context.terminal, unknown.text);
    return mostUrgent([exitCodeOfResult(result), ...(unknown ? [unknown.exitCode] : [])]);
  } finally {
    await opened.close();
  }
}

/** Returns the data directory, or the existing folder that will contain it. */
function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path));
}
