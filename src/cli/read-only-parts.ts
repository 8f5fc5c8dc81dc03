/** Opens the dependencies of commands that ask the service and change nothing. Works beside a running instance. */

import { openCheckpointCopy } from '../checkpoint/sqlite/open.ts';
import type { Configuration } from '../configuration/configuration.ts';
import type { Destination, ObservedState } from '../destination/destination.ts';
import { createFeed } from '../feed/create-feed.ts';
import { AssertionError } from '../lib/assert.ts';
import type { Log } from '../lib/log.ts';
import { readMirror } from '../reporting/stores.ts';
import type { Parts } from '../sync/parts.ts';
import { type Progress, silentProgress } from '../sync/progress.ts';
import type { Context } from './context.ts';
import { choicesOf } from './open-parts.ts';
import { feedOptions, isKnownOrigin } from './service-client.ts';

/**
 * Opens the parts that change nothing. @throws StorageError when the checkpoint cannot be read.
 * @throws ConfigurationError when a newer program wrote the checkpoint.
 */
export function openReadOnlyParts(
  configuration: Configuration,
  context: Context,
  log: Log,
  progress: Progress = silentProgress,
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
  const process = { command: 'once --dry-run', pid: identity.pid, host: identity.host };
  return {
    parts: { feed, destination, checkpoint, clock, log, progress, choices, process },
    async close() {
      await feed.close();
      checkpoint.close();
    },
  };
}

const NO_MIRROR: ObservedState = { service: null, datasets: new Map(), progress: null, retired: [] };

function readOnlyMirror(configuration: Configuration, context: Context): Destination {
  const refuse = async (): Promise<never> => {
    throw new AssertionError('A command that changes nothing asked the mirror to change.');
  };
  return {
    async has() {
      return (await readMirror(configuration, context)) ?? NO_MIRROR;
    },
    enroll: refuse,
    validate: refuse,
    readAhead: refuse,
    commit: refuse,
    findDamage: refuse,
    unpin: refuse,
    storeProgress: refuse,
    forgetPast: async () => 'nothing',
    storeChecksum: refuse,
    renewChecksums: refuse,
    progress: () => 0,
    async close() {},
  };
}
