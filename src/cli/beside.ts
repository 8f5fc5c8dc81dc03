/**
 * Writes an operator's decision to the checkpoint, also beside a running instance: `run` acts on the decision within a
 * second, otherwise
 * the next catch-up does.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { type InstanceHolder, instanceLockPath, readInstanceLock } from '../checkpoint/instance-lock.ts';
import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';

/**
 * Calls `use` with the checkpoint, then closes it. @throws UsageError where there is no checkpoint yet; `purpose` says what is
 * impossible then: `to resume`.
 */
export function usingCheckpoint<T>(
  purpose: string,
  configuration: LocalConfiguration,
  { clock, identity }: Context,
  use: (checkpoint: Checkpoint) => T,
): T {
  const checkpoint = openCheckpointBeside({ path: configuration.checkpoint.path, uid: identity.uid, clock });
  if (checkpoint === null) {
    throw new UsageError(`There is nothing ${purpose}: no catch-up has run here yet.`, {
      hint: 'feed-sync once',
    });
  }
  try {
    return use(checkpoint);
  } finally {
    checkpoint.close();
  }
}

/** Returns the instance that works on the data directory, as far as it has said so; null where there is none. */
export function runningInstance(
  { dataDirectory }: LocalConfiguration,
  { identity: { uid } }: Context,
): InstanceHolder | null {
  const { isLocked, holder } = readInstanceLock({ path: instanceLockPath(dataDirectory), uid });
  return isLocked ? holder : null;
}

/** Returns a line about the running instance that acts on the decision at once; nothing where none follows here. */
export function doneAtOnce(configuration: LocalConfiguration, context: Context): readonly string[] {
  const holder = runningInstance(configuration, context);
  if (holder?.command !== 'run') return [];
  return [`feed-sync run is at work here (process ${holder.pid}): it begins within a second.`];
}
