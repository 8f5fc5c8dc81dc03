/**
 * The content that the service has for the version of a table, as a relation over the downloaded files: the rows of the snapshot
 * whose keys the changes after it do not touch, and the rows that the changes bring. Nothing is stored: each use reads the files.
 */

import { isDeepStrictEqual } from 'node:util';
import { formatCount, plural } from '../lib/units.ts';
import { DataError } from '../model/errors.ts';
import type { ObservedColumn, ObservedTable, RepairJob, VersionContent } from '../model/write-jobs.ts';
import { netColumn, PRESENT } from './changes/columns.ts';
import { coalesceChanges, type NetChange, netRows } from './changes/net-change.ts';
import type { Engine } from './engine/engine.ts';
import { identifier, type KeyPair, sameKey } from './engine/sql.ts';
import { DUCKDB_TYPES } from './snapshot/casts.ts';
import { examineSnapshot } from './snapshot/examine-snapshot.ts';
import { selectRows } from './snapshot/scan-sql.ts';
import type { PlannedColumn, TablePlan } from './snapshot/table-plan.ts';

export interface ContentRows {
  /** A query for the rows, in the order of the table's columns, as `c0`, `c1`, …; see `netColumn`. */
  readonly select: string;
  /** The sum of the rows that the files and the changes state, at least the rows of the content. */
  readonly mostRows: number;
  /** The bytes of the files that each reading of the rows reads. */
  readonly bytes: number;
}

/** The service has other columns for the version than the table has. */
export class OtherColumnsError extends Error {
  override readonly name = 'OtherColumnsError';
}

/**
 * Checks files and pages, and describes the rows with the columns of the table.
 *
 * @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError as the validation of jobs does.
 * @throws OtherColumnsError
 */
export async function examineContent(
  engine: Engine,
  content: VersionContent,
  table: ObservedTable,
): Promise<ContentRows> {
  const { snapshot, changes } = content;
  const { plan, rowCount } = await examineSnapshot(engine, snapshot);
  const bytes = snapshot.files.reduce((sum, file) => sum + file.bytes, 0);
  if (changes === null) {
    refuseOtherColumns(table, snapshot.schema.keyColumns, plan.columns);
    return { select: selectUnchanged(table, plan), mostRows: rowCount, bytes };
  }
  const loaded = { ...table, ...tableOf(content, plan, rowCount) };
  const net = await coalesceChanges(engine, { ...changes, plannedFrom: loaded });
  refuseOtherColumns(table, changes.schema.keyColumns, net.columns);
  await proveFirstValues(engine, plan, net);
  return { select: selectChanged(table, plan, net), mostRows: rowCount + net.rows, bytes };
}

/**
 * Examines content like `examineContent`, where other columns are a fault of the content. @throws DataError, and as `examineContent` does
 */
export async function examineRepair(
  engine: Engine,
  { content, plannedFrom }: RepairJob,
): Promise<ContentRows> {
  try {
    return await examineContent(engine, content, plannedFrom);
  } catch (error) {
    throw error instanceof OtherColumnsError ? new DataError(error.message) : error;
  }
}

/** The table that loading the snapshot would make: the changes are checked against it. */
function tableOf({ snapshot }: VersionContent, { columns }: TablePlan, rowCount: number) {
  const { version, schema, digest, digestKind, publishedAt } = snapshot;
  return {
    version,
    schemaVersion: schema.schemaVersion,
    rowCount,
    keyColumns: schema.keyColumns,
    snapshotVersion: version,
    snapshotDigest: digest,
    digestKind,
    publishedAt,
    columns: columns.map(({ column, columnName, type, role, crs }): ObservedColumn => {
      return { name: column.name, columnName, type, role, crs };
    }),
  };
}

/** @throws OtherColumnsError */
function refuseOtherColumns(
  table: ObservedTable,
  keyColumns: readonly string[],
  columns: readonly PlannedColumn[],
): void {
  const namedBy = (some: readonly { readonly name: string; readonly type: string }[]) =>
    some.map(({ name, type }) => `${name} ${type}`).sort();
  const own = namedBy(table.columns);
  const theirs = namedBy(columns.map(({ column, type }) => ({ name: column.name, type })));
  if (isDeepStrictEqual(own, theirs) && isDeepStrictEqual(table.keyColumns, keyColumns)) return;
  throw new OtherColumnsError(
    `The service has other columns for version ${table.version} of ${table.datasetId} than the table ${table.tableName}.`,
  );
}

const SNAPSHOT = identifier('feed-sync: snapshot');
const NET = identifier('feed-sync: net');

/** The first value defines the coordinate system, so the column must hold no value before. */
async function proveFirstValues(engine: Engine, plan: TablePlan, { firstValues }: NetChange): Promise<void> {
  for (const { columnName, refusal } of firstValues) {
    const position = plan.columns.findIndex((planned) => planned.columnName === columnName);
    if (position < 0) continue;
    const value = `${SNAPSHOT}.${netColumn(position)}`;
    const found = await engine.rows(
      `SELECT 1 FROM (${selectByPosition(plan)}) AS ${SNAPSHOT} WHERE ${value} IS NOT NULL LIMIT 1`,
    );
    if (found.length > 0) throw refusal;
  }
}

/** Columns are named by position, because a column of a dataset may have any name. */
function selectByPosition(plan: TablePlan): string {
  const columns = plan.columns.map((column, position) => ({ ...column, columnName: netColumn(position) }));
  return selectRows({ ...plan, columns });
}

function selectUnchanged(table: ObservedTable, plan: TablePlan): string {
  return `SELECT ${valuesOf(table, plan.columns, SNAPSHOT)} FROM (${selectByPosition(plan)}) AS ${SNAPSHOT}`;
}

function selectChanged(table: ObservedTable, plan: TablePlan, net: NetChange): string {
  const pairs = net.columns.flatMap(({ role, type, column }, position): KeyPair[] => {
    const own = plan.columns.findIndex((planned) => planned.column.name === column.name);
    return role === 'key' ? [[`${SNAPSHOT}.${netColumn(own)}`, `${NET}.${netColumn(position)}`, type]] : [];
  });
  return `${selectUnchanged(table, plan)} ANTI JOIN ${netRows(net)} AS ${NET} ON ${sameKey(pairs)}
    UNION ALL SELECT ${valuesOf(table, net.columns, NET)} FROM ${netRows(net)} AS ${NET} WHERE ${NET}.${PRESENT}`;
}

/** The values of the table's columns from a relation with `columns`; null for a column that it lacks. */
function valuesOf(table: ObservedTable, columns: readonly PlannedColumn[], relation: string): string {
  const values = table.columns.map(({ name, type }, position) => {
    const from = columns.findIndex(({ column }) => column.name === name);
    const value = from < 0 ? `NULL::${DUCKDB_TYPES[type]}` : `${relation}.${netColumn(from)}`;
    return `${value} AS ${netColumn(position)}`;
  });
  return values.join(', ');
}

export interface ExpectedRows {
  readonly rowCount: number;
  /** The rows with a whole key, and the number of their distinct keys; the row count for a table without keys. */
  readonly keyedRows: number;
  readonly keys: number;
}

/**
 * Proves the content by the statements of the service. @throws DataError when the content is not what the service states about the version.
 */
export function proveExpected(
  { datasetId, version, rowCount: stated }: VersionContent,
  { rowCount, keyedRows, keys }: ExpectedRows,
): void {
  const which = `The content of ${datasetId} version ${version}`;
  if (stated !== null && stated !== rowCount) {
    throw new DataError(
      `${which} has ${plural(rowCount, 'row')}, and the service states ${formatCount(stated)}.`,
    );
  }
  if (keyedRows === rowCount && keys === rowCount) return;
  throw new DataError(`${which} has ${plural(rowCount, 'row')} and ${plural(keys, 'whole key')}.`);
}
