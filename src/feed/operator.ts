/**
 * The port of an operator's requests to the service: coverage, dataset watches and webhooks.
 *
 * Every operation may throw `CommandRefusedError`, which suspends nothing, `ServiceUnavailableError` (after all retries),
 * `ContractViolationError` when the answer has a body, and `InterruptedError`.
 */

import type { Secret } from '../lib/secret.ts';

export interface Operator {
  /** GET /v1/coverage, all pages: the counties that the workspace covers. */
  coverage(signal: AbortSignal): Promise<readonly County[]>;

  /** GET /v1/dataset-watches, all pages. */
  watches(signal: AbortSignal): Promise<readonly Watch[]>;

  /**
   * POST /v1/datasets/{datasetId}/watch: the service reports each new version of the dataset to webhooks. Repeating the call
   * changes nothing.
   */
  watch(datasetId: string, signal: AbortSignal): Promise<void>;

  /** DELETE /v1/datasets/{datasetId}/watch. */
  unwatch(datasetId: string, signal: AbortSignal): Promise<void>;

  /**
   * POST /v1/webhooks. Not repeated unless the request surely never arrived, because a repetition would create a second
   * webhook. Without a usable answer, the hint of the error says that the webhook may exist.
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
  /** A header that the receiver requires of every delivery; null for none. */
  readonly header: { readonly name: string; readonly value: Secret } | null;
}

export interface AddedWebhook {
  readonly id: string;
  /** The address as the service stored it. */
  readonly url: string;
  /** Signs every delivery: `whsec_` and base64. The service shows it only in this answer. */
  readonly secret: Secret;
}
