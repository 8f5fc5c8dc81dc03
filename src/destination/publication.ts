/** The ports for everything that follows a commit: the ordered commits, a published copy of the mirror, and its tables as files. */

import type { CommitPosition, CommitRecord } from '../model/commits.ts';
import type { ObservedTable } from '../model/write-jobs.ts';

export interface CommitSource {
  /**
   * Returns the commits after a position, or after the stored bookmark where that is later, in order, up to number `upTo` and at
   * most `limit` of them. Starts at the first commit when both are null or belong to another mirror.
   * @throws BusyError, StorageError
   */
  commits(after: CommitPosition | null, limits: CommitLimits): Promise<CommitPage>;

  /**
   * Stores with the mirror that the command after commits was given everything up to this position. Does nothing where a reader
   * holds the destination or other work on it is under way.
   * @throws StorageError
   */
  storeBookmark(position: CommitPosition): Promise<void>;
}

export interface PostCommitSource extends CommitSource {
  /**
   * Renames a verified copy of everything that is committed into place. Readers of the previous copy keep it. When publishing
   * fails or the process is killed, the previous copy stays in place.
   * @throws StorageError when the disk lacks space, before anything is written; BusyError; InterruptedError.
   */
  publish(): Promise<Publication>;
}

/** The tables of the mirror, for the export. Each call has a turn of its own among the commits. */
export interface ExportSource {
  /** Returns the live tables, in order of dataset id; none where there is no mirror. @throws BusyError, StorageError */
  liveTables(): Promise<readonly ObservedTable[]>;

  /**
   * Writes a live table as GeoParquet to `path`, where there must be nothing; whole, but not yet synced. Returns the table as it is
   * in the file; null where there is none any more.
   * @throws StorageError: `export_failed` where the file cannot be written, `mirror_damaged` where the table cannot be read;
   * BusyError, InterruptedError.
   */
  writeTable(datasetId: string, path: string): Promise<ObservedTable | null>;
}

export interface CommitLimits {
  readonly limit: number;
  /** The last commit number to return; null means the newest commit. */
  readonly upTo: number | null;
}

export interface CommitPage {
  readonly commits: readonly CommitRecord[];
  /** The position after the last of these commits. */
  readonly position: CommitPosition;
  /** True when the limit cut off commits up to `upTo`. */
  readonly hasMore: boolean;
}

export type Publication =
  /** The mirror does not exist yet. */
  | { readonly kind: 'absent' }
  /** The copy already contains every commit. */
  | { readonly kind: 'current'; readonly commitNumber: number }
  | {
      readonly kind: 'published';
      /** The newest commit in the copy. */
      readonly commitNumber: number;
      readonly bytes: number;
      /** True when the copy shares its blocks with the mirror (copy on write). */
      readonly isClone: boolean;
    };
