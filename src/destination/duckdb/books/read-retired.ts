/** The retirements of the last days, read from the history of the mirror. */

import type { RetiredTable } from '../../destination.ts';
import type { Engine } from '../engine/engine.ts';
import { text } from '../engine/quoting.ts';
import { booleanAt, dateAt, textAt } from '../engine/rows.ts';
import { HISTORY_KINDS } from './book-entry.ts';
import { storesProgress } from './formats.ts';
import { book } from './mirror-schema.ts';

/** More than any rule looks back; counted from the newest retirement, because the clock of the machine may be wrong. */
const DAYS = 3;

/** Newest first. None in a mirror of a format that does not tell when they were judged. */
export async function readRetired(engine: Engine, format: number): Promise<readonly RetiredTable[]> {
  if (!storesProgress(format)) return [];
  const retired = `kind = ${text(HISTORY_KINDS.retirement)} AND service_time IS NOT NULL`;
  const rows = await engine.rows(`SELECT dataset_id, epoch_ms(service_time), coalesce(approved, false)
    FROM ${book('history')}
    WHERE ${retired} AND service_time >= (
      SELECT max(service_time) - INTERVAL ${DAYS} DAYS FROM ${book('history')} WHERE ${retired})
    ORDER BY service_time DESC, dataset_id`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    retiredAt: dateAt(row, 1),
    isApproved: booleanAt(row, 2),
  }));
}
