/** Builds the client of the service from its parts. */

import { readChanges } from './changes.ts';
import { createDiscovery } from './discovery.ts';
import { createDownloads } from './download/download.ts';
import type { Feed } from './feed.ts';
import { createAddressGuard, resolveBySystem } from './http/addresses.ts';
import { createApi } from './http/api.ts';
import { createDispatchers } from './http/connections.ts';
import { createHttp } from './http/http.ts';
import type { ConnectionOptions, FeedOptions } from './http/options.ts';
import { createSubscriptions, readList, readVersions } from './lists.ts';
import { createManifests } from './manifests.ts';
import {
  addWebhook,
  LIST_COVERAGE,
  LIST_WATCHES,
  listSchemas,
  readEvents,
  testWebhook,
  unwatchDataset,
  watchDataset,
} from './operations.ts';
import type { Operator } from './operator.ts';

/** The largest page of events that the interface allows. */
const EVENTS_LIMIT = 500;

export function createFeed(options: FeedOptions): Feed {
  const { origin, api, files, close } = connect(options, options.downloads.allowedOrigins);
  const discovery = createDiscovery(api, options);
  return {
    origin,
    discover: (signal) => discovery.discover(signal),
    subscriptions: createSubscriptions(api, options),
    async events(subscriptionId, after, signal) {
      const query = { after: after?.text ?? null, limit: EVENTS_LIMIT };
      const { value: page, readAt } = await api.call({ ...readEvents(subscriptionId), query }, signal);
      return { ...page, readAt };
    },
    versions: (datasetId, newerThan, signal) => readVersions(api, discovery, datasetId, newerThan, signal),
    schemas: async (datasetId, signal) => (await readList(api, listSchemas(datasetId), signal)).items,
    changes: (request, signal) => readChanges(api, request, options.diskReserveBytes, signal),
    ...createManifests(api, discovery),
    ...createDownloads(files, options),
    close,
  };
}

export function createOperator(options: ConnectionOptions): Operator {
  const { api, close } = connect(options, []);
  return {
    coverage: async (signal) => (await readList(api, LIST_COVERAGE, signal)).items,
    watches: async (signal) => (await readList(api, LIST_WATCHES, signal)).items,
    watch: (datasetId, signal) => api.command(watchDataset(datasetId), signal),
    unwatch: (datasetId, signal) => api.command(unwatchDataset(datasetId), signal),
    addWebhook: async (webhook, signal) => (await api.call(addWebhook(webhook), signal)).value,
    testWebhook: (webhookId, signal) => api.command(testWebhook(webhookId), signal),
    close,
  };
}

/** Connects to the service. `allowedOrigins` are trusted in addition to the base URL's origin. */
export function connect(options: ConnectionOptions, allowedOrigins: readonly string[]) {
  const baseUrl = new URL(options.baseUrl);
  const { origin } = baseUrl;
  const trustedOrigins = new Set([origin, ...allowedOrigins]);
  const guard = createAddressGuard(baseUrl.hostname, options.resolveName ?? resolveBySystem);
  const dispatchers = createDispatchers(options.http, options.proxy, guard.lookup);
  const http = createHttp(options, trustedOrigins, dispatchers);
  const files = { http, rules: { baseUrl, trustedOrigins }, guard };
  return { origin, api: createApi(http, options), files, close: () => dispatchers.close() };
}
