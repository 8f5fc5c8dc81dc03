/** What an operator chooses, in tests of catching up. */

import { NO_LIMITS } from '../../src/model/gate.ts';
import type { Choices } from '../../src/sync/parts.ts';

/** The choices of an operator who has set nothing but where content is staged. */
export function ordinaryChoices(stagingDirectory: string): Choices {
  return {
    subscriptions: null,
    include: [],
    exclude: [],
    schemaChanges: 'reload',
    removedDatasets: 'archive',
    stagingDirectory,
    manifestLagMs: 15 * 60_000,
    maxStagedBytes: 8e9,
    commitsEveryVersion: () => false,
    limitsOf: () => NO_LIMITS,
    keepCandidatesBytes: 10_000_000_000,
    keyHash: 'key-1',
  };
}
