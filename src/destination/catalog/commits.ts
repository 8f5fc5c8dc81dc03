/**
 * Pages of the commits in the catalog. Commit numbers only grow, and each position carries a digest of its commit, which
 * distinguishes a position in this mirror from one in a mirror that was replaced.
 */

import type { CommitPosition, CommitRecord, RowDifference } from '../../model/commits.ts';
import type { PastCommit } from '../../model/past-states.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { dateAt, numberAt, numberOrNullAt, textAt } from '../../staging/engine/sql.ts';
import type { CommitLimits, CommitPage } from '../publication.ts';
import { commitKindOf } from './entries.ts';
import { META_HOOK } from './tables.ts';
import { type CatalogWrite, deleteRows, insertRows } from './writes.ts';

const START: CommitPosition = { commitNumber: 0, mark: '' };
export const NO_COMMITS: CommitPage = { commits: [], position: START, hasMore: false };

/** The facts about commits that a database gives. */
export interface CommitReads {
  /** Returns the number of the newest commit; 0: there is none. */
  newest(): Promise<number>;
  /** Returns the position of a commit; its mark is empty for number 0 and for a number that no commit has. */
  positionAt(commitNumber: number): Promise<CommitPosition>;
  /** Returns the rows of `meta` about the command after commits: key and value. */
  bookmarks(): Promise<readonly Row[]>;
  /** Returns the rows that `commitAt` reads, in the order of the commits. */
  rows(after: number, upTo: number): Promise<readonly Row[]>;
}

export async function commitPage(
  reads: CommitReads,
  after: CommitPosition | null,
  { limit, upTo }: CommitLimits,
): Promise<CommitPage> {
  const newest = await reads.newest();
  const start = await laterOf(reads, [after, ...(await reads.bookmarks()).map(bookmarkAt)]);
  const end = Math.min(newest, upTo ?? newest, start.commitNumber + limit);
  if (end <= start.commitNumber) return { commits: [], position: start, hasMore: false };
  const rows = await reads.rows(start.commitNumber, end);
  return {
    commits: rows.map(commitAt),
    position: await reads.positionAt(end),
    hasMore: end < Math.min(newest, upTo ?? newest),
  };
}

/** Returns the later of the positions in this mirror; the start where there are none. */
async function laterOf(
  reads: CommitReads,
  positions: readonly (CommitPosition | null)[],
): Promise<CommitPosition> {
  let later = START;
  for (const one of positions) {
    if (one === null || one.commitNumber <= later.commitNumber) continue;
    if ((await reads.positionAt(one.commitNumber)).mark === one.mark) later = one;
  }
  return later;
}

/** Null: the value was altered by hand. */
function bookmarkAt(row: Row): CommitPosition | null {
  const [, commitNumber = '', mark = ''] =
    /^\{"commit":(\d{1,15}),"mark":"(\w*)"\}$/.exec(textAt(row, 1)) ?? [];
  return commitNumber === '' ? null : { commitNumber: Number(commitNumber), mark };
}

/** Returns the changes of the catalog that replace the bookmark. */
export function bookmarkWrites({ commitNumber, mark }: CommitPosition): readonly CatalogWrite[] {
  const value = JSON.stringify({ commit: commitNumber, mark });
  return [deleteRows('meta', ['key'], [[META_HOOK]]), insertRows('meta', [[META_HOOK, value]])];
}

/** The columns are those of `CommitRecord`, in its order, with the three counts in place of `net`. */
function commitAt(row: Row): CommitRecord {
  return {
    commitNumber: numberAt(row, 0),
    datasetId: textAt(row, 1),
    tableName: textAt(row, 2),
    kind: commitKindOf(textAt(row, 3)),
    fromVersion: numberOrNullAt(row, 4),
    toVersion: numberAt(row, 5),
    net: netAt(row, 6),
    rowCount: numberOrNullAt(row, 9),
    appliedAt: dateAt(row, 10),
  };
}

/** Reads the counts of a commit, from the cell `first` on: added, changed, removed. */
function netAt(row: Row, first: number): RowDifference | null {
  const added = numberOrNullAt(row, first);
  return added === null
    ? null
    : { added, changed: numberOrNullAt(row, first + 1), removed: numberAt(row, first + 2) };
}

/** Reads the cells of a commit as one of the past of its table: number, kind, versions before and after, time, restored commit. */
export function pastCommitAt(row: Row): PastCommit {
  return {
    commitNumber: numberAt(row, 0),
    kind: commitKindOf(textAt(row, 1)),
    fromVersion: numberOrNullAt(row, 2),
    toVersion: numberAt(row, 3),
    appliedAt: dateAt(row, 4),
    restoredCommit: numberOrNullAt(row, 5),
  };
}
