/** `feed-sync status`: what is wanted, what the mirror has, and what is in the way. Works beside a running instance. */

import { join } from 'node:path';
import type { CheckpointReader } from '../checkpoint/checkpoint.ts';
import { readInstanceLock } from '../checkpoint/instance-lock.ts';
import { openCheckpointReader } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { Held } from '../destination/destination.ts';
import { openReader } from '../destination/duckdb/reader.ts';
import { BusyError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { jsonText } from './json.ts';
import { renderStatus } from './status-text.ts';
import { type Status, statusOf } from './status-view.ts';
import { write } from './terminal.ts';

export interface StatusOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when a store cannot be read. */
export async function status(
  configuration: LocalConfiguration,
  context: Context,
  { json }: StatusOptions,
): Promise<ExitCode> {
  const view = await look(configuration, context);
  await write(context.terminal.stdout, json ? jsonText(view) : `${renderStatus(view)}\n`);
  return EXIT_CODES.caughtUp;
}

async function look(configuration: LocalConfiguration, context: Context): Promise<Status> {
  const { uid } = context.identity;
  const { held: running, holder } = readInstanceLock({
    path: join(configuration.dataDirectory, 'lock.sqlite'),
    uid,
  });
  const mirror = await readMirror(configuration, context);
  const checkpoint = openCheckpointReader({ path: configuration.checkpoint.path, uid });
  try {
    return statusOf({
      dataDirectory: configuration.dataDirectory,
      mirrorPath: configuration.destination.path,
      runningInstance: running ? holder : null,
      mirror,
      checkpoint: checkpoint === null ? null : contentOf(checkpoint),
    });
  } finally {
    checkpoint?.close();
  }
}

/** 'busy' where the writer, or whoever else holds the file, keeps it longer than we wait. */
async function readMirror(
  configuration: LocalConfiguration,
  context: Context,
): Promise<Held | null | 'busy'> {
  try {
    const reader = await openReader({
      path: configuration.destination.path,
      waitMs: configuration.lock.waitMs,
      ...configuration.duckdb,
      clock: context.clock,
      random: context.random,
      signal: context.signal,
    });
    if (reader === null) return null;
    try {
      return await reader.held();
    } finally {
      await reader.close();
    }
  } catch (error) {
    if (error instanceof BusyError) return 'busy';
    throw error;
  }
}

function contentOf(checkpoint: CheckpointReader) {
  return {
    followed: checkpoint.followed(),
    wants: checkpoint.wants(),
    holds: checkpoint.holds(),
    failures: checkpoint.failures(),
  };
}
