/** Reads the commits of the database, for the command after commits. All reads see one state. */

import type { CommitPosition } from '../../../model/commits.ts';
import { integer, numberAt, text, textAt } from '../../../staging/engine/sql.ts';
import { commitPage } from '../../catalog/commits.ts';
import { META_HOOK } from '../../catalog/tables.ts';
import type { CommitLimits, CommitPage } from '../../publication.ts';
import type { Transaction } from '../connection.ts';
import { catalogTable } from './names.ts';
import { milliseconds } from './schema.ts';

/** Reads commits. `transaction` sees one state with all its statements. */
export async function readCommits(
  transaction: Transaction,
  after: CommitPosition | null,
  limits: CommitLimits,
): Promise<CommitPage> {
  const reads = {
    newest: async () => {
      const [row = []] = await transaction.rows(
        `SELECT coalesce(max(commit_number), 0) FROM ${catalogTable('commits')}`,
      );
      return numberAt(row, 0);
    },
    positionAt: async (commitNumber: number): Promise<CommitPosition> => {
      const [row] = await transaction.rows(selectMark(commitNumber));
      return { commitNumber, mark: row === undefined ? '' : textAt(row, 0) };
    },
    rows: (start: number, end: number) => transaction.rows(selectCommits(start, end)),
    bookmarks: () =>
      transaction.rows(`SELECT "key", value FROM ${catalogTable('meta')} WHERE "key" = ${text(META_HOOK)}`),
  };
  return await commitPage(reads, after, limits);
}

function selectMark(commitNumber: number): string {
  return `SELECT md5(concat_ws(' ', kind, to_version, ${milliseconds('applied_at')}, dataset_id))
    FROM ${catalogTable('commits')} WHERE commit_number = ${integer(commitNumber)}`;
}

function selectCommits(after: number, upTo: number): string {
  return `SELECT c.commit_number, c.dataset_id, n.table_name, c.kind, c.from_version, c.to_version,
      c.added, c.changed, c.removed, d.row_count, ${milliseconds('c.applied_at')}
    FROM ${catalogTable('commits')} c
    LEFT JOIN ${catalogTable('names')} n USING (dataset_id)
    LEFT JOIN ${catalogTable('datasets')} d USING (dataset_id)
    WHERE c.commit_number > ${integer(after)} AND c.commit_number <= ${integer(upTo)}
    ORDER BY c.commit_number`;
}
