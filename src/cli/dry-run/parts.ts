/**
 * The parts of a catch-up that changes nothing: the service as it is, a copy of the checkpoint in memory, the mirror
 * opened read-only for a moment. It takes no lock, so an instance may run beside it.
 */

import { openCheckpointCopy } from '../../checkpoint/sqlite/copy.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Destination, Held } from '../../destination/destination.ts';
import { openReader } from '../../destination/duckdb/reading/reader.ts';
import { createFeed } from '../../feed/create-feed.ts';
import { AssertionError } from '../../lib/assert.ts';
import type { Log } from '../../lib/log.ts';
import type { Parts } from '../../sync/parts.ts';
import { silentProgress } from '../../sync/progress.ts';
import { choicesOf } from '../choices.ts';
import type { Context } from '../context.ts';
import { feedOptions } from '../feed-options.ts';
import { isKnownOrigin } from '../known-origin.ts';

/**
 * @throws StorageError when the checkpoint cannot be read.
 * @throws ConfigurationError when it was written by a newer program.
 */
export function openDryRunParts(
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
    onContractLearned: (contract) => checkpoint.rememberContract(contract),
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

function readOnlyMirror(configuration: Configuration, context: Context): Destination {
  const refuse = async (): Promise<never> => {
    throw new AssertionError('A dry run asked the mirror to change.');
  };
  return {
    has: () => readHeld(configuration, context),
    enroll: refuse,
    prepare: refuse,
    readAhead: refuse,
    commit: refuse,
    storeProgress: refuse,
    progress: () => 0,
    async close() {},
  };
}

async function readHeld(
  { destination: { path }, lock, duckdb }: Configuration,
  { clock, random, signal }: Context,
): Promise<Held> {
  const reader = await openReader({ path, waitMs: lock.waitMs, ...duckdb, clock, random, signal });
  if (reader === null) return { service: null, datasets: new Map(), progress: null, retired: [] };
  try {
    return await reader.held();
  } finally {
    await reader.close();
  }
}
