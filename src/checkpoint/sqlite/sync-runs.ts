/** Records of the program's own work: the newest sync runs, up to a limit, and how far a scrub of the mirror has got. */

import type Database from 'better-sqlite3';
import { NEVER_SCRUBBED, type ScrubRecord } from '../../model/scrub.ts';
import type { SyncRun } from '../checkpoint.ts';
import { exactText, flag, integer, MAX_SYNC_RUNS, orNull, shortText, table, time } from './table.ts';

export function syncRunTable(database: Database.Database) {
  const runs = table<SyncRun>(database, 'sync_runs', {
    at: time,
    kind: shortText,
    datasetId: orNull(shortText),
    detail: shortText,
  });
  const newest = runs.select('ORDER BY run_number DESC LIMIT ?');
  const append = runs.putAll();
  const dropOldest = database.prepare<[number]>(
    'DELETE FROM sync_runs WHERE run_number <= (SELECT max(run_number) FROM sync_runs) - ?',
  );
  return {
    newest: (limit: number): readonly SyncRun[] => newest(limit),
    append(run: SyncRun) {
      append(run);
      dropOldest.run(MAX_SYNC_RUNS);
    },
  };
}

interface ScrubRow extends Omit<ScrubRecord, 'position'> {
  readonly singleton: number;
  readonly positionTable: string | null;
  readonly positionRow: number | null;
}

export function scrubTable(database: Database.Database) {
  const scrubs = table<ScrubRow>(database, 'scrub', {
    singleton: integer,
    beganAt: orNull(time),
    positionTable: orNull(exactText),
    positionRow: orNull(integer),
    completedAt: orNull(time),
    isExaminationAsked: flag,
  });
  const select = scrubs.select();
  const put = scrubs.putAll();
  const get = (): ScrubRecord => {
    const [row] = select();
    if (row === undefined) return NEVER_SCRUBBED;
    const { beganAt, completedAt, isExaminationAsked, positionTable, positionRow } = row;
    const position =
      positionTable === null || positionRow === null ? null : { table: positionTable, row: positionRow };
    return { beganAt, position, completedAt, isExaminationAsked };
  };
  const keep = ({ position, ...record }: ScrubRecord): void => {
    put({
      singleton: 1,
      ...record,
      positionTable: position?.table ?? null,
      positionRow: position?.row ?? null,
    });
  };
  return { get, put: keep };
}
