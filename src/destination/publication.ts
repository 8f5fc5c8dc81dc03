/**
 * What a destination has for those who read it: a copy that stays, and the lines of its history. Beside the port of a
 * destination, which only the program itself needs.
 */

import type { HistoryLine, HistoryPosition } from '../model/commits.ts';

export interface PostCommitSource {
  /**
   * The lines of the history after a position, in order: those up to line `upTo`, and `limit` of them at most. From the
   * first line on where the position is that of another history, or there is none.
   * @throws BusyError, StorageError
   */
  history(after: HistoryPosition | null, limits: HistoryLimits): Promise<HistoryPage>;

  /**
   * Renames a verified copy of everything that is committed into place. Readers of the copy of before keep that; where
   * this fails, or the process is killed, it stays in place.
   * @throws CopyError, where there is no room before anything is written; BusyError; StorageError; InterruptedError.
   */
  publish(): Promise<Publication>;
}

export interface HistoryLimits {
  readonly limit: number;
  /** Null: up to the newest line. */
  readonly upTo: number | null;
}

export interface HistoryPage {
  readonly lines: readonly HistoryLine[];
  /** After the last of these lines. */
  readonly position: HistoryPosition;
  /** Whether there are lines up to `upTo` beyond the limit. */
  readonly hasMore: boolean;
}

export type Publication =
  /** There is nothing to copy yet. */
  | { readonly kind: 'absent' }
  /** The copy has everything already. */
  | { readonly kind: 'current'; readonly lines: number }
  | {
      readonly kind: 'published';
      /** Lines of the history that the copy has. */
      readonly lines: number;
      readonly bytes: number;
      /** Shares its content with the mirror, as far as that stays as it is. */
      readonly isClone: boolean;
    };
