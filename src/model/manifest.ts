/** The manifest: what snapshots are loaded from. The interface leaves its shape open; `src/feed/README.md` states what is assumed. */

import { createHash } from 'node:crypto';
import type { EventId } from './event.ts';

export interface ManifestFile {
  /** Absolute, or relative to the base URL; may be presigned and expire. Holds a signature, so it is never logged with its query. */
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
  /** Together the whole snapshot; none is a dataset of zero rows. */
  readonly files: readonly ManifestFile[];
}

export interface Manifest {
  readonly subscriptionId: string;
  /** Every event up to this one is reflected in the manifest. */
  readonly lastEventId: EventId | null;
  readonly datasets: readonly ManifestEntry[];
  /** Service time of its first page. */
  readonly readAt: Date;
}

/**
 * The identity of a snapshot's content: the digest of its files' digests, whatever their order. Null where the
 * service leaves one of them out; the content is then known only after it was downloaded.
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

interface WatermarkOf {
  readonly lastEventId: EventId | null;
  /** When the manifest was read, in service time. */
  readonly readAt: Date;
  /** How long a manifest that does not say how far it goes may lag. */
  readonly manifestLagMs: number;
}

export function watermarkOf({ lastEventId, readAt, manifestLagMs }: WatermarkOf): Watermark {
  return lastEventId === null
    ? { kind: 'time', through: new Date(readAt.getTime() - manifestLagMs) }
    : { kind: 'number', through: lastEventId.number };
}

/** An event of the log, by its number and by its time: where one is not known, it is taken for long ago. */
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
 * Service time has whole seconds. What happened at a moment that an answer tells may have happened at its end, so it is
 * taken for this much later.
 */
const SERVICE_TIME_STEP_MS = 1_000;

/** The moment of an answer as the time of something that happened then. */
export function timeOf(readAt: Date): Date {
  return new Date(readAt.getTime() + SERVICE_TIME_STEP_MS);
}
