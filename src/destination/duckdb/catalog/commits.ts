/** Reads the commits of the mirror. */

import type { CommitPosition } from '../../../model/commits.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { dateAt, integer, numberAt, text, textAt } from '../../../staging/engine/sql.ts';
import { bookmarkWrites, commitPage } from '../../catalog/commits.ts';
import { META_HOOK } from '../../catalog/tables.ts';
import type { CommitLimits, CommitPage } from '../../publication.ts';
import type { WaitForReaders, WriteSessions } from '../write-session.ts';
import { readFormat } from './format.ts';
import { statementsOf } from './rows.ts';
import { catalogOf, catalogTable } from './schema.ts';

/** Returns the number of the newest commit; 0: there is none. */
export async function readNewestNumber(engine: Engine, format: number): Promise<number> {
  const [row] = await engine.rows(
    `SELECT coalesce(max(commit_number), 0) FROM ${catalogOf(format, 'commits')}`,
  );
  return row === undefined ? 0 : numberAt(row, 0);
}

/** Returns the time of the newest commit; 1970 without one. */
export async function readNewestTime(engine: Engine): Promise<Date> {
  const [row = []] = await engine.rows(
    `SELECT coalesce(epoch_ms(max(applied_at)), 0) FROM ${catalogTable('commits')}`,
  );
  return dateAt(row, 0);
}

/** Returns the position of the newest commit. */
export async function readPosition(engine: Engine, format: number): Promise<CommitPosition> {
  return await positionAt(engine, format, await readNewestNumber(engine, format));
}

export async function readCommits(
  engine: Engine,
  format: number,
  after: CommitPosition | null,
  limits: CommitLimits,
): Promise<CommitPage> {
  const reads = {
    newest: () => readNewestNumber(engine, format),
    positionAt: (commitNumber: number) => positionAt(engine, format, commitNumber),
    rows: (start: number, end: number) => engine.rows(selectCommits(format, start, end)),
    bookmarks: () =>
      engine.rows(`SELECT "key", value FROM ${catalogTable('meta')} WHERE "key" = ${text(META_HOOK)}`),
  };
  return await commitPage(reads, after, limits);
}

/** Stores the bookmark of the command after commits, in a transaction of its own. */
export async function storeBookmark(
  sessions: WriteSessions,
  path: string,
  position: CommitPosition,
  wait: WaitForReaders,
): Promise<void> {
  const write = async (engine: Engine): Promise<void> => {
    if ((await readFormat(engine, path)) === null) return;
    for (const statement of statementsOf(bookmarkWrites(position))) await engine.run(statement);
  };
  await sessions.write((session) => session.transaction(write, 'progress'), wait);
}

/** The mark is empty for number 0 and for a number that no commit has. */
async function positionAt(engine: Engine, format: number, commitNumber: number): Promise<CommitPosition> {
  const [row] =
    await engine.rows(`SELECT md5(concat_ws(' ', kind, to_version, epoch_us(applied_at), dataset_id))
    FROM ${catalogOf(format, 'commits')} WHERE commit_number = ${integer(commitNumber)}`);
  return { commitNumber, mark: row === undefined ? '' : textAt(row, 0) };
}

function selectCommits(format: number, after: number, upTo: number): string {
  return `SELECT c.commit_number, c.dataset_id, names.table_name, c.kind, c.from_version, c.to_version,
      c.added, c.changed, c.removed, datasets.row_count, epoch_ms(c.applied_at)
    FROM (FROM ${catalogOf(format, 'commits')}) c
    LEFT JOIN ${catalogTable('names')} names USING (dataset_id)
    LEFT JOIN ${catalogTable('datasets')} datasets USING (dataset_id)
    WHERE c.commit_number > ${integer(after)} AND c.commit_number <= ${integer(upTo)}
    ORDER BY c.commit_number`;
}
