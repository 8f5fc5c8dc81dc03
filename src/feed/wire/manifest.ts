/** The manifest in both shapes. The interface leaves it open; the README of this folder states what is assumed. */

import { z } from 'zod';
import type { EventId } from '../../model/event.ts';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import { count, decode, id, list, nextCursor, optional, violation } from './fields.ts';
import { eventId } from './records.ts';

const MAX_URL_CHARACTERS = 16_000;

const file = z.object({
  url: z.string().min(1).max(MAX_URL_CHARACTERS),
  bytes: optional(count),
  rowCount: optional(count),
  sha256: optional(z.string().regex(/^[\da-f]{64}$/i, { error: 'is not the hex of a SHA-256' })).transform(
    (digest) => digest?.toLowerCase() ?? null,
  ),
}) satisfies z.ZodType<ManifestFile>;

const entry = z.object({
  datasetId: id,
  version: count,
  schemaVersion: optional(id),
  rowCount: optional(count),
  files: list(file),
}) satisfies z.ZodType<ManifestEntry>;

const manifestPage = z.object({
  subscriptionId: optional(id),
  lastEventId: eventId,
  datasets: list(entry),
  nextCursor,
});

export interface ManifestPage {
  readonly lastEventId: EventId | null;
  readonly datasets: readonly ManifestEntry[];
  readonly nextCursor: string | null;
}

/** @throws ContractViolationError, also where it is the manifest of another subscription. */
export function decodeManifestPage(json: unknown, subscriptionId: string, title: string): ManifestPage {
  const page = decode(manifestPage, json, title);
  if (page.subscriptionId !== null && page.subscriptionId !== subscriptionId) {
    throw violation(title, 'subscriptionId', 'names another subscription');
  }
  return page;
}

/** @throws ContractViolationError, also where it is the entry of another dataset. */
export function decodeManifestEntry(json: unknown, datasetId: string, title: string): ManifestEntry {
  const decoded = decode(entry, json, title);
  if (decoded.datasetId !== datasetId) throw violation(title, 'datasetId', 'names another dataset');
  return decoded;
}
