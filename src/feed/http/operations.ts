/** The operations of the service: their names, the scopes of their refusals, and their paths. */

import type { RefusalScope } from '../../model/errors.ts';
import { shown } from '../wire/sanitize.ts';

export interface Operation {
  /** For the log, the same for every subject. */
  readonly name: string;
  /** Includes the subject, as the end of "Could not …". */
  readonly title: string;
  /** The scope of a refusal that does not concern the key. Null for an operator's command, whose refusal suspends nothing. */
  readonly scope: RefusalScope | null;
  /** True when the operation needs the key's scope `feeds`, without which the key is useless here. */
  readonly needsFeedsScope: boolean;
  /** Requests that find out whether there is work. They do not queue behind the requests of that work. */
  readonly line?: 'leading';
  /** The part of an operator's command line in the request, which a refusal may concern: an id in the path, or a body. */
  readonly input?: 'id' | 'body';
  /** GET by default. */
  readonly method?: 'POST' | 'DELETE';
  /** The encoded path below the base URL. */
  readonly path: string;
}

const WORKSPACE: RefusalScope = { kind: 'workspace' };

export const DESCRIBE_SERVICE: Operation = {
  name: 'read the service description',
  title: 'read the service description',
  scope: WORKSPACE,
  needsFeedsScope: false,
  line: 'leading',
  path: '/v1/openapi.json',
};

export const LIST_SUBSCRIPTIONS: Operation = {
  name: 'list subscriptions',
  title: 'list subscriptions',
  scope: WORKSPACE,
  needsFeedsScope: true,
  line: 'leading',
  path: '/v1/subscriptions',
};

export function readEvents(subscriptionId: string): Operation {
  return {
    name: 'read events',
    title: `read events of subscription ${shown(subscriptionId)}`,
    scope: { kind: 'subscription', subscriptionId },
    needsFeedsScope: true,
    line: 'leading',
    path: `/v1/subscriptions/${segment(subscriptionId)}/events`,
  };
}

export function listVersions(datasetId: string): Operation {
  return { ...ofDataset('list versions', 'versions', datasetId), needsFeedsScope: true };
}

export function listSchemas(datasetId: string): Operation {
  return { ...ofDataset('list schemas', 'schemas', datasetId), needsFeedsScope: true };
}

export function listChanges(datasetId: string): Operation {
  return ofDataset('list changes', 'changes', datasetId);
}

/** `template` contains `{subscriptionId}`. */
export function readManifest(template: string, subscriptionId: string): Operation {
  return {
    name: 'read the manifest',
    title: `read the manifest of subscription ${shown(subscriptionId)}`,
    scope: { kind: 'subscription', subscriptionId },
    needsFeedsScope: false,
    line: 'leading',
    path: template.replace('{subscriptionId}', () => segment(subscriptionId)),
  };
}

/** `template` contains `{datasetId}`. */
export function readManifestEntry(template: string, datasetId: string): Operation {
  return {
    name: 'read the manifest',
    title: `read the manifest of dataset ${shown(datasetId)}`,
    scope: { kind: 'dataset', datasetId },
    needsFeedsScope: false,
    path: template.replace('{datasetId}', () => segment(datasetId)),
  };
}

export const LIST_COVERAGE = ofOperator('list what the workspace covers', '/v1/coverage');

export const LIST_WATCHES = ofOperator('list the watches', '/v1/dataset-watches');

export function watchDataset(datasetId: string): Operation {
  return { ...ofWatch('watch', datasetId), method: 'POST' };
}

export function unwatchDataset(datasetId: string): Operation {
  return { ...ofWatch('unwatch', datasetId), method: 'DELETE' };
}

export const ADD_WEBHOOK: Operation = {
  ...ofOperator('add a webhook', '/v1/webhooks'),
  input: 'body',
  method: 'POST',
};

export function testWebhook(webhookId: string): Operation {
  return {
    ...ofOperator('test a webhook', `/v1/webhooks/${segment(webhookId)}/test`),
    title: `test webhook ${shown(webhookId)}`,
    input: 'id',
    method: 'POST',
  };
}

function ofWatch(name: string, datasetId: string): Operation {
  return {
    ...ofOperator(name, `/v1/datasets/${segment(datasetId)}/watch`),
    title: `${name} dataset ${shown(datasetId)}`,
    input: 'id',
  };
}

function ofOperator(name: string, path: string): Operation {
  return { name, title: name, scope: null, needsFeedsScope: false, path };
}

function ofDataset(name: string, list: string, datasetId: string): Operation {
  return {
    name,
    title: `${name} of dataset ${shown(datasetId)}`,
    scope: { kind: 'dataset', datasetId },
    needsFeedsScope: false,
    path: `/v1/datasets/${segment(datasetId)}/${list}`,
  };
}

/** Encodes an id as one segment of a path. A segment of dots alone would change the path. */
function segment(id: string): string {
  return id === '.' || id === '..' ? id.replaceAll('.', '%2E') : encodeURIComponent(id);
}
