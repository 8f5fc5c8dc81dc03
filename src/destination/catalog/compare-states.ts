/** Finds the two states of a table to compare, and the undo log that leads from one to the other: the same in every destination. */

import type { RowDifference } from '../../model/commits.ts';
import { UsageError } from '../../model/errors.ts';
import { commitThatLeft, type PastCommit, type PastState, refuseUnchanged } from '../../model/past-states.ts';
import type { DiffResult, DiffRow, PastLog, QueryResult, Rendered, SimulatedRollback } from '../reader.ts';
import { logOfState } from './past-logs.ts';
import type { LoggedColumn } from './undo-logs.ts';

/** The catalog of a destination, as far as it describes the past of tables. */
export interface PastCatalog {
  /** Returns the commits of a dataset, oldest first. */
  commits(datasetId: string): Promise<readonly PastCommit[]>;
  /** Returns all undo logs, the newest of each dataset first. */
  logs(): Promise<readonly PastLog[]>;
  /** Returns the columns of the table that a log leads back from. */
  columnsOf(log: PastLog): Promise<readonly LoggedColumn[]>;
  /**
   * Refuses a log that somebody altered. @throws StorageError where the log is not there, or lacks entries; DataError where its table has
   * not the listed columns.
   */
  refuseAltered(log: PastLog): Promise<void>;
}

/** Two states of one table, in the order in which the operator named them. */
export interface Compared {
  readonly log: PastLog;
  /** The columns, those of the key first. */
  readonly columns: readonly LoggedColumn[];
  readonly from: PastCommit;
  readonly to: PastCommit;
}

/** Compares two states of a table; a null `to` is the newest one. @throws UsageError where the history does not reach a state. */
export async function compareStates(
  past: PastCatalog,
  datasetId: string,
  states: { readonly from: PastState; readonly to: PastState | null },
): Promise<Compared> {
  const commits = await past.commits(datasetId);
  const from = commitThatLeft(datasetId, states.from, commits);
  const newest: PastState = { by: 'commit', commitNumber: Number.POSITIVE_INFINITY };
  const to = commitThatLeft(datasetId, states.to ?? newest, commits);
  const logs = await past.logs();
  const log = logOfState(datasetId, from, logs);
  const logOfTo = logOfState(datasetId, to, logs);
  if (log.logName !== logOfTo.logName) throw otherTable(datasetId, [log, logOfTo], commits);
  await past.refuseAltered(log);
  const columns = await past.columnsOf(log);
  const isKey = ({ role }: LoggedColumn): boolean => role === 'key';
  return { log, columns: [...columns.filter(isKey), ...columns.filter((one) => !isKey(one))], from, to };
}

function otherTable(datasetId: string, logs: readonly PastLog[], commits: readonly PastCommit[]): UsageError {
  const end = Math.min(...logs.flatMap(({ frozenCommit }) => frozenCommit ?? []));
  const isRetired = commits.find(({ commitNumber }) => commitNumber === end)?.kind === 'retire';
  const what = isRetired ? `${datasetId} was retired` : `The columns of ${datasetId} changed`;
  return new UsageError(`${what} between these states, with commit ${end}: their rows cannot be compared.`, {
    hint: 'Compare states on one side of that commit. query --as-of reads both sides.',
  });
}

/** Simulates a rollback. @throws UsageError where the state is not known, or is the one that the table has. */
export async function simulateRollback(
  past: PastCatalog,
  datasetId: string,
  state: PastState,
  count: (compared: Compared) => Promise<RowDifference>,
): Promise<SimulatedRollback> {
  const commits = await past.commits(datasetId);
  const to = commitThatLeft(datasetId, state, commits);
  const from = commits.at(-1);
  if (from === undefined || from.kind === 'retire') {
    throw new UsageError(`${datasetId} was retired: it has no table to roll back.`);
  }
  const logs = await past.logs();
  const log = logOfState(datasetId, to, logs);
  refuseUnchanged(datasetId, to, from);
  await past.refuseAltered(log);
  if (log.frozenCommit !== null) return { from, to, net: null };
  const columns = await past.columnsOf(log);
  return { from, to, net: await count({ log, columns, from, to }) };
}

/**
 * Returns the difference of two states. `result` has the columns of a query for the rows that differ: the change, the key, the other
 * columns before and after.
 */
export function diffResult({ columns, from, to }: Compared, { columnTypes, rows }: QueryResult): DiffResult {
  const isKey = ({ role }: LoggedColumn): boolean => role === 'key';
  const keys = columns.filter(isKey).map(({ columnName }) => columnName);
  const values = columns.filter((column) => !isKey(column)).map(({ columnName }) => columnName);
  const typed = (names: readonly string[], first: number): DiffResult['keys'] =>
    names.map((name, index) => [name, columnTypes[first + index] ?? '']);
  return {
    from,
    to,
    keys: typed(keys, 1),
    values: typed(values, 1 + keys.length),
    rows: diffRows(rows, keys.length, values.length),
  };
}

async function* diffRows(
  rows: AsyncIterable<readonly Rendered[]>,
  keys: number,
  values: number,
): AsyncGenerator<DiffRow> {
  for await (const [change, ...cells] of rows) {
    if (change !== 'added' && change !== 'changed' && change !== 'removed') continue;
    const [before, after] = [cells.slice(keys, keys + values), cells.slice(keys + values)];
    yield {
      change,
      key: cells.slice(0, keys),
      before: change === 'added' ? null : before,
      after: change === 'removed' ? null : after,
    };
  }
}
