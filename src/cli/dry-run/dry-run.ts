/** `feed-sync once --dry-run`: what a catch-up would do now, told and not done. Works beside a running instance. */

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Configuration } from '../../configuration/configuration.ts';
import { freeBytes } from '../../lib/files.ts';
import { catchUp } from '../../sync/catch-up.ts';
import { foresight } from '../../sync/foresight.ts';
import type { Context } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { jsonText } from '../json.ts';
import { logFor } from '../log-for.ts';
import { exitCodeOfResult } from '../summary.ts';
import { write } from '../terminal.ts';
import { openDryRunParts } from './parts.ts';
import { renderDryRun } from './text.ts';
import { dryRunOf } from './view.ts';

export interface DryRunOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when it cannot even begin. */
export async function dryRun(
  configuration: Configuration,
  context: Context,
  { json }: DryRunOptions,
): Promise<ExitCode> {
  const { stdout, width } = context.terminal;
  const opened = openDryRunParts(configuration, context, logFor(configuration, context.terminal));
  try {
    const { makeWorkshop, steps } = foresight();
    const result = await catchUp(opened.parts, context.signal, makeWorkshop);
    const free = await freeBytes(nearestFolder(configuration.dataDirectory));
    const disk = { freeBytes: free, reserveBytes: configuration.disk.reserveBytes };
    const view = dryRunOf({ result, steps, disk });
    await write(stdout, json ? jsonText(view) : `${renderDryRun(view, { result, steps }, width)}\n`);
    return exitCodeOfResult(result);
  } finally {
    await opened.close();
  }
}

/** The data directory, or what it will be made in. */
function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path));
}
