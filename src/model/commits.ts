/** The history of the mirror: a line for every commit that changed a table, in the order of the commits. */

import type { Counts } from './records.ts';

export interface HistoryLine {
  /** Its place, from 1. A mirror that is built anew or restored begins another history. */
  readonly line: number;
  readonly datasetId: string;
  /** The table's name, also where the table is no longer there. */
  readonly tableName: string;
  readonly kind: 'snapshot' | 'changes' | 'retired';
  /** Null: there was no table. */
  readonly fromVersion: number | null;
  readonly toVersion: number;
  /** Rows that were added, changed and removed; null where the table was replaced as a whole. */
  readonly net: Counts | null;
  /** Rows of the live table as it is now, maybe after further commits; null: there is none. */
  readonly rowCount: number | null;
  readonly appliedAt: Date;
}

/** How far a history was read. */
export interface HistoryPosition {
  /** So many lines. */
  readonly lines: number;
  /** What the last of them is known by, so that another history is told from this one; empty where there is none. */
  readonly last: string;
}
