/**
 * What an API key may do, tried with the cheapest call of each operation: for `doctor`. A list is asked for one item.
 * Nothing is stored and nothing is concluded for others: a refusal is thrown, and told by whoever asked.
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

/** Items asked for. */
const ONE = 1;
/** What a guessed path of the manifest is answered where it is wrong. */
const NOT_FOUND = 404;

export interface AccessCheck {
  /** The scheme, host and port of the base URL. */
  readonly origin: string;
  /** All of them, because a person wants to see them all. */
  subscriptions(signal: AbortSignal): Promise<readonly Subscription[]>;
  /** The datasets that the oldest events name. */
  events(subscriptionId: string, signal: AbortSignal): Promise<readonly string[]>;
  /** The newest version; null where the list is empty. */
  newestVersion(datasetId: string, signal: AbortSignal): Promise<number | null>;
  schemas(datasetId: string, signal: AbortSignal): Promise<void>;
  /** Null where the changes of the version are recorded, else why not. */
  changes(datasetId: string, version: number, signal: AbortSignal): Promise<string | null>;
  /** The names that the interface leaves open, from the service's description of itself where it has one. */
  contract(signal: AbortSignal): Promise<Contract>;
  /** The manifest at `path`, which holds `{subscriptionId}`: the datasets that its first page lists. */
  manifest(path: ContractName, subscriptionId: string, signal: AbortSignal): Promise<readonly string[]>;
  /** The manifest at `path`, which holds `{datasetId}`: the dataset. */
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
      // Not a list, so there is nothing to limit.
      const call = { operation, decode, finalStatuses: finalAt(path), query: { limit: null } };
      await askOne(api, call, signal);
      return [datasetId];
    },
    close: () => dispatchers.close(),
  };
}

/** @throws RefusalError also where the key lacks a scope, which a catch-up takes for changes that were not recorded. */
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
