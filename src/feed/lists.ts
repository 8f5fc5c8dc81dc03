/**
 * The lists of subscriptions and schemas, read whole. The list of subscriptions is what every command asks for first: where
 * it is not there, and was never known to be, the base URL is wrong.
 */

import { ConfigurationError, RefusalError } from '../model/errors.ts';

import type { Schema } from '../model/schema.ts';
import type { SubscriptionList } from './feed.ts';
import type { Api } from './http/api.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { LIST_SUBSCRIPTIONS, listSchemas, type Operation } from './operations.ts';
import { LIST_LIMIT, readAtOf, readPages } from './paging.ts';
import { shown } from './shown.ts';
import { decodeSchemas, decodeSubscriptions, type ListPage } from './wire/records.ts';

const NOT_FOUND = 404;

export type ReadSubscriptions = (signal: AbortSignal) => Promise<SubscriptionList>;

/**
 * GET /v1/subscriptions. `isKnownOrigin` is asked only where the service answers 404 before the list could be read.
 * @throws ConfigurationError where the list is not there, and the origin is not known.
 */
export function createSubscriptions(
  api: Api,
  baseUrl: string,
  isKnownOrigin: () => Promise<boolean>,
): ReadSubscriptions {
  let hasAnswered = false;
  const read = async (finalStatuses: readonly number[], signal: AbortSignal): Promise<SubscriptionList> => {
    const decode = decodeSubscriptions;
    const { items, readAt } = await readList(api, LIST_SUBSCRIPTIONS, decode, signal, finalStatuses);
    hasAnswered = true;
    return { subscriptions: items, readAt };
  };
  return async (signal) => {
    if (hasAnswered) return read([], signal);
    try {
      return await read([NOT_FOUND], signal);
    } catch (error) {
      if (!(error instanceof RefusalError) || error.refusal.status !== NOT_FOUND) throw error;
      if (!(await isKnownOrigin())) throw wrongAddress(baseUrl, error);
    }
    // A service that was there before may be away, or refuse what the key asks for.
    return read([], signal);
  };
}

function wrongAddress(baseUrl: string, cause: RefusalError): ConfigurationError {
  const { status, message } = cause.refusal;
  return new ConfigurationError(
    `There is no list of subscriptions at ${shown(baseUrl)}: check service.baseUrl. The answer was ${status}: ${message}`,
    { hint: 'Nothing was suspended for it: correct the address, and run it again.', cause },
  );
}

/** GET /v1/datasets/{datasetId}/schemas. */
export async function readSchemas(
  api: Api,
  datasetId: string,
  signal: AbortSignal,
): Promise<readonly Schema[]> {
  const decode = (json: unknown, title: string) => decodeSchemas(json, datasetId, title);
  return (await readList(api, listSchemas(datasetId), decode, signal)).items;
}

export interface List<Item> {
  readonly items: readonly Item[];
  /** Service time of the first page. */
  readonly readAt: Date;
}

/** A list that pages by cursor, all of it. `finalStatuses` are refusals of the first page, whatever their body. */
export async function readList<Item>(
  api: Api,
  operation: Operation,
  decode: (json: unknown, title: string) => ListPage<Item>,
  signal: AbortSignal,
  finalStatuses: readonly number[] = [],
): Promise<List<Item>> {
  const { title } = operation;
  const pages = await readPages({
    title,
    read: (cursor) =>
      api.call(
        {
          operation,
          query: { limit: LIST_LIMIT, cursor },
          maxDepth: MAX_JSON_DEPTH,
          finalStatuses: cursor === null ? finalStatuses : [],
          decode: ({ json, readAt }) => ({ ...decode(json, title), readAt }),
        },
        signal,
      ),
  });
  return { items: pages.flatMap(({ items }) => items), readAt: readAtOf(pages) };
}
