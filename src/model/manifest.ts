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
