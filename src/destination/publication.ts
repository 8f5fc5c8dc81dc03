/**
 * The port for everything that follows a commit: the commits in their order, and a published copy. It stands beside the port
 * of the destination, which only the program itself needs.
 */

import type { CommitPosition, CommitRecord } from '../model/commits.ts';

export interface PostCommitSource {
  /**
   * The commits after a position, in order: up to number `upTo`, and `limit` of them at most. Begins at the first commit if
   * the position is null or belongs to another mirror.
   * @throws BusyError, StorageError
   */
  commits(after: CommitPosition | null, limits: CommitLimits): Promise<CommitPage>;

  /**
   * Renames a verified copy of everything that is committed into place. Readers of the copy of before keep that; where
   * this fails, or the process is killed, it stays in place.
   * @throws StorageError, where there is no room before anything is written; BusyError; InterruptedError.
   */
  publish(): Promise<Publication>;
}

export interface CommitLimits {
  readonly limit: number;
  /** A commit number. Null: up to the newest commit. */
  readonly upTo: number | null;
}

export interface CommitPage {
  readonly commits: readonly CommitRecord[];
  /** After the last of these commits. */
  readonly position: CommitPosition;
  /** Whether there are commits up to `upTo` beyond the limit. */
  readonly hasMore: boolean;
}

export type Publication =
  /** There is nothing to copy yet. */
  | { readonly kind: 'absent' }
  /** The copy has everything already. */
  | { readonly kind: 'current'; readonly commitNumber: number }
  | {
      readonly kind: 'published';
      /** The newest commit in the copy. */
      readonly commitNumber: number;
      readonly bytes: number;
      /** Shares its content with the mirror, as far as that stays as it is. */
      readonly isClone: boolean;
    };
