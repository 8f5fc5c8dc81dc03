/** The state that a rollback restores, and the proof that it did: the same in every destination. */

import { present } from '../../lib/assert.ts';
import { shellWord } from '../../lib/text.ts';
import { DataError, UsageError } from '../../model/errors.ts';
import { refuseUnchanged } from '../../model/past-states.ts';
import type { RollbackJob } from '../../model/write-jobs.ts';
import { text } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { PastLog } from '../reader.ts';
import type { Checksum } from './cells.ts';
import { observedColumn, type RecordedColumn } from './columns.ts';
import type { PastCatalog } from './compare-states.ts';
import { logOfState } from './past-logs.ts';
import type { RecordedState } from './recorded-state.ts';

/** The state to restore, and the log that leads there. */
export interface RestoredState extends RecordedState {
  readonly log: PastLog;
}

/** Reads the state that a rollback restores. @throws UsageError where the state is not known. */
export async function restoredState(
  { datasetId, toCommit }: RollbackJob,
  past: PastCatalog,
  recordedState: (commitNumber: number) => Promise<RecordedState | null>,
): Promise<RestoredState> {
  const commits = await past.commits(datasetId);
  const commit = commits.find(({ commitNumber }) => commitNumber === toCommit);
  if (commit === undefined || commit.kind === 'retire') {
    throw new UsageError(`Commit ${toCommit} left no table of ${datasetId}.`, {
      hint: 'feed-sync query "SELECT * FROM feed_sync.commits" lists the commits.',
    });
  }
  // A command that was killed may have left its request, which was performed before this one.
  refuseUnchanged(datasetId, commit, present(commits.at(-1), 'there is this commit'));
  const log = logOfState(datasetId, commit, await past.logs());
  const state = await recordedState(toCommit);
  if (state !== null) return { log, ...state };
  throw new UsageError(
    `What commit ${toCommit} left of ${datasetId} was not recorded: its history was switched off then.`,
    { hint: 'Name a later state.' },
  );
}

/** Returns the shape of columns; columns of one shape need no other table. */
export function shapeOf(columns: readonly RecordedColumn[]) {
  return columns.map(({ columnName, type, role }) => [columnName, type, role]);
}

/** Proves the restored rows by the checksum of the commit. @throws DataError */
export function proveRestored(
  job: RollbackJob,
  { table, checksum }: RestoredState,
  result: { readonly rowCount: number; readonly checksum: Checksum },
): void {
  if (result.checksum.version !== checksum.version) {
    const why = 'its checksum was computed by another version of the hash, so that nothing proves its rows';
    throw notRestored(job, why, provableStates(job, result.checksum.version));
  }
  if (result.rowCount === table.rowCount && result.checksum.sum === checksum.sum) return;
  throw notRestored(job, 'the rows that its undo log leads back to are not those that the commit left');
}

/** No repair of the table computes the checksum of an earlier state. */
function provableStates({ datasetId }: RollbackJob, hashVersion: string): string {
  const sql = `SELECT commit_number, to_version, applied_at FROM feed_sync.commits
    WHERE dataset_id = ${text(datasetId)} AND checksum_version = ${text(hashVersion)} ORDER BY commit_number`;
  return `Name a later state: feed-sync query "${sql.replace(/\s+/g, ' ')}" lists those that can be proven.`;
}

export function notRestored(
  { datasetId, toCommit }: RollbackJob,
  why: string,
  hint = `Repair the table first: feed-sync verify --deep --repair ${shellWord(datasetId)}`,
): DataError {
  return new DataError(
    `${datasetId} cannot be rolled back to commit ${toCommit}: ${why.replace(/[.!]$/, '')}. Nothing was changed.`,
    { hint },
  );
}

export function plannedColumn(recorded: RecordedColumn): PlannedColumn {
  const { name, type, columnName, role, crs } = observedColumn(recorded);
  const { isNullable: nullable, description, sourceName } = recorded;
  return { column: { name, type, nullable, description, sourceName }, type, columnName, role, crs };
}
