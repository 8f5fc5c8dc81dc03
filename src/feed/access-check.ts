/**
 * Tries the cheapest call of each operation with an API key, for `doctor`; lists are limited to one item. The client stores
 * nothing and draws no conclusion from a refusal: the error is thrown to the caller.
 *
 * Every operation may throw `ServiceUnavailableError`, `RefusalError`, `ContractViolationError` and `InterruptedError`.
 */

import type { Contract, ContractName } from '../model/contract.ts';
import { RefusalError } from '../model/errors.ts';
import type { Subscription } from '../model/records.ts';
import { lacksScope, NOT_RECORDED, whyNotRecorded } from './changes.ts';
import { connect } from './create-feed.ts';
import { createDiscovery, isGuess } from './discovery.ts';
import type { FeedOptions } from './http/options.ts';
import { createSubscriptions } from './lists.ts';
import {
  listChanges,
  listSchemas,
  listVersions,
  type Reading,
  readEvents,
  readManifest,
  readManifestEntry,
} from './operations.ts';

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
  /**
   * Returns null when the changes of the version are recorded, else the reason why not. @throws RefusalError also when the key
   * lacks a scope.
   */
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
  const { origin, api, close } = connect(options, options.downloads.allowedOrigins);
  const discovery = createDiscovery(api, options);
  const readSubscriptions = createSubscriptions(api, options);
  const finalAt = (path: ContractName) => (isGuess(path) ? [NOT_FOUND] : []);
  const askOne = async <T>(operation: Reading<T>, signal: AbortSignal): Promise<T> => {
    const { value } = await api.call({ ...operation, query: { limit: ONE, ...operation.query } }, signal);
    return value;
  };
  return {
    origin,
    subscriptions: async (signal) => (await readSubscriptions(signal)).subscriptions,
    async events(subscriptionId, signal) {
      const { events } = await askOne(readEvents(subscriptionId), signal);
      return events.flatMap(({ datasetId }) => datasetId ?? []);
    },
    async newestVersion(datasetId, signal) {
      const { items } = await askOne(listVersions(datasetId), signal);
      return items[0]?.version ?? null;
    },
    async schemas(datasetId, signal) {
      await askOne(listSchemas(datasetId), signal);
    },
    async changes(datasetId, version, signal) {
      try {
        const { recorded } = await askOne(listChanges(datasetId, version), signal);
        return recorded ? null : NOT_RECORDED;
      } catch (error) {
        // A catch-up treats a lack of scope as changes that were not recorded.
        const why = error instanceof RefusalError && !lacksScope(error) ? whyNotRecorded(error) : null;
        if (why === null) throw error;
        return why;
      }
    },
    contract: (signal) => discovery.discover(signal),
    async manifest(path, subscriptionId, signal) {
      const operation = { ...readManifest(path.value, subscriptionId), finalStatuses: finalAt(path) };
      const { datasets } = await askOne(operation, signal);
      return datasets.map(({ datasetId }) => datasetId);
    },
    async manifestEntry(path, datasetId, signal) {
      // A single entry has no limit parameter.
      await api.call({ ...readManifestEntry(path.value, datasetId), finalStatuses: finalAt(path) }, signal);
      return [datasetId];
    },
    close,
  };
}
