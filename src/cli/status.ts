/** `feed-sync status`: what is wanted, what the mirror has, and what is in the way. Works beside a running instance. */

import { join } from 'node:path';
import type { CheckpointReader } from '../checkpoint/checkpoint.ts';
import { readInstanceLock } from '../checkpoint/instance-lock.ts';
import { openCheckpointReader } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { openReader } from '../destination/duckdb/reader.ts';
import { BusyError, ConfigurationError, StorageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from './exit-codes.ts';
import { jsonText } from './json.ts';
import { renderStatus } from './status-text.ts';
import { type MirrorSeen, type Status, statusOf } from './status-view.ts';
import { write } from './terminal.ts';

/** A person who asks how things are does not want to wait for the mirror as long as a write does. */
const MAX_WAIT_MS = 5_000;

export interface StatusOptions {
  readonly json: boolean;
}

/** @throws FeedSyncError when a store cannot be read. */
export async function status(
  configuration: LocalConfiguration,
  context: Context,
  { json }: StatusOptions,
): Promise<ExitCode> {
  const mirror = await readMirror(configuration, context);
  const view = look(mirror, configuration, context);
  await write(context.terminal.stdout, json ? jsonText(view) : `${renderStatus(view)}\n`);
  return mirror instanceof Error ? exitCodeOf(mirror) : EXIT_CODES.caughtUp;
}

function look(mirror: MirrorSeen, configuration: LocalConfiguration, context: Context): Status {
  const { uid } = context.identity;
  const { held: running, holder } = readInstanceLock({
    path: join(configuration.dataDirectory, 'lock.sqlite'),
    uid,
  });
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

/** Trouble with the mirror is shown, and the rest with it. */
async function readMirror(configuration: LocalConfiguration, context: Context): Promise<MirrorSeen> {
  try {
    const reader = await openReader({
      path: configuration.destination.path,
      waitMs: Math.min(configuration.lock.waitMs, MAX_WAIT_MS),
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
    if (error instanceof StorageError || error instanceof ConfigurationError) return error;
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
