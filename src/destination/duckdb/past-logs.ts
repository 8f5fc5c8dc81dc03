/** What the catalog says of undo logs: which states each can restore, and with which columns. */

import { assert, present } from '../../lib/assert.ts';
import { UsageError } from '../../model/errors.ts';
import type { PastCommit } from '../../model/past-states.ts';
import { COLUMN_TYPES, type ColumnType } from '../../model/records.ts';
import type { Engine, Row } from '../../staging/engine/engine.ts';
import {
  dateAt,
  dateOrNullAt,
  identifier,
  integer,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import { commitKindAt } from './catalog/commits.ts';
import { catalogOf, catalogTable, MIRROR, storesHistory } from './catalog/schema.ts';
import type { LoggedColumn } from './history.ts';

/** A log, live or frozen, under the name that its table has or had. */
export interface PastLog {
  readonly datasetId: string;
  readonly tableName: string;
  readonly logName: string;
  /** The table of the newest state, with its schema. */
  readonly source: string;
  /** The first commit whose state the log can restore. */
  readonly firstCommit: number;
  readonly firstTime: Date;
  /** Why earlier states are lost; null where the log begins with the table or was begun there. */
  readonly closedReason: string | null;
  readonly frozenCommit: number | null;
  /** The time of the commit that froze the log; null for the log of a live table. */
  readonly frozenTime: Date | null;
  /** True where the log ends with a retired table that was kept in its place. */
  readonly isKept: boolean;
}

/** Returns the table of the newest state as SQL. */
export function sourceOf({ source }: PastLog): string {
  const [schema = '', ...name] = source.split('.');
  return [MIRROR, schema, name.join('.')].map(identifier).join('.');
}

/** Returns all logs, the newest of each dataset first; none where the format of the mirror has no history. */
export async function readPastLogs(engine: Engine, format: number | null): Promise<readonly PastLog[]> {
  if (format === null || !storesHistory(format)) return [];
  const rows = await engine.rows(`SELECT logs.dataset_id, names.table_name, log_name,
      greatest(first_commit, closed_commit), epoch_ms(greatest(first_time, closed_time)), closed_reason, frozen_commit,
      epoch_ms(commits.applied_at), view_name IS NOT NULL, logs.table_name
    FROM ${catalogTable('history_logs')} AS logs JOIN ${catalogTable('names')} AS names USING (dataset_id)
      LEFT JOIN ${catalogTable('commits')} AS commits ON commit_number = frozen_commit
      LEFT JOIN (SELECT view_name FROM duckdb_views() WHERE database_name = ${text(MIRROR)} AND schema_name = 'history')
        ON logs.table_name = 'history.' || view_name
    ORDER BY frozen_commit DESC NULLS FIRST`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    tableName: textAt(row, 1),
    logName: textAt(row, 2),
    firstCommit: numberAt(row, 3),
    firstTime: dateAt(row, 4),
    closedReason: textOrNullAt(row, 5),
    frozenCommit: numberOrNullAt(row, 6),
    frozenTime: dateOrNullAt(row, 7),
    isKept: row[8] === true,
    source: textAt(row, 9),
  }));
}

/** Returns the recorded columns of the live tables, by dataset id. */
export async function readLoggedColumns(
  engine: Engine,
): Promise<ReadonlyMap<string, readonly LoggedColumn[]>> {
  const rows = await engine.rows(`SELECT dataset_id, column_name, type, role FROM ${catalogTable('columns')}
    ORDER BY dataset_id, position`);
  const columns = new Map<string, LoggedColumn[]>();
  for (const row of rows) {
    const ofDataset = columns.get(textAt(row, 0)) ?? [];
    columns.set(textAt(row, 0), ofDataset);
    ofDataset.push({ columnName: textAt(row, 1), type: typeAt(row, 2), role: roleAt(row, 3) });
  }
  return columns;
}

function typeAt(row: Row, index: number): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === textAt(row, index));
  if (type === undefined) throw new Error(`feed_sync.columns has the unknown type ${textAt(row, index)}`);
  return type;
}

function roleAt(row: Row, index: number): LoggedColumn['role'] {
  const role = textAt(row, index);
  return role === 'key' || role === 'envelope' ? role : 'data';
}

/** The log begins after the asked state. */
export function beginsLater(name: string, { firstCommit, firstTime, closedReason }: PastLog): UsageError {
  const reason = closedReason === null ? '' : `: ${closedReason}`;
  return new UsageError(
    `The history of ${name} begins with commit ${firstCommit} at ${firstTime.toISOString()}${reason}. Earlier states are not known.`,
    { hint: 'Ask for that state or a later one.' },
  );
}

/** Returns the commits of a dataset, oldest first. */
export async function readPastCommits(
  engine: Engine,
  format: number,
  datasetId: string,
): Promise<readonly PastCommit[]> {
  const rows =
    await engine.rows(`SELECT commit_number, kind, from_version, to_version, epoch_ms(applied_at), restored_commit
    FROM ${catalogOf(format, 'commits')} WHERE dataset_id = ${text(datasetId)} ORDER BY commit_number`);
  return rows.map((row) => ({
    commitNumber: numberAt(row, 0),
    kind: commitKindAt(row, 1),
    fromVersion: numberOrNullAt(row, 2),
    toVersion: numberAt(row, 3),
    appliedAt: dateAt(row, 4),
    restoredCommit: numberOrNullAt(row, 5),
  }));
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

/** Returns the columns of the table that a log leads back from. */
export async function readColumnsOfLog(
  engine: Engine,
  { datasetId, frozenCommit }: PastLog,
): Promise<readonly LoggedColumn[]> {
  if (frozenCommit === null) {
    return present((await readLoggedColumns(engine)).get(datasetId), 'a table with a log has columns');
  }
  const [row] = await engine.rows(`SELECT columns FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(datasetId)} AND commit_number < ${integer(frozenCommit)} AND columns IS NOT NULL
    ORDER BY commit_number DESC LIMIT 1`);
  assert(row !== undefined, 'a commit that was logged has recorded its columns');
  const columns = JSON.parse(textAt(row, 0)) as readonly { columnName: string; type: string; role: string }[];
  return columns.map(({ columnName, type, role }) => ({
    columnName,
    type: typeAt([type], 0),
    role: roleAt([role], 0),
  }));
}
