/**
 * The port of what a person asks of the service, beside following it: what is covered, which datasets are watched, and
 * where events are pushed to.
 *
 * Every operation may throw `CommandRefusedError`, which holds nothing, `ServiceUnavailableError` (retries are already
 * spent), `ContractViolationError` where something is answered, and `InterruptedError`.
 */

import type { Secret } from '../lib/secret.ts';

export interface Operator {
  /** GET /v1/coverage, all pages: the counties that the workspace covers. */
  coverage(signal: AbortSignal): Promise<readonly County[]>;

  /** GET /v1/dataset-watches, all pages. */
  watches(signal: AbortSignal): Promise<readonly Watch[]>;

  /** POST /v1/datasets/{datasetId}/watch: each new version of the dataset is sent to webhooks. Again changes nothing. */
  watch(datasetId: string, signal: AbortSignal): Promise<void>;

  /** DELETE /v1/datasets/{datasetId}/watch. */
  unwatch(datasetId: string, signal: AbortSignal): Promise<void>;

  /**
   * POST /v1/webhooks. It is asked once only, unless the request surely never arrived: twice would make two webhooks.
   * Where no usable answer came, the hint of the error says that it is not known whether there is one now.
   */
  addWebhook(webhook: NewWebhook, signal: AbortSignal): Promise<AddedWebhook>;

  /** POST /v1/webhooks/{webhookId}/test: the service sends a ping. */
  testWebhook(webhookId: string, signal: AbortSignal): Promise<void>;

  close(): Promise<void>;
}

export interface County {
  readonly id: string;
  readonly name: string | null;
  readonly state: string | null;
  /** Every further field as the service wrote it, in its order. */
  readonly further: ReadonlyMap<string, unknown>;
}

export interface Watch {
  readonly datasetId: string;
  readonly createdAt: Date | null;
}

export interface NewWebhook {
  readonly url: string;
  /** A header that the receiver requires of every delivery; null: none. */
  readonly header: { readonly name: string; readonly value: Secret } | null;
}

export interface AddedWebhook {
  readonly id: string;
  /** As the service has it. */
  readonly url: string;
  /** Signs every delivery: `whsec_` and base64. The service shows it this once. */
  readonly secret: Secret;
}
