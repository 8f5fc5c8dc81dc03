/** Builds the client of the service from its parts. */

import type { EventId } from '../model/event.ts';
import { readChanges } from './changes.ts';
import { createDiscovery } from './discovery.ts';
import { createDigests } from './download/digest.ts';
import { createDownloads, FILES_AT_ONCE } from './download/download.ts';
import type { EventPage, Feed } from './feed.ts';
import { createAddressGuard, resolveBySystem } from './http/addresses.ts';
import { type Api, createApi } from './http/api.ts';
import { createDispatchers } from './http/dispatchers.ts';
import { createHttp } from './http/http.ts';
import {
  ADD_WEBHOOK,
  LIST_COVERAGE,
  LIST_WATCHES,
  readEvents,
  testWebhook,
  unwatchDataset,
  watchDataset,
} from './http/operations.ts';
import { type ConnectionOptions, DEFAULT_LIMITS, type FeedOptions, MAX_JSON_DEPTH } from './http/options.ts';
import { refusalOfLog } from './http/refusal.ts';
import { noOutage } from './http/retry.ts';
import { createSubscriptions, readList, readSchemas, readVersions } from './lists.ts';
import { createManifests } from './manifests.ts';
import type { AddedWebhook, NewWebhook, Operator } from './operator.ts';
import { violation } from './wire/fields.ts';
import { decodeAddedWebhook, decodeCounties, decodeEventPage, decodeWatches } from './wire/records.ts';

export function createFeed(options: FeedOptions): Feed {
  const { origin, api, download, progress, close } = wire(options);
  const discovery = createDiscovery({
    api,
    log: options.log,
    configured: options.contract,
    remembered: options.remembered,
    onContractDiscovered: options.onContractDiscovered,
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

/** Files may come from the service's own origin. They must not occupy all connections to it for hours. */
function filesAtOnce(connections: number): number {
  return Math.max(1, Math.min(FILES_AT_ONCE, connections - 1));
}

function wire(options: FeedOptions) {
  const { origin, api, http, guard, rules, policy, tools, limits, dispatchers } = connect(
    options,
    options.downloads.allowedOrigins,
  );
  const digests = createDigests(limits.digestThreadFromBytes);
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
  return { origin, api, download, progress: () => digests.readBytes, close: () => dispatchers.close() };
}

const NOT_KNOWN_WHETHER_ADDED =
  'It is not known whether the service has added the webhook, and its secret is lost either way: look in the web ' +
  'application of the service, remove it there if it is there, and add it again.';

const NOT_FOUND = 404;

export function createOperator(options: ConnectionOptions): Operator {
  const { api, dispatchers } = connect(options, []);
  return {
    coverage: async (signal) => (await readList(api, LIST_COVERAGE, decodeCounties, signal)).items,
    watches: async (signal) => (await readList(api, LIST_WATCHES, decodeWatches, signal)).items,
    watch: (datasetId, signal) => api.command({ operation: watchDataset(datasetId) }, signal),
    unwatch: (datasetId, signal) =>
      api.command(
        { operation: unwatchDataset(datasetId), isDoneBy: ({ status }) => status === NOT_FOUND },
        signal,
      ),
    addWebhook: (webhook, signal) => addWebhook(api, webhook, signal),
    // An additional ping is harmless, so this command is retried like a read.
    testWebhook: (webhookId, signal) => api.command({ operation: testWebhook(webhookId) }, signal),
    close: () => dispatchers.close(),
  };
}

function addWebhook(api: Api, { url, header }: NewWebhook, signal: AbortSignal): Promise<AddedWebhook> {
  const value = header?.value;
  return api.call(
    {
      operation: ADD_WEBHOOK,
      body: header === null ? { url } : { url, header: { name: header.name, value: header.value.reveal() } },
      secrets: value === undefined ? [] : [value],
      ifInDoubt: NOT_KNOWN_WHETHER_ADDED,
      maxDepth: MAX_JSON_DEPTH,
      decode: ({ json }) => decodeAddedWebhook(json, url, ADD_WEBHOOK.title),
    },
    signal,
  );
}

/** `allowedOrigins` are trusted in addition to the base URL's origin. */
export function connect(options: ConnectionOptions, allowedOrigins: readonly string[]) {
  const { apiKey, clock, random, log } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const baseUrl = new URL(options.baseUrl);
  const { origin } = baseUrl;
  const trustedOrigins = new Set([origin, ...allowedOrigins]);
  const guard = createAddressGuard(baseUrl.hostname, options.resolveName ?? resolveBySystem);
  const dispatchers = createDispatchers(options.http, options.proxy, guard.lookup);
  const { timeoutMs, maxJsonBytes, maxRetryAfterMs } = options.http;
  const http = createHttp({
    origin,
    apiKey,
    trustedOrigins,
    dispatchers,
    connections: options.http.connections,
    timeoutMs,
    clock,
    log,
    onAsked: options.onAsked ?? (() => {}),
  });
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
  return { origin, api, http, guard, rules: { baseUrl, trustedOrigins }, policy, tools, limits, dispatchers };
}

/** The largest page that the interface allows. */
const EVENTS_LIMIT = 500;

/** GET /v1/subscriptions/{subscriptionId}/events. @throws CursorExpiredError when `after` is past retention. */
function readEventPage(
  api: Api,
  subscriptionId: string,
  after: EventId | null,
  signal: AbortSignal,
): Promise<EventPage> {
  const operation = readEvents(subscriptionId);
  return api.call(
    {
      operation,
      query: { after: after?.text ?? null, limit: EVENTS_LIMIT },
      maxDepth: MAX_JSON_DEPTH,
      decode({ json, readAt }) {
        const page = { ...decodeEventPage(json, operation.title), readAt };
        if (!page.hasMore || page.events.length > 0) return page;
        throw violation(operation.title, 'hasMore', 'promises more, but the page is empty');
      },
      refuse: refusalOfLog,
    },
    signal,
  );
}
