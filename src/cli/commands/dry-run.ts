/** `feed-sync once --dry-run`: reports the next step of each dataset and changes nothing. Works beside a running instance. */

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { openCheckpointCopy } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Destination, ObservedState } from '../../destination/destination.ts';
import { createFeed } from '../../feed/create-feed.ts';
import { AssertionError } from '../../lib/assert.ts';
import { freeBytes } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { readerOptions, readMirror } from '../../reporting/stores.ts';
import { catchUp } from '../../sync/catch-up.ts';
import { dryRunExecutor } from '../../sync/dry-run.ts';
import type { Parts } from '../../sync/parts.ts';
import { silentProgress } from '../../sync/progress.ts';
import { type Context, write } from '../context.ts';
import type { ExitCode } from '../exit-codes.ts';
import { choicesOf } from '../open-parts.ts';
import { dryRunOf, renderDryRun } from '../render/dry-run.ts';
import { logFor } from '../render/screen.ts';
import { exitCodeOfResult } from '../render/summary.ts';
import { jsonText } from '../render/table.ts';
import { feedOptions, isKnownOrigin } from '../service-client.ts';

export interface DryRunOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when the dry run cannot begin. */
export async function dryRun(
  configuration: Configuration,
  context: Context,
  { json }: DryRunOptions,
): Promise<ExitCode> {
  const { stdout, width } = context.terminal;
  const opened = openDryRunParts(configuration, context, logFor(configuration, context.terminal));
  try {
    const result = await catchUp(opened.parts, context.signal, dryRunExecutor);
    const free = await freeBytes(nearestFolder(configuration.dataDirectory));
    const disk = { freeBytes: free, reserveBytes: configuration.disk.reserveBytes };
    const view = dryRunOf(result, disk);
    await write(stdout, json ? jsonText(view) : `${renderDryRun(view, result, width)}\n`);
    return exitCodeOfResult(result);
  } finally {
    await opened.close();
  }
}

/** Returns the data directory, or the existing folder that will contain it. */
function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path));
}

/**
 * @throws StorageError when the checkpoint cannot be read.
 * @throws ConfigurationError when a newer program wrote the checkpoint.
 */
function openDryRunParts(
  configuration: Configuration,
  context: Context,
  log: Log,
): { readonly parts: Parts; readonly close: () => Promise<void> } {
  const { clock, identity } = context;
  const { path } = configuration.checkpoint;
  const checkpoint = openCheckpointCopy({ path, uid: identity.uid, clock, log });
  const destination = readOnlyMirror(configuration, context);
  const feed = createFeed({
    ...feedOptions(configuration, context, log),
    isKnownOrigin: async () => isKnownOrigin(configuration, await destination.has()),
    remembered: checkpoint.rememberedContract(),
    onContractDiscovered: (contract) => checkpoint.rememberContract(contract),
  });
  const choices = choicesOf(configuration);
  return {
    parts: { feed, destination, checkpoint, clock, log, progress: silentProgress, choices },
    async close() {
      await feed.close();
      checkpoint.close();
    },
  };
}

const NO_MIRROR: ObservedState = { service: null, datasets: new Map(), progress: null, retired: [] };

function readOnlyMirror(configuration: Configuration, context: Context): Destination {
  const refuse = async (): Promise<never> => {
    throw new AssertionError('A dry run asked the mirror to change.');
  };
  return {
    async has() {
      return (await readMirror(readerOptions(configuration, context))) ?? NO_MIRROR;
    },
    enroll: refuse,
    validate: refuse,
    readAhead: refuse,
    commit: refuse,
    unpin: refuse,
    storeProgress: refuse,
    progress: () => 0,
    async close() {},
  };
}
