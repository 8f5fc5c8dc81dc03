/** The lists of subscriptions and schemas, read whole. */

import type { Schema } from '../model/schema.ts';
import type { Subscription } from '../model/subscription.ts';
import type { Api } from './http/api.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { LIST_SUBSCRIPTIONS, listSchemas, type Operation } from './operations.ts';
import { LIST_LIMIT, readPages } from './paging.ts';
import { decodeSchemas, decodeSubscriptions, type ListPage } from './wire/records.ts';

/** GET /v1/subscriptions. */
export function readSubscriptions(api: Api, signal: AbortSignal): Promise<readonly Subscription[]> {
  return readList(api, LIST_SUBSCRIPTIONS, decodeSubscriptions, signal);
}

/** GET /v1/datasets/{datasetId}/schemas. */
export function readSchemas(api: Api, datasetId: string, signal: AbortSignal): Promise<readonly Schema[]> {
  const decode = (json: unknown, title: string) => decodeSchemas(json, datasetId, title);
  return readList(api, listSchemas(datasetId), decode, signal);
}

/** A list that pages by cursor, all of it. */
export async function readList<Item>(
  api: Api,
  operation: Operation,
  decode: (json: unknown, title: string) => ListPage<Item>,
  signal: AbortSignal,
): Promise<readonly Item[]> {
  const { title } = operation;
  const pages = await readPages({
    title,
    read: (cursor) =>
      api.call(
        {
          operation,
          query: { limit: LIST_LIMIT, cursor },
          maxDepth: MAX_JSON_DEPTH,
          decode: ({ json }) => decode(json, title),
        },
        signal,
      ),
  });
  return pages.flatMap(({ items }) => items);
}
