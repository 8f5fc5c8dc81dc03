/** The commits of the mirror: one record for each commit that changed a table, in the order of the commits. */

import type { Counts } from './records.ts';

/** What a commit did to its table: its first load, changes, another load, the end of the table, its load after that. */
export type CommitKind = 'load' | 'changes' | 'reload' | 'retire' | 'return';

export interface CommitRecord {
  /** From 1, without gaps. A mirror that is built again begins again at 1. */
  readonly commitNumber: number;
  readonly datasetId: string;
  /** The table's name, even if the table has gone. */
  readonly tableName: string;
  readonly kind: CommitKind;
  /** Null: there was no table. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** Rows that were added, changed and removed; null if the table was replaced as a whole. */
  readonly net: Counts | null;
  /** Rows of the live table now, which may be after further commits; null: there is no live table. */
  readonly rowCount: number | null;
  readonly appliedAt: Date;
}

/** A bookmark: the last commit that was read. */
export interface CommitPosition {
  /** 0: none was read. */
  readonly commitNumber: number;
  /** A digest of that commit. It differs in a mirror that was built again or restored. Empty for no commit. */
  readonly mark: string;
}
