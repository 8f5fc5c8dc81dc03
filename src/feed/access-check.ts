/**
 * Tries the cheapest call of each operation with an API key, for `doctor`; lists are limited to one item. The client stores
 * nothing and draws no conclusion from a refusal: the error is thrown to the caller.
 *
 * Every operation may throw `ServiceUnavailableError`, `RefusalError`, `ContractViolationError` and `InterruptedError`.
 */

import type { Contract, ContractName } from '../model/contract.ts';
import { RefusalError } from '../model/errors.ts';
import type { Subscription } from '../model/records.ts';
import { lacksScope, NOT_THERE, whyNotRecorded } from './changes.ts';
import { connect } from './create-feed.ts';
import { createDiscovery, isGuess } from './discovery.ts';
import type { Api, Query } from './http/api.ts';
import {
  listChanges,
  listSchemas,
  listVersions,
  type Operation,
  readEvents,
  readManifest,
  readManifestEntry,
} from './http/operations.ts';
import { type FeedOptions, MAX_CHANGES_DEPTH, MAX_JSON_DEPTH } from './http/options.ts';
import { refusalOfLog } from './http/refusal.ts';
import { createSubscriptions } from './lists.ts';
import {
  decodeChangesPage,
  decodeEventPage,
  decodeManifestEntry,
  decodeManifestPage,
  decodeSchemas,
  decodeVersions,
} from './wire/records.ts';

/** The number of items to ask for. */
const ONE = 1;
/** The answer to a manifest path that was guessed wrong. */
const NOT_FOUND = 404;

export interface AccessCheck {
  /** The scheme, host and port of the base URL. */
  readonly origin: string;
  /** Returns all subscriptions, because `doctor` shows all of them. */
  subscriptions(signal: AbortSignal): Promise<readonly Subscription[]>;
  /** Returns the datasets of the oldest events. */
  events(subscriptionId: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Returns the newest version; null for an empty list. */
  newestVersion(datasetId: string, signal: AbortSignal): Promise<number | null>;
  schemas(datasetId: string, signal: AbortSignal): Promise<void>;
  /** Returns null when the changes of the version are recorded, else the reason why not. */
  changes(datasetId: string, version: number, signal: AbortSignal): Promise<string | null>;
  /** Returns the names that the interface leaves open, from the service's own description if there is one. */
  contract(signal: AbortSignal): Promise<Contract>;
  /** Reads the manifest at `path`, which contains `{subscriptionId}`, and returns the datasets on its first page. */
  manifest(path: ContractName, subscriptionId: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Reads the manifest at `path`, which contains `{datasetId}`, and returns its dataset. */
  manifestEntry(path: ContractName, datasetId: string, signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}

export function createAccessCheck(options: FeedOptions): AccessCheck {
  const { origin, api, dispatchers } = connect(options, options.downloads.allowedOrigins);
  const { log, remembered, onContractDiscovered } = options;
  const discovery = createDiscovery({
    api,
    log,
    configured: options.contract,
    remembered,
    onContractDiscovered,
  });
  const readSubscriptions = createSubscriptions(
    api,
    options.baseUrl,
    options.isKnownOrigin ?? (async () => false),
  );
  const finalAt = (path: ContractName) => (isGuess(path) ? [NOT_FOUND] : []);
  return {
    origin,
    subscriptions: async (signal) => (await readSubscriptions(signal)).subscriptions,
    async events(subscriptionId, signal) {
      const operation = readEvents(subscriptionId);
      const decode = (json: unknown) => decodeEventPage(json, operation.title);
      const { events } = await askOne(api, { operation, decode, refuse: refusalOfLog }, signal);
      return events.flatMap(({ datasetId }) => datasetId ?? []);
    },
    async newestVersion(datasetId, signal) {
      const operation = listVersions(datasetId);
      const decode = (json: unknown) => decodeVersions(json, datasetId, operation.title);
      const { items } = await askOne(api, { operation, decode }, signal);
      return items[0]?.version ?? null;
    },
    async schemas(datasetId, signal) {
      const operation = listSchemas(datasetId);
      const decode = (json: unknown) => decodeSchemas(json, datasetId, operation.title);
      await askOne(api, { operation, decode }, signal);
    },
    changes: (datasetId, version, signal) => readChangesOnce(api, datasetId, version, signal),
    contract: (signal) => discovery.discover(signal),
    async manifest(path, subscriptionId, signal) {
      const operation = readManifest(path.value, subscriptionId);
      const decode = (json: unknown) => decodeManifestPage(json, subscriptionId, operation.title);
      const { datasets } = await askOne(api, { operation, decode, finalStatuses: finalAt(path) }, signal);
      return datasets.map(({ datasetId }) => datasetId);
    },
    async manifestEntry(path, datasetId, signal) {
      const operation = readManifestEntry(path.value, datasetId);
      const decode = (json: unknown) => decodeManifestEntry(json, datasetId, operation.title);
      // A single entry has no limit parameter.
      const call = { operation, decode, finalStatuses: finalAt(path), query: { limit: null } };
      await askOne(api, call, signal);
      return [datasetId];
    },
    close: () => dispatchers.close(),
  };
}

/** @throws RefusalError also when the key lacks a scope. A catch-up treats this case as changes that were not recorded. */
async function readChangesOnce(
  api: Api,
  datasetId: string,
  version: number,
  signal: AbortSignal,
): Promise<string | null> {
  const operation = listChanges(datasetId);
  const decode = (json: unknown) => decodeChangesPage(json, { datasetId, version }, operation.title);
  const call = { operation, decode, query: { version }, maxDepth: MAX_CHANGES_DEPTH };
  try {
    const { recorded } = await askOne(api, { ...call, finalStatuses: NOT_THERE }, signal);
    return recorded ? null : 'the service says that it has not recorded them';
  } catch (error) {
    const why = error instanceof RefusalError && !lacksScope(error) ? whyNotRecorded(error) : null;
    if (why === null) throw error;
    return why;
  }
}

interface OneItem<T> {
  readonly operation: Operation;
  readonly decode: (json: unknown) => T;
  readonly query?: Query;
  readonly maxDepth?: number;
  readonly finalStatuses?: readonly number[];
  readonly refuse?: typeof refusalOfLog;
}

function askOne<T>(api: Api, { decode, query = {}, ...call }: OneItem<T>, signal: AbortSignal): Promise<T> {
  return api.call(
    {
      maxDepth: MAX_JSON_DEPTH,
      ...call,
      query: { limit: ONE, ...query },
      decode: ({ json }) => decode(json),
    },
    signal,
  );
}
