/** The state in which each commit left a table with history, as `feed_sync.commits` keeps it. */

import type { ObservedTable } from '../../../model/write-jobs.ts';
import { identifier, integer, text } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import type { RecordedColumn } from '../../catalog/columns.ts';
import { type RecordedState, recordedStateAt, restoredCells } from '../../catalog/recorded-state.ts';
import { catalogColumns, RESTORED_COLUMNS } from '../../catalog/tables.ts';
import { jsonRow } from '../../catalog/writes.ts';
import type { Transaction } from '../connection.ts';
import { catalogTable } from './names.ts';
import { cellFromJson } from './rows.ts';
import { milliseconds } from './schema.ts';

/** Reads a recorded state; null where nothing was recorded. */
export async function readRecordedState(
  transaction: Transaction,
  commitNumber: number,
): Promise<RecordedState | null> {
  const times = new Set(['loaded_at', 'published_at']);
  const cells = RESTORED_COLUMNS.map((name) => (times.has(name) ? milliseconds(name) : name));
  const [row = []] =
    await transaction.rows(`SELECT to_version, ${cells.join(', ')} FROM ${catalogTable('commits')}
    WHERE commit_number = ${integer(commitNumber)}`);
  return recordedStateAt(row);
}

/** Records what a rollback restores for a commit that was made before the history of its table began. */
export function completeCommit(
  live: ObservedTable,
  commitNumber: number,
  { checksum, recordedColumns: columns }: Recorded,
): readonly string[] {
  const cells = restoredCells({ table: live, checksum, reloads: live.reloads, columns });
  const types = new Map(catalogColumns('commits'));
  const assignments = RESTORED_COLUMNS.map((name, index) => {
    return `${identifier(name)} = ${cellFromJson(types.get(name) ?? 'VARCHAR', index)}`;
  });
  return [
    `UPDATE ${catalogTable('commits')} SET ${assignments.join(', ')}
      FROM (SELECT ${text(jsonRow(cells))}::json AS "row") AS restored WHERE commit_number = ${integer(commitNumber)}`,
  ];
}

interface Recorded {
  readonly checksum: Checksum | null;
  readonly recordedColumns: readonly RecordedColumn[];
}
