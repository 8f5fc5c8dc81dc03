/** Puts the client of the service together. */

import { readChanges } from './changes.ts';
import { connect } from './connect.ts';
import { createDiscovery } from './discovery.ts';
import { createDigests } from './download/digest.ts';
import { createDownloads, FILES_AT_ONCE } from './download/download.ts';
import { readEventPage } from './events.ts';
import type { Feed } from './feed.ts';
import { noOutage } from './http/outage.ts';
import { createSubscriptions, readSchemas } from './lists.ts';
import { createManifests } from './manifests.ts';
import type { FeedOptions } from './options.ts';
import { readVersions } from './versions.ts';

export function createFeed(options: FeedOptions): Feed {
  const { origin, api, download, progress, close } = wire(options);
  const discovery = createDiscovery({
    api,
    log: options.log,
    configured: options.contract,
    remembered: options.remembered,
    onContractLearned: options.onContractLearned,
  });
  const manifests = createManifests(api, discovery);
  return {
    origin,
    discover: (signal) => discovery.discover(signal),
    subscriptions: createSubscriptions(api, options.baseUrl, options.isKnownOrigin ?? (async () => false)),
    events: (subscriptionId, after, signal) => readEventPage(api, subscriptionId, after, signal),
    versions: (datasetId, newerThan, signal) => readVersions(api, discovery, datasetId, newerThan, signal),
    schemas: (datasetId, signal) => readSchemas(api, datasetId, signal),
    changes: (request, signal) =>
      readChanges({ api, reserveBytes: options.diskReserveBytes }, request, signal),
    manifestShape: () => manifests.shape(),
    manifest: (subscriptionId, signal) => manifests.ofSubscription(subscriptionId, signal),
    manifestEntry: (datasetId, signal) => manifests.ofDataset(datasetId, signal),
    download,
    progress,
    close,
  };
}

/** Files may come from the origin of the service: they must not take every connection to it for hours. */
function filesAtOnce(connections: number): number {
  return Math.max(1, Math.min(FILES_AT_ONCE, connections - 1));
}

function wire(options: FeedOptions) {
  const { origin, api, http, guard, rules, policy, tools, limits, dispatchers } = connect(
    options,
    options.downloads.allowedOrigins,
  );
  const digests = createDigests(limits);
  const download = createDownloads({
    source: { http, rules, guard },
    digests,
    reserveBytes: options.diskReserveBytes,
    deadlineMs: limits.fileDeadlineMs,
    leastThroughput: { bytesPerSecond: limits.slowestBytesPerSecond, overMs: limits.slowestOverMs },
    now: () => options.clock.now(),
    retryPolicy: { ...policy, outage: noOutage() },
    tools,
    limits,
    concurrency: options.downloads.concurrency ?? filesAtOnce(options.http.connections),
  });
  const close = async (): Promise<void> => {
    await Promise.all([dispatchers.close(), digests.close()]);
  };
  return { origin, api, download, progress: () => digests.readBytes, close };
}
