/**
 * The operations of the service: of each its name, its path, the meaning of its answer and the scope of its refusal. Every
 * request is described here once.
 */

import { shown } from '../lib/text.ts';
import type { RefusalScope } from '../model/errors.ts';
import type { ManifestEntry } from '../model/manifest.ts';
import type { Schema, Subscription, Version } from '../model/records.ts';
import type { EventPage } from './feed.ts';
import { type RefusedAnswer, refusalOfLog } from './http/refusal.ts';
import type { AddedWebhook, County, NewWebhook, Watch } from './operator.ts';
import { violation } from './wire/fields.ts';
import {
  type ChangesPage,
  decodeAddedWebhook,
  decodeChangesPage,
  decodeCounties,
  decodeEventPage,
  decodeManifestEntry,
  decodeManifestPage,
  decodeSchemas,
  decodeSubscriptions,
  decodeVersions,
  decodeWatches,
  type ListPage,
  type ManifestPage,
} from './wire/records.ts';

export type Query = Readonly<Record<string, string | number | null>>;

export interface Operation {
  /** For the log, the same for every subject. */
  readonly name: string;
  /** Includes the subject, as the end of "Could not …". */
  readonly title: string;
  /** The scope of a refusal that does not concern the key. Null for an operator's command, whose refusal suspends nothing. */
  readonly scope: RefusalScope | null;
  /** True when the operation needs the key's scope `feeds`, without which the key is useless here. */
  readonly needsFeedsScope?: boolean;
  /** Requests that find out whether there is work. They do not queue behind the requests of that work. */
  readonly lane?: 'leading';
  /** The part of an operator's command line in the request, which a refusal may concern: an id in the path, or a body. */
  readonly input?: 'id' | 'body';
  /** GET by default. */
  readonly method?: 'POST' | 'DELETE';
  /** The encoded path below the base URL. */
  readonly path: string;
  /** Null parameters are left out. */
  readonly query?: Query;
  /** Sent as JSON; no body without it. */
  readonly body?: NewWebhook;
  /**
   * The advice to an operator when it is unknown whether the command was done. Set for commands that must not run twice;
   * these are repeated only while the request surely never arrived.
   */
  readonly ifInDoubt?: string;
  /** The hint for a 404 without the Error shape, which may come from another server than the service. */
  readonly ifMissing?: string;
  /** True when a 404 to a repetition shows that an earlier attempt without an answer succeeded. */
  readonly isDoneIfMissing?: boolean;
  /** Statuses that are refusals here even without the Error shape. */
  readonly finalStatuses?: readonly number[];
  readonly maxAttempts?: number;
  /** The nesting limit of the answer. */
  readonly maxDepth?: number;
  /** A list of the answer that `decode` gets without its content: its rows are read elsewhere, from the bytes. */
  readonly unreadList?: string;
  /** Makes the error of a refusal; `refusalError` by default. */
  refuse?(operation: Operation, answer: RefusedAnswer): Error;
}

/** An operation whose answer has a content. */
export interface Reading<T> extends Operation {
  /** The most bytes of an answer that is a page of a list: what the list may still take. */
  readonly mostBytes?: number;
  /** Called for status 200, or 201 after a creation. @throws ContractViolationError */
  decode(json: unknown): T;
}

const WORKSPACE: RefusalScope = { kind: 'workspace' };

/** The description is optional, so it gets fewer attempts than a required answer. */
const DESCRIPTION_ATTEMPTS = 2;

export const DESCRIBE_SERVICE: Operation = {
  ...named('read the service description', '/v1/openapi.json', WORKSPACE),
  lane: 'leading',
  maxAttempts: DESCRIPTION_ATTEMPTS,
};

export const LIST_SUBSCRIPTIONS: Reading<ListPage<Subscription>> = {
  ...named('list subscriptions', '/v1/subscriptions', WORKSPACE),
  needsFeedsScope: true,
  lane: 'leading',
  ifMissing:
    'The path of service.baseUrl (FEED_SYNC_BASE_URL) may be wrong, so that something else answers: check it.',
  decode: (json) => decodeSubscriptions(json, 'list subscriptions'),
};

export function readEvents(subscriptionId: string): Reading<Omit<EventPage, 'readAt'>> {
  const path = `/v1/subscriptions/${segment(subscriptionId)}/events`;
  const operation = ofSubscription('read events', path, subscriptionId);
  return {
    ...operation,
    needsFeedsScope: true,
    decode(json) {
      const page = decodeEventPage(json, operation.title);
      if (!page.hasMore || page.events.length > 0) return page;
      throw violation(operation.title, 'hasMore', 'promises more, but the page is empty');
    },
    refuse: refusalOfLog,
  };
}

export function listVersions(datasetId: string): Reading<ListPage<Version>> {
  const operation = listOf('versions', datasetId);
  const decode = (json: unknown) => decodeVersions(json, datasetId, operation.title);
  return { ...operation, needsFeedsScope: true, decode };
}

export function listSchemas(datasetId: string): Reading<ListPage<Schema>> {
  const operation = listOf('schemas', datasetId);
  const decode = (json: unknown) => decodeSchemas(json, datasetId, operation.title);
  return { ...operation, needsFeedsScope: true, decode };
}

/** The nesting limit of a page of changes, whose rows contain values of type json. */
const MAX_CHANGES_DEPTH = 1_000;
/** The version exists, so these statuses mean that its changes are missing, whatever the body contains. */
export const NOT_THERE: readonly number[] = [404, 410];

/** Returns the reading of changes, for a version in the list of versions. */
export function listChanges(datasetId: string, version: number): Reading<ChangesPage> {
  const operation = listOf('changes', datasetId);
  return {
    ...operation,
    query: { version },
    maxDepth: MAX_CHANGES_DEPTH,
    unreadList: 'changes',
    finalStatuses: NOT_THERE,
    decode: (json) => decodeChangesPage(json, { datasetId, version }, operation.title),
  };
}

/** Returns the reading of a manifest. `template` contains `{subscriptionId}`. */
export function readManifest(template: string, subscriptionId: string): Reading<ManifestPage> {
  const path = template.replace('{subscriptionId}', () => segment(subscriptionId));
  const operation = ofSubscription('read the manifest', path, subscriptionId);
  return { ...operation, decode: (json) => decodeManifestPage(json, subscriptionId, operation.title) };
}

/** Returns the reading of a manifest entry. `template` contains `{datasetId}`. */
export function readManifestEntry(template: string, datasetId: string): Reading<ManifestEntry> {
  const path = template.replace('{datasetId}', () => segment(datasetId));
  const operation = ofDataset('read the manifest', path, datasetId);
  return { ...operation, decode: (json) => decodeManifestEntry(json, datasetId, operation.title) };
}

export const LIST_COVERAGE: Reading<ListPage<County>> = {
  ...named('list what the workspace covers', '/v1/coverage', null),
  decode: (json) => decodeCounties(json, 'list what the workspace covers'),
};

export const LIST_WATCHES: Reading<ListPage<Watch>> = {
  ...named('list the watches', '/v1/dataset-watches', null),
  decode: (json) => decodeWatches(json, 'list the watches'),
};

export function watchDataset(datasetId: string): Operation {
  return { ...ofWatch('watch', datasetId), method: 'POST' };
}

export function unwatchDataset(datasetId: string): Operation {
  return { ...ofWatch('unwatch', datasetId), method: 'DELETE', isDoneIfMissing: true };
}

export function addWebhook(webhook: NewWebhook): Reading<AddedWebhook> {
  const operation = named('add a webhook', '/v1/webhooks', null);
  return {
    ...operation,
    input: 'body',
    method: 'POST',
    body: webhook,
    ifInDoubt:
      'It is not known whether the service has added the webhook, and its secret is lost either way: look in the web ' +
      'application of the service, remove it there if it is there, and add it again.',
    decode: (json) => decodeAddedWebhook(json, webhook.url, operation.title),
  };
}

/** Returns the command that sends a ping. An additional ping is harmless, so this command is retried like a read. */
export function testWebhook(webhookId: string): Operation {
  return {
    ...named('test a webhook', `/v1/webhooks/${segment(webhookId)}/test`, null),
    title: `test webhook ${shown(webhookId)}`,
    input: 'id',
    method: 'POST',
  };
}

function ofWatch(name: string, datasetId: string): Operation {
  return {
    ...named(name, `/v1/datasets/${segment(datasetId)}/watch`, null),
    title: `${name} dataset ${shown(datasetId)}`,
    input: 'id',
  };
}

function named(name: string, path: string, scope: RefusalScope | null): Operation {
  return { name, title: name, scope, path };
}

function ofSubscription(name: string, path: string, subscriptionId: string): Operation {
  const title = `${name} of subscription ${shown(subscriptionId)}`;
  return { name, title, scope: { kind: 'subscription', subscriptionId }, lane: 'leading', path };
}

function ofDataset(name: string, path: string, datasetId: string): Operation {
  const title = `${name} of dataset ${shown(datasetId)}`;
  return { name, title, scope: { kind: 'dataset', datasetId }, path };
}

function listOf(list: 'versions' | 'schemas' | 'changes', datasetId: string): Operation {
  return ofDataset(`list ${list}`, `/v1/datasets/${segment(datasetId)}/${list}`, datasetId);
}

/** Encodes an id as one segment of a path. A segment of dots alone would change the path. */
function segment(id: string): string {
  return id === '.' || id === '..' ? id.replaceAll('.', '%2E') : encodeURIComponent(id);
}
