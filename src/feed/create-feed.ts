/** Puts the client of the service together. */

import { readChanges } from './changes.ts';
import { createDiscovery } from './discovery.ts';
import { createAddressGuard, resolveBySystem } from './download/address-guard.ts';
import { createDownloads, FILES_AT_ONCE } from './download/download.ts';
import { readEventPage } from './events.ts';
import type { Feed } from './feed.ts';
import { createApi } from './http/api.ts';
import { createDispatchers, type Dispatchers } from './http/dispatchers.ts';
import { createHttp } from './http/http.ts';
import { noOutage } from './http/outage.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { readSchemas, readSubscriptions } from './lists.ts';
import { createManifests } from './manifests.ts';
import type { FeedOptions } from './options.ts';
import { readVersions } from './versions.ts';

export function createFeed(options: FeedOptions): Feed {
  const { origin, api, download, dispatchers } = wire(options);
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
    subscriptions: (signal) => readSubscriptions(api, signal),
    events: (subscriptionId, after, signal) => readEventPage(api, subscriptionId, after, signal),
    versions: (datasetId, newerThan, signal) => readVersions(api, discovery, datasetId, newerThan, signal),
    schemas: (datasetId, signal) => readSchemas(api, datasetId, signal),
    changes: (request, signal) =>
      readChanges({ api, reserveBytes: options.diskReserveBytes }, request, signal),
    manifestShape: () => manifests.shape(),
    manifest: (subscriptionId, signal) => manifests.ofSubscription(subscriptionId, signal),
    manifestEntry: (datasetId, signal) => manifests.ofDataset(datasetId, signal),
    download,
    close: () => dispatchers.close(),
  };
}

/** Files may come from the origin of the service: they must not take every connection to it for hours. */
function filesAtOnce(connections: number): number {
  return Math.max(1, Math.min(FILES_AT_ONCE, connections - 1));
}

function wire(options: FeedOptions) {
  const { apiKey, clock, random, log } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const baseUrl = new URL(options.baseUrl);
  const { origin } = baseUrl;
  const trustedOrigins = new Set([origin, ...options.downloads.allowedOrigins]);
  const guard = createAddressGuard(baseUrl.hostname, options.resolveName ?? resolveBySystem);
  const dispatchers: Dispatchers = createDispatchers(options.http, options.proxy, guard.lookup);
  const { timeoutMs, maxJsonBytes, maxRetryAfterMs } = options.http;
  const http = createHttp({ origin, apiKey, trustedOrigins, dispatchers, timeoutMs, clock, log });
  const tools = { clock, random, log };
  const policy = { ...options.retry, maxRetryAfterMs, deadlineMs: limits.operationDeadlineMs };
  const api = createApi({
    http,
    origin,
    basePath: baseUrl.pathname.replace(/\/+$/, ''),
    apiKey,
    maxJsonBytes,
    deadlineMs: limits.jsonDeadlineMs,
    retryPolicy: { ...policy, outage: noOutage() },
    tools,
  });
  const download = createDownloads({
    source: { http, rules: { baseUrl, trustedOrigins }, guard },
    reserveBytes: options.diskReserveBytes,
    deadlineMs: limits.fileDeadlineMs,
    leastThroughput: { bytesPerSecond: limits.slowestBytesPerSecond, overMs: limits.slowestOverMs },
    now: () => clock.now(),
    retryPolicy: { ...policy, outage: noOutage() },
    tools,
    limits,
    concurrency: options.downloads.concurrency ?? filesAtOnce(options.http.connections),
  });
  return { origin, api, download, dispatchers };
}
