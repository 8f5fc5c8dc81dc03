/** The manifest names the snapshots. The interface leaves its shape open; `src/feed/README.md` states the assumptions. */

import { createHash } from 'node:crypto';
import type { EventId } from './event.ts';

export interface ManifestFile {
  /**
   * Absolute, or relative to the base URL; may be presigned and expire. Never logged with its query, which contains a
   * signature.
   */
  readonly url: string;
  readonly bytes: number | null;
  readonly rowCount: number | null;
  /** Lower-case hex. */
  readonly sha256: string | null;
}

export interface ManifestEntry {
  readonly datasetId: string;
  readonly version: number;
  readonly schemaVersion: string | null;
  readonly rowCount: number | null;
  /** All files together are the snapshot; without files the dataset has no rows. */
  readonly files: readonly ManifestFile[];
}

export interface Manifest {
  readonly subscriptionId: string;
  /** The manifest watermark: the manifest reflects every event up to this one. */
  readonly lastEventId: EventId | null;
  readonly datasets: readonly ManifestEntry[];
  /** The service time of the first page. */
  readonly readAt: Date;
}

/**
 * Returns the identity of a snapshot's content: the digest of its files' digests, in any order. Null when the service leaves
 * out a file's digest; the content is then known only after the download.
 */
export function snapshotDigest(files: readonly { readonly sha256: string | null }[]): string | null {
  const digests: string[] = [];
  for (const file of files) {
    if (file.sha256 === null) return null;
    digests.push(file.sha256);
  }
  return createHash('sha256').update(digests.sort().join('\n')).digest('hex');
}

export type Watermark =
  | { readonly kind: 'number'; readonly through: bigint }
  | { readonly kind: 'time'; readonly through: Date };

/** A dataset as one subscription sees it, listed by the manifest of the subscription or by the dataset's own. */
export interface ListedEntry {
  readonly subscriptionId: string;
  /** The log of the subscription that the manifest belongs to, counted as in reloads. */
  readonly logNumber: number;
  /** The subscription whose manifest lists the entry; null: the dataset's own manifest does. */
  readonly through: string | null;
  /** The events of the subscription that the manifest surely covers. */
  readonly watermark: Watermark;
  /** When the manifest was read, in service time. */
  readonly readAt: Date;
  readonly entry: ManifestEntry;
}

interface WatermarkOf {
  readonly lastEventId: EventId | null;
  /** The service time at which the manifest was read. */
  readonly readAt: Date;
  /** The assumed lag of a manifest without a watermark. */
  readonly manifestLagMs: number;
}

export function watermarkOf({ lastEventId, readAt, manifestLagMs }: WatermarkOf): Watermark {
  return lastEventId === null
    ? { kind: 'time', through: new Date(readAt.getTime() - manifestLagMs) }
    : { kind: 'number', through: lastEventId.number };
}

/** The number and the time of an event in the log. An unknown time counts as long ago. */
interface Marked {
  readonly eventNumber: bigint | null;
  readonly createdAt: Date | null;
}

export function covers(watermark: Watermark, { eventNumber, createdAt }: Marked): boolean {
  return watermark.kind === 'number'
    ? eventNumber === null || eventNumber <= watermark.through
    : createdAt === null || createdAt <= watermark.through;
}

/**
 * Service time has whole seconds. An event within the second of an answer may have happened at its end, so it counts as this
 * much later.
 */
const SERVICE_TIME_STEP_MS = 1_000;

/** Returns the latest time of an event in the second of the answer. */
export function timeOf(readAt: Date): Date {
  return new Date(readAt.getTime() + SERVICE_TIME_STEP_MS);
}
