/** Commits: the result of one, from the destination to the report, and the record of each in the mirror, in their order. */

import type { ObservedTable } from './write-jobs.ts';

/** One transaction of the destination that brought a table to a version: from that transaction to the report. */
export interface CommitResult {
  readonly kind: 'snapshot' | 'changes' | 'rollback' | 'repair';
  readonly tableName: string;
  /** Null when there was no table before. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** Rows of the table afterwards. */
  readonly rowCount: number;
  /** Null where there was no table before, or where its rows cannot be compared. */
  readonly net: RowDifference | null;
  /** Versions whose changes it coalesces; 1 for a snapshot. */
  readonly versions: number;
  /** The size of the files, or of the pages of changes. */
  readonly bytes: number;
  /** Why the states before this commit are not known any more. Absent: they are, or were not before either. */
  readonly lostPast?: string;
  /** From the first request to the commit. */
  readonly durationMs: number;
  /** The live table as the destination has it from now on: the next step is planned from it. */
  readonly observed: ObservedTable;
}

/** The rows by which a table differs from the table before, found by their keys. */
export interface RowDifference {
  readonly added: number;
  /** Null where the rows were compared by their keys alone. */
  readonly changed: number | null;
  readonly removed: number;
}

/**
 * The effect of a commit on its table: the first load, changes, another load, the table's end, a load after its end, the repair of
 * rows that differed from the service's, the return to an earlier state.
 */
export type CommitKind = 'load' | 'changes' | 'reload' | 'retire' | 'return' | 'repair' | 'rollback';

export interface CommitRecord {
  /** From 1, without gaps. A mirror that is rebuilt starts again at 1. */
  readonly commitNumber: number;
  readonly datasetId: string;
  /** The table's name, even if the table is gone. */
  readonly tableName: string;
  readonly kind: CommitKind;
  /** Null when there was no table before. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** Null where there was no table before, or where its rows cannot be compared. */
  readonly net: RowDifference | null;
  /** The current row count of the live table, possibly after further commits; null without a live table. */
  readonly rowCount: number | null;
  readonly appliedAt: Date;
}

/** The position of a reader: the last commit that was read. */
export interface CommitPosition {
  /** 0 when no commit was read. */
  readonly commitNumber: number;
  /** A digest of that commit, which differs in a mirror that was rebuilt or restored. Empty without a commit. */
  readonly mark: string;
}
