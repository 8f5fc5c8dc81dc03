/**
 * What a person asks for is written to the checkpoint, also while an instance runs: `run` acts on it within a second, and
 * where none runs the next catch-up does.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { type InstanceHolder, instanceLockPath, readInstanceLock } from '../checkpoint/instance-lock.ts';
import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';

/**
 * What `use` makes of the checkpoint, which is closed then.
 * @throws UsageError where there is none yet; `purpose` says what is then not to be had: `to resume`.
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

/** Who works on the data directory now, as far as it has said so; null where nobody does. */
export function runningInstance(
  { dataDirectory }: LocalConfiguration,
  { identity: { uid } }: Context,
): InstanceHolder | null {
  const { isLocked, holder } = readInstanceLock({ path: instanceLockPath(dataDirectory), uid });
  return isLocked ? holder : null;
}

/** A line on who does at once what was asked for; none where nobody follows here. */
export function doneAtOnce(configuration: LocalConfiguration, context: Context): readonly string[] {
  const holder = runningInstance(configuration, context);
  if (holder?.command !== 'run') return [];
  return [`feed-sync run is at work here (process ${holder.pid}): it begins within a second.`];
}
