/** Tells operators which undo logs know a state, and why a state is not known. Pure. */

import { shellWord } from '../../lib/text.ts';
import { DataError, StorageError, UsageError } from '../../model/errors.ts';
import type { PastCommit } from '../../model/past-states.ts';
import { storedJson } from '../../staging/engine/sql.ts';
import type { PastLog, StrayColumn } from '../reader.ts';
import { hasOtherColumns, knownColumnType, type RecordedColumn } from './columns.ts';
import type { LoggedColumn } from './undo-logs.ts';

/** The log begins after the asked state. */
function beginsLater(name: string, { firstCommit, firstTime, closedReason }: PastLog): UsageError {
  const reason = closedReason === null ? '' : `: ${closedReason}`;
  return new UsageError(
    `The history of ${name} begins with commit ${firstCommit} at ${firstTime.toISOString()}${reason}. Earlier states are not known.`,
    { hint: 'Ask for that state or a later one.' },
  );
}

export function altered({ datasetId, logName }: PastLog): StorageError {
  return new StorageError(
    `The undo log history.${logName} of ${datasetId} was dropped or altered outside feed-sync: its earlier states are not known.`,
    {
      code: 'dataset_storage_failed',
      hint: `Have the log closed; later states are known then: feed-sync verify ${shellWord(datasetId)}`,
    },
  );
}

/** @throws DataError where the live table lacks a column that the catalog lists, or has it with another type. */
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

/** Whether the log can restore the state at the time. */
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

/** Reads the columns that a commit has recorded, as JSON. */
export function loggedColumnsFrom(json: string): readonly LoggedColumn[] {
  return (storedJson(json) as readonly RecordedColumn[]).map(loggedColumn);
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
