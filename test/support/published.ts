/** The expected content of a mirror: what the feed has published by now, or by then. */

import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { DatasetVersion } from '../../fixtures/feed/model.ts';
import type { FileSettings } from '../../fixtures/feed/settings.ts';

export interface PublishedDataset {
  readonly datasetId: string;
  readonly version: DatasetVersion;
}

export interface Expectation {
  readonly origin: string;
  readonly subscriptionIds: readonly string[];
  /** Given up: tables go on to say which of the reloads that they asked for they satisfy. */
  readonly formerSubscriptionIds?: readonly string[];
  readonly datasets: readonly PublishedDataset[];
  /** Whether a snapshot of no rows comes as a file, which names columns and coordinate systems, or as none at all. */
  readonly emptySnapshot: FileSettings['emptySnapshot'];
}

interface Choice {
  /** Leaves out the datasets it answers false for. */
  readonly only?: (datasetId: string) => boolean;
  /** Datasets that are expected though no subscription contains them any more. */
  readonly also?: readonly string[];
  /** The versions of those that are expected at another than the newest. */
  readonly at?: Readonly<Record<string, DatasetVersion>>;
}

/** Everything in any subscription of the feed. */
export function everythingPublished(
  feed: Pick<FixtureFeed, 'store' | 'settings' | 'baseUrl'>,
  { only = () => true, also = [], at = {} }: Choice = {},
): Expectation {
  const subscriptions = [...feed.store.subscriptions.values()];
  const ids = new Set(subscriptions.flatMap(({ members }) => [...members]).concat(also));
  const datasets = [...ids].filter(only).map((datasetId): PublishedDataset => {
    const version = at[datasetId] ?? feed.store.dataset(datasetId).versions.at(-1);
    if (version === undefined) throw new Error(`${datasetId} has no version`);
    return { datasetId, version };
  });
  const subscriptionIds = subscriptions.map(({ subscriptionId }) => subscriptionId);
  const { emptySnapshot } = feed.settings.files;
  return { origin: new URL(feed.baseUrl).origin, subscriptionIds, datasets, emptySnapshot };
}

/** The name the table has where no other dataset's name is the same but for punctuation. */
export function tableNameOf(datasetId: string): string {
  return datasetId
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_')
    .replace(/^(?=[0-9])/, '_');
}
