/** Finds the undo logs that know a state, with their columns, and the reason why a state is not known. Pure. */

import { assert } from '../../lib/assert.ts';
import { shellWord } from '../../lib/text.ts';
import { DataError, StorageError, UsageError } from '../../model/errors.ts';
import type { PastCommit } from '../../model/past-states.ts';
import type { Row } from '../../staging/engine/engine.ts';
import {
  booleanAt,
  dateAt,
  dateOrNullAt,
  identifier,
  integer,
  numberAt,
  numberOrNullAt,
  storedJson,
  text,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import type { PastLog, StrayColumn } from '../reader.ts';
import { hasOtherColumns, knownColumnType, type RecordedColumn } from './columns.ts';
import { type LoggedColumn, shownLog } from './undo-logs.ts';

/** Reads the cells of a log in the order of the fields below, times as milliseconds. */
export function pastLogAt(row: Row): PastLog {
  return {
    datasetId: textAt(row, 0),
    tableName: textAt(row, 1),
    logName: textAt(row, 2),
    firstCommit: numberAt(row, 3),
    firstTime: dateAt(row, 4),
    closedReason: textOrNullAt(row, 5),
    frozenCommit: numberOrNullAt(row, 6),
    frozenTime: dateOrNullAt(row, 7),
    source: textAt(row, 8),
    rowCount: numberOrNullAt(row, 9),
    isKept: booleanAt(row, 10),
  };
}

/** Returns the table of the newest state as SQL, with its schema. */
export function nameOfSource({ source }: Pick<PastLog, 'source'>): string {
  const [schema = '', ...name] = source.split('.');
  return [schema, name.join('.')].map(identifier).join('.');
}

/** Returns whether the log has another number of entries than the catalog says. */
export function lacksEntries({ rowCount }: PastLog, entries: number): boolean {
  return rowCount !== null && entries !== rowCount;
}

/** The log begins after the asked state. */
function beginsLater(name: string, { firstCommit, firstTime, closedReason }: PastLog): UsageError {
  const reason = closedReason === null ? '' : `: ${closedReason}`;
  return new UsageError(
    `The history of ${name} begins with commit ${firstCommit} at ${firstTime.toISOString()}${reason}. Earlier states are not known.`,
    { hint: 'Ask for that state or a later one.' },
  );
}

export function altered({ datasetId, logName }: Pick<PastLog, 'datasetId' | 'logName'>): StorageError {
  return new StorageError(
    `The undo log ${shownLog(logName)} of ${datasetId} was dropped or altered outside feed-sync: its earlier states are not known.`,
    {
      code: 'dataset_storage_failed',
      hint: `Have the log closed; later states are known then: feed-sync verify ${shellWord(datasetId)}`,
    },
  );
}

/**
 * Refuses a table without the columns of its log. @throws DataError where the live table lacks a column that the catalog lists, or has it
 * with another type.
 */
export function refuseOtherColumns({ datasetId, tableName }: PastLog, stray: readonly StrayColumn[]): void {
  const lost = stray.find(({ expected }) => expected !== null);
  if (lost === undefined) return;
  throw new DataError(
    `${hasOtherColumns(tableName, lost.columnName)} Its earlier states cannot be computed from it.`,
    { hint: `Load the table again: feed-sync resync ${shellWord(datasetId)}` },
  );
}

export function unlistedColumns(datasetId: string): StorageError {
  return new StorageError(`feed_sync.columns does not list the columns of the table of ${datasetId}.`, {
    code: 'dataset_storage_failed',
    hint: `Load the table again: feed-sync resync ${shellWord(datasetId)}`,
  });
}

/** Returns the log that can restore the state after the commit. @throws UsageError where there is none. */
export function logOfState(
  datasetId: string,
  { commitNumber, appliedAt }: PastCommit,
  logs: readonly PastLog[],
): PastLog {
  const ofDataset = logs.filter((log) => log.datasetId === datasetId);
  const [newest] = ofDataset;
  if (newest === undefined) {
    throw new UsageError(`${datasetId} has no history: its earlier states are not known.`, {
      hint: 'The setting history.datasets keeps it from then on. feed-sync resync loads the snapshot of the service again.',
    });
  }
  const covering = ofDataset.find(({ firstCommit, frozenCommit }) => {
    return firstCommit <= commitNumber && (frozenCommit === null || commitNumber < frozenCommit);
  });
  if (covering !== undefined) return covering;
  throw beginsLater(datasetId, ofDataset.findLast(({ firstTime }) => firstTime > appliedAt) ?? newest);
}

/** Returns whether the log can restore the state at the time. */
export function coversTime({ firstTime, frozenTime }: PastLog, time: Date): boolean {
  return firstTime <= time && (frozenTime === null || time < frozenTime);
}

/** Says why no log of the table covers the time. `logs` are those of the table, the newest first. */
export function unknownBefore(tableName: string, logs: readonly PastLog[], time: Date): UsageError {
  const [newest] = logs;
  if (newest === undefined) {
    return new UsageError(`The table ${tableName} has no history: its earlier states are not known.`, {
      hint: 'Without --as-of it is read as it is now. The setting history.datasets keeps its history from then on.',
    });
  }
  const { frozenCommit, frozenTime } = newest;
  if (frozenTime !== null && frozenTime <= time) {
    return new UsageError(
      `The table ${tableName} was retired by commit ${frozenCommit} at ${frozenTime.toISOString()}; its history ends there.`,
      { hint: 'Give --as-of an earlier time.' },
    );
  }
  return beginsLater(tableName, logs.findLast(({ firstTime }) => firstTime > time) ?? newest);
}

/** Returns SQL for the columns that a frozen table had: those that the last commit to it has recorded in `commits`, a table. */
export function selectLoggedColumns(commits: string, datasetId: string, frozenCommit: number): string {
  return `SELECT columns FROM ${commits}
    WHERE dataset_id = ${text(datasetId)} AND commit_number < ${integer(frozenCommit)} AND columns IS NOT NULL
    ORDER BY commit_number DESC LIMIT 1`;
}

/** Reads the answer to `selectLoggedColumns`; null where somebody deleted the commits that had recorded them. */
export function loggedColumnsOf([row]: readonly Row[]): readonly LoggedColumn[] | null {
  if (row === undefined) return null;
  return (storedJson(textAt(row, 0)) as readonly RecordedColumn[]).map(loggedColumn);
}

/**
 * Returns the columns, or refuses a log without them. `columns` are those of the table that the log leads back from; null: the catalog has
 * lost them. @throws StorageError
 */
export function knownColumns(
  { datasetId, frozenCommit }: PastLog,
  columns: readonly LoggedColumn[] | null,
): readonly LoggedColumn[] {
  if (columns !== null) return columns;
  assert(frozenCommit === null, 'a commit that was logged has recorded its columns');
  throw unlistedColumns(datasetId);
}

export function loggedColumn({
  columnName,
  type,
  role,
}: Pick<RecordedColumn, 'columnName' | 'type' | 'role'>): LoggedColumn {
  return {
    columnName,
    type: knownColumnType(type),
    role: role === 'key' || role === 'envelope' ? role : 'data',
  };
}
