/**
 * The statements that write down what a table is now, in the transaction that makes it so: the rows of `feed_sync`,
 * and the comments.
 */

import type { HistoryLine } from '../../model/history.ts';
import type { Counts } from '../../model/version.ts';
import type { ChangesUnit, SnapshotUnit, Unit } from '../destination.ts';
import { book, mirrored } from './mirror-schema.ts';
import { boolean, identifier, integer, moment, text, textList, tuple } from './quoting.ts';
import type { PlannedColumn } from './snapshot/table-plan.ts';

export interface SnapshotEntry {
  readonly unit: SnapshotUnit;
  readonly tableName: string;
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  readonly fromVersion: number | null;
  readonly appliedAt: Date;
}

export function recordSnapshot(entry: SnapshotEntry): readonly string[] {
  const { unit, tableName, rowCount, fromVersion, appliedAt } = entry;
  const id = text(unit.datasetId);
  const dataset = [
    id,
    text(tableName),
    integer(unit.version),
    text(unit.schema.schemaVersion),
    integer(rowCount),
    textList(unit.schema.keyColumns),
    integer(unit.version),
    text(unit.digest),
    moment(unit.publishedAt),
    moment(appliedAt),
  ];
  return [
    `DELETE FROM ${book('datasets')} WHERE dataset_id = ${id}`,
    `INSERT INTO ${book('datasets')} VALUES ${tuple(dataset)}`,
    ...recordColumns(unit.datasetId, entry.columns),
    ...[...unit.reloads].flatMap(([subscriptionId, eventNumber]) =>
      recordReload(id, text(subscriptionId), eventNumber),
    ),
    // What a snapshot added, changed and removed is not known: the table was replaced as a whole.
    recordHistory({
      datasetId: unit.datasetId,
      fromVersion,
      toVersion: unit.version,
      kind: 'snapshot',
      net: null,
      appliedAt,
    }),
  ];
}

export interface ChangesEntry {
  readonly unit: ChangesUnit;
  readonly rowCount: number;
  readonly net: Counts;
  readonly appliedAt: Date;
}

/** The snapshot that the table was last loaded from stays what it was. */
export function recordChanges({ unit, rowCount, net, appliedAt }: ChangesEntry): readonly string[] {
  const values = [
    `version = ${integer(unit.version)}`,
    `schema_version = ${text(unit.schema.schemaVersion)}`,
    `row_count = ${integer(rowCount)}`,
    `key_columns = ${textList(unit.schema.keyColumns)}`,
    `published_at = ${moment(unit.publishedAt)}`,
    `applied_at = ${moment(appliedAt)}`,
  ];
  return [
    `UPDATE ${book('datasets')} SET ${values.join(', ')} WHERE dataset_id = ${text(unit.datasetId)}`,
    recordHistory({
      datasetId: unit.datasetId,
      fromVersion: unit.plannedFrom.version,
      toVersion: unit.version,
      kind: 'changes',
      net,
      appliedAt,
    }),
  ];
}

export interface RetirementEntry {
  readonly datasetId: string;
  readonly version: number;
  readonly reason: string;
  /** Where the rows are now: a table of the schema `archived`, or the dataset's own; null where they are gone. */
  readonly tableName: string | null;
  readonly removedRows: number;
  readonly appliedAt: Date;
}

/** The dataset has no live table any more. Its name stays its own. */
export function recordRetirement(entry: RetirementEntry): readonly string[] {
  const { datasetId, version, reason, tableName, removedRows, appliedAt } = entry;
  const archived = [text(datasetId), text(tableName), integer(version), text(reason), moment(appliedAt)];
  return [
    ...(['datasets', 'columns', 'reloads'] as const).map(
      (table) => `DELETE FROM ${book(table)} WHERE dataset_id = ${text(datasetId)}`,
    ),
    `INSERT INTO ${book('archived')} VALUES ${tuple(archived)}`,
    recordHistory({
      datasetId,
      fromVersion: version,
      toVersion: version,
      kind: 'retirement',
      net: { added: 0, changed: 0, removed: removedRows },
      appliedAt,
    }),
  ];
}

/** A table that was kept is the live one again: it is no longer listed among the retired. */
export function recordReturn(datasetId: string, tableName: string): string {
  return `DELETE FROM ${book('archived')} WHERE dataset_id = ${text(datasetId)} AND table_name = ${text(tableName)}`;
}

/** How a line of the history tells of each kind of unit. Complete by its type. */
export const HISTORY_KINDS: Readonly<Record<Unit['kind'], HistoryLine['kind']>> = {
  snapshot: 'snapshot',
  changes: 'changes',
  retirement: 'retired',
};

interface HistoryEntry {
  readonly datasetId: string;
  readonly fromVersion: number | null;
  readonly toVersion: number;
  readonly kind: Unit['kind'];
  readonly net: Counts | null;
  readonly appliedAt: Date;
}

function recordHistory({ datasetId, fromVersion, toVersion, kind, net, appliedAt }: HistoryEntry): string {
  const counts = [net?.added, net?.changed, net?.removed].map((count) => integer(count ?? null));
  const line = [
    text(datasetId),
    integer(fromVersion),
    integer(toVersion),
    text(HISTORY_KINDS[kind]),
    ...counts,
    moment(appliedAt),
  ];
  return `INSERT INTO ${book('history')} VALUES ${tuple(line)}`;
}

/** An event number only grows: a snapshot that was asked for earlier does not undo a later one. */
function recordReload(datasetId: string, subscriptionId: string, eventNumber: bigint): readonly string[] {
  const same = `dataset_id = ${datasetId} AND subscription_id = ${subscriptionId}`;
  const number = integer(eventNumber);
  return [
    `DELETE FROM ${book('reloads')} WHERE ${same} AND event_number < ${number}`,
    `INSERT INTO ${book('reloads')} SELECT ${datasetId}, ${subscriptionId}, ${number}
      WHERE NOT EXISTS (SELECT 1 FROM ${book('reloads')} WHERE ${same})`,
  ];
}

/** Replaces what is written of the columns of a table. */
export function recordColumns(datasetId: string, columns: readonly PlannedColumn[]): readonly string[] {
  const rows = columns.map(({ column, columnName, crs, role, type }, index) =>
    tuple([
      text(datasetId),
      integer(index + 1),
      text(column.name),
      text(columnName),
      text(type),
      boolean(column.nullable),
      text(column.description),
      text(column.sourceName),
      text(role),
      text(crs),
    ]),
  );
  return [
    `DELETE FROM ${book('columns')} WHERE dataset_id = ${text(datasetId)}`,
    `INSERT INTO ${book('columns')} VALUES ${rows.join(', ')}`,
  ];
}

/** What is written of the columns of a table, in their order: all but their positions. */
export function selectRecordedColumns(datasetId: string): string {
  return `SELECT name, column_name, type, nullable, description, source_name, role, crs FROM ${book('columns')}
    WHERE dataset_id = ${text(datasetId)} ORDER BY "position"`;
}

/** The comments of a table that has none yet. */
export function comments(
  tableName: string,
  datasetId: string,
  columns: readonly PlannedColumn[],
): readonly string[] {
  const table = mirrored(tableName);
  return [
    commentOnTable(table, datasetId),
    ...columns.flatMap(({ column, columnName }) =>
      column.description === null ? [] : [commentOnColumn(table, columnName, column.description)],
    ),
  ];
}

/** `table` is SQL: the table of a dataset, wherever it is. */
export function commentOnTable(table: string, datasetId: string): string {
  return `COMMENT ON TABLE ${table} IS ${text(`Dataset ${datasetId}`)}`;
}

/** Null takes the comment away. */
export function commentOnColumn(table: string, columnName: string, comment: string | null): string {
  return `COMMENT ON COLUMN ${table}.${identifier(columnName)} IS ${text(comment)}`;
}
