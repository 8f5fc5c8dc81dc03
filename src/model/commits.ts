/** Commits: the result of one, from the destination to the report, and the record of each in the mirror, in their order. */

import type { Counts } from './records.ts';
import type { ObservedTable } from './write-jobs.ts';

/** One transaction of the destination that brought a table to a version: from that transaction to the report. */
export interface CommitResult {
  readonly kind: 'snapshot' | 'changes';
  readonly tableName: string;
  /** Null: there was no table. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** Rows of the table afterwards. */
  readonly rowCount: number;
  /** Rows added, changed and removed; null where the table was replaced as a whole. */
  readonly net: Counts | null;
  /** Versions whose changes it coalesces; 1 for a snapshot. */
  readonly versions: number;
  /** Of the files or of the pages of changes. */
  readonly bytes: number;
  /** From the first request to the commit. */
  readonly durationMs: number;
  /** The live table as the destination has it from now on: the next step is planned from it. */
  readonly observed: ObservedTable;
}

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
