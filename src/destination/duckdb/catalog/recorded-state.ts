/**
 * The state in which each commit left a table with history, as `feed_sync.commits` keeps it: a rollback restores it, with the rows that the
 * undo log leads back to.
 */

import { present } from '../../../lib/assert.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { identifier, integer, text } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import type { RecordedColumn } from '../../catalog/columns.ts';
import { type RecordedState, recordedStateAt, restoredCells } from '../../catalog/recorded-state.ts';
import { catalogColumns, RESTORED_COLUMNS } from '../../catalog/tables.ts';
import { jsonRow } from '../../catalog/writes.ts';
import { FROM_JSON } from './rows.ts';
import { catalogTable } from './schema.ts';

/** Reads a recorded state; null where nothing was recorded. */
export async function readRecordedState(engine: Engine, commitNumber: number): Promise<RecordedState | null> {
  const times = new Set(['loaded_at', 'published_at']);
  const cells = RESTORED_COLUMNS.map((name) => (times.has(name) ? `epoch_ms(${name})` : name));
  const [row = []] = await engine.rows(`SELECT to_version, ${cells.join(', ')} FROM ${catalogTable('commits')}
    WHERE commit_number = ${integer(commitNumber)}`);
  return recordedStateAt(row);
}

/** Records what a rollback restores for a commit that was made before the history of its table began. */
export function completeCommit(
  live: ObservedTable,
  commitNumber: number,
  checksum: Checksum | null,
  columns: readonly RecordedColumn[],
): readonly string[] {
  const cells = restoredCells({ table: live, checksum, reloads: live.reloads, columns });
  const types = new Map(catalogColumns('commits'));
  const assignments = RESTORED_COLUMNS.map((name, index) => {
    const type = present(types.get(name), 'the table has the column');
    return `${identifier(name)} = ${FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`)}`;
  });
  return [
    `UPDATE ${catalogTable('commits')} SET ${assignments.join(', ')}
      FROM (SELECT ${text(jsonRow(cells))}::JSON AS "row") AS restored WHERE commit_number = ${integer(commitNumber)}`,
  ];
}
