/** The operator's calls on the wire. */

import { connect } from './connect.ts';
import type { Api } from './http/api.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { readList } from './lists.ts';
import {
  ADD_WEBHOOK,
  LIST_COVERAGE,
  LIST_WATCHES,
  testWebhook,
  unwatchDataset,
  watchDataset,
} from './operations.ts';
import type { AddedWebhook, NewWebhook, Operator } from './operator.ts';
import type { ConnectionOptions } from './options.ts';
import { decodeAddedWebhook, decodeCounties, decodeWatches } from './wire/operator.ts';

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
    // A ping more does no harm, so it is tried again like a read.
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
