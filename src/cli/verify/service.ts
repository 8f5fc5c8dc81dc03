/**
 * What `verify` asks the service: the versions of each dataset from the mirrored one on. Nothing that the service
 * says is stored, a refusal neither; once the workspace is refused, nothing more is asked.
 */

import pLimit from 'p-limit';
import type { Held, HeldDataset } from '../../destination/destination.ts';
import type { Feed } from '../../feed/feed.ts';
import { FeedSyncError, InterruptedError, RefusalError } from '../../model/errors.ts';
import type { Version } from '../../model/version.ts';
import { refuseForeignMirror } from '../../sync/follow/ownership.ts';

/** The connections to the service are limited besides. */
const DATASETS_AT_ONCE = 16;

export interface Answers {
  /** By dataset id: its versions from the mirrored one on, or why there is no answer. Absent where none was asked for. */
  readonly ofDatasets: ReadonlyMap<string, readonly Version[] | FeedSyncError>;
  /** Why the service could not be asked, or not for all; null where it could. */
  readonly trouble: FeedSyncError | null;
}

/** Whose mirror it is. */
export interface Ownership {
  readonly held: Held;
  /** Subscriptions that a person gave up. */
  readonly forgotten: readonly string[];
}

/**
 * Asks for each of the tables.
 * @throws InterruptedError
 */
export async function askService(
  feed: Feed,
  { held, forgotten }: Ownership,
  tables: readonly HeldDataset[],
  signal: AbortSignal,
): Promise<Answers> {
  const ofDatasets = new Map<string, readonly Version[] | FeedSyncError>();
  let trouble: FeedSyncError | null = null;
  try {
    // Listed first: a service that cannot be reached, or refuses the key, costs this one call.
    const { subscriptions: seen } = await feed.subscriptions(signal);
    await feed.discover(signal);
    refuseForeignMirror(held, feed.origin, seen, forgotten);
  } catch (error) {
    return { ofDatasets, trouble: told(error) };
  }
  await pLimit(DATASETS_AT_ONCE).map(tables, async ({ datasetId, version }) => {
    if (trouble !== null) return;
    try {
      const { versions } = await feed.versions(datasetId, version - 1, signal);
      ofDatasets.set(datasetId, versions);
    } catch (error) {
      const answer = told(error);
      if (isOfTheWorkspace(answer)) trouble = answer;
      else ofDatasets.set(datasetId, answer);
    }
  });
  return { ofDatasets, trouble };
}

function isOfTheWorkspace(error: FeedSyncError): boolean {
  return error instanceof RefusalError && error.refusal.scope.kind !== 'dataset';
}

/** @throws what is no trouble of the service: a wish to stop, a bug. */
function told(error: unknown): FeedSyncError {
  if (error instanceof FeedSyncError && !(error instanceof InterruptedError)) return error;
  throw error;
}
