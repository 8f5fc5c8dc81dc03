/**
 * Pages of the commits in the catalog. Commit numbers only grow, and each position carries a digest of its commit: it tells a
 * position in this mirror from one in a mirror that was replaced.
 */

import type { CommitPosition, CommitRecord } from '../../model/commits.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { dateAt, numberAt, numberOrNullAt, textAt } from '../../staging/engine/sql.ts';
import type { CommitLimits, CommitPage } from '../publication.ts';
import { commitKindOf } from './entries.ts';

const START: CommitPosition = { commitNumber: 0, mark: '' };
export const NO_COMMITS: CommitPage = { commits: [], position: START, hasMore: false };

/** What a database tells of its commits. */
export interface CommitReads {
  /** Returns the number of the newest commit; 0: there is none. */
  newest(): Promise<number>;
  /** Returns the position of a commit; its mark is empty for number 0 and for a number that no commit has. */
  positionAt(commitNumber: number): Promise<CommitPosition>;
  /** Returns the rows that `commitAt` reads, in the order of the commits. */
  rows(after: number, upTo: number): Promise<readonly Row[]>;
}

export async function commitPage(
  reads: CommitReads,
  after: CommitPosition | null,
  { limit, upTo }: CommitLimits,
): Promise<CommitPage> {
  const newest = await reads.newest();
  const isOfThisMirror = after !== null && (await reads.positionAt(after.commitNumber)).mark === after.mark;
  const start = isOfThisMirror ? after : START;
  const end = Math.min(newest, upTo ?? newest, start.commitNumber + limit);
  if (end <= start.commitNumber) return { commits: [], position: start, hasMore: false };
  const rows = await reads.rows(start.commitNumber, end);
  return {
    commits: rows.map(commitAt),
    position: await reads.positionAt(end),
    hasMore: end < Math.min(newest, upTo ?? newest),
  };
}

/** The columns are those of `CommitRecord`, in its order, with the three counts in place of `net`. */
function commitAt(row: Row): CommitRecord {
  const kind = commitKindOf(textAt(row, 3));
  const added = numberOrNullAt(row, 6);
  return {
    commitNumber: numberAt(row, 0),
    datasetId: textAt(row, 1),
    tableName: textAt(row, 2),
    kind,
    fromVersion: numberOrNullAt(row, 4),
    toVersion: numberAt(row, 5),
    net: added === null ? null : { added, changed: numberOrNullAt(row, 7), removed: numberAt(row, 8) },
    rowCount: numberOrNullAt(row, 9),
    appliedAt: dateAt(row, 10),
  };
}
