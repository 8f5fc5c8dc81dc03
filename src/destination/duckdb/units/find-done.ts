/** After a COMMIT with an unknown outcome: which units of a batch the mirror holds, read from its history. */

import type { Unit } from '../../destination.ts';
import { HISTORY_KINDS } from '../books/book-entry.ts';
import { book } from '../books/mirror-schema.ts';
import type { Engine, Row } from '../engine/engine.ts';
import { moment, text } from '../engine/quoting.ts';
import { booleanAt, numberAt, numberOrNullAt, textAt, textOrNullAt } from '../engine/rows.ts';
import { placeOf } from '../retirement/retire-table.ts';
import type { Done, PreparedUnit } from './prepared.ts';

/** By dataset id. What is not in it was not done. */
export async function findDone(
  engine: Engine,
  batch: readonly PreparedUnit[],
  appliedAt: Date,
): Promise<ReadonlyMap<string, Done>> {
  const rows = await engine.rows(selectLines(batch, appliedAt));
  const done = new Map<string, Done>();
  for (const { unit } of batch) {
    const line = rows.find(
      (row) =>
        textAt(row, 0) === unit.datasetId &&
        textAt(row, 1) === HISTORY_KINDS[unit.kind] &&
        numberAt(row, 2) === versionAfter(unit),
    );
    if (line !== undefined) done.set(unit.datasetId, doneFrom(unit.kind, line));
  }
  return done;
}

/** The lines of this moment, each with where the table of a retired dataset is and whether that is its own. */
function selectLines(batch: readonly PreparedUnit[], appliedAt: Date): string {
  const ids = batch.map(({ unit }) => text(unit.datasetId)).join(', ');
  return `SELECT h.dataset_id, h.kind, h.to_version, h.from_version, h.added, h.changed, h.removed,
      a.table_name, coalesce(a.table_name = n.table_name, FALSE)
    FROM ${book('history')} h
    LEFT JOIN ${book('archived')} a ON a.dataset_id = h.dataset_id AND a.archived_at = h.applied_at
    LEFT JOIN ${book('names')} n ON n.dataset_id = h.dataset_id
    WHERE h.applied_at = ${moment(appliedAt)} AND h.dataset_id IN (${ids})`;
}

function versionAfter(unit: Unit): number {
  return unit.kind === 'retirement' ? unit.plannedFrom.version : unit.version;
}

function doneFrom(kind: Unit['kind'], row: Row): Done {
  if (kind === 'retirement') {
    return { kind: 'retired', table: placeOf(textOrNullAt(row, 7), booleanAt(row, 8)) };
  }
  const counts = {
    added: numberOrNullAt(row, 4),
    changed: numberOrNullAt(row, 5),
    removed: numberOrNullAt(row, 6),
  };
  const { added, changed, removed } = counts;
  const isCounted = added !== null && changed !== null && removed !== null;
  const net = isCounted ? { added, changed, removed } : null;
  return { kind: 'committed', fromVersion: numberOrNullAt(row, 3), net };
}
