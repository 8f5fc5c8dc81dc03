/** From a configuration to what the user chose of a catch-up. */

import { join } from 'node:path';
import type { Configuration } from '../configuration/configuration.ts';
import type { Choices } from '../sync/parts.ts';
import { keyHashOf } from './key-hash.ts';

export function choicesOf(configuration: Configuration): Choices {
  return {
    subscriptions: configuration.subscriptions,
    ...configuration.datasets,
    schemaChanges: configuration.schemaChanges,
    removedDatasets: configuration.removedDatasets,
    stagingDirectory: join(configuration.dataDirectory, 'staging'),
    manifestLagMs: configuration.service.contract.manifestLagMs,
    maxStagedBytes: configuration.changes.maxStagedBytes,
    keyHash: keyHashOf(configuration.service),
  };
}
