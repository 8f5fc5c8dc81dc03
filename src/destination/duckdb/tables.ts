/**
 * Reads the state of the datasets of a batch at the beginning of its transaction, and guards the jobs: a job whose plan started
 * from another state is stale, and does nothing. One read covers the whole batch, because several queries for each dataset
 * would cost more than a small job, and listing table names costs more with every table. The result stays true during the batch
 * because a batch has at most one job for a dataset.
 */

import { present } from '../../lib/assert.ts';
import { StorageError } from '../../model/errors.ts';
import type { Closing } from '../../model/lost-past.ts';
import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { booleanAt, identifier, numberAt, text, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { RecordedColumn } from '../catalog/columns.ts';
import type { DatasetBefore } from '../catalog/entries.ts';
import { giveNames, readLiveTables } from './catalog/observed-state.ts';
import { catalogTable, mirrored, selectKinds } from './catalog/schema.ts';
import { readLogs } from './past/history.ts';
import { withoutUnusable } from './past/unusable-logs.ts';

export interface Current extends DatasetBefore {
  /** The undo log of the live table; null when it has none. */
  readonly logName: string | null;
  /** How that log was closed at the beginning; null when there is none. */
  readonly closing: Closing | null;
  /** The columns of the live table as recorded in the catalog. */
  readonly recordedColumns: readonly RecordedColumn[];
  /** The actual live table, for changes; null for other jobs. */
  readonly found: FoundTable | null;
  /**
   * The kind of object that the mirror has under this name, in words for people; null when there is none, and for changes,
   * which write into the live table.
   */
  readonly existingObject: string | null;
}

/** Returns the state of each job's dataset, by id. Datasets without a name get one, in the order of the list. */
export async function readCurrent(
  engine: Engine,
  jobs: readonly WriteJob[],
): Promise<ReadonlyMap<string, Current>> {
  const datasetIds = jobs.map(({ datasetId }) => datasetId);
  const live = await readLiveTables(engine, datasetIds);
  const isChanged = ({ kind, datasetId }: WriteJob): boolean => kind === 'changes' && live.has(datasetId);
  const replaced = jobs.filter((job) => !isChanged(job)).map(({ datasetId }) => datasetId);
  const named = await readNames(engine, replaced);
  const missing = replaced.filter((datasetId) => !named.has(datasetId));
  const given = missing.length === 0 ? new Map<string, string>() : await giveNames(engine, missing);
  const nameOf = (datasetId: string): string => {
    const tableName = live.get(datasetId)?.observed.tableName ?? named.get(datasetId)?.tableName;
    return present(tableName ?? given.get(datasetId), 'a dataset has a name');
  };
  const found = await readFoundTables(
    engine,
    jobs.filter(isChanged).map(({ datasetId }) => nameOf(datasetId)),
  );
  const existingObject = await readKinds(engine, replaced.map(nameOf));
  const observed = new Map([...live].map(([datasetId, table]) => [datasetId, table.observed]));
  const logs = await readLogs(engine, [...live.keys()]);
  const logNames = await withoutUnusable(engine, logs, observed);
  return new Map(
    datasetIds.map((datasetId): [string, Current] => {
      const tableName = nameOf(datasetId);
      const table = live.get(datasetId);
      return [
        datasetId,
        {
          schemaName: 'main',
          tableName,
          live: table?.observed ?? null,
          checksum: table?.checksum ?? null,
          logName: logNames.get(datasetId) ?? null,
          closing: logs.get(datasetId)?.closing ?? null,
          isKept: named.get(datasetId)?.isKept ?? false,
          hasCommits: named.get(datasetId)?.hasCommits ?? false,
          recordedColumns: table?.recordedColumns ?? [],
          found: found.get(tableName) ?? null,
          existingObject: existingObject.get(tableName) ?? null,
        },
      ];
    }),
  );
}

async function readNames(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, Pick<Current, 'tableName' | 'isKept' | 'hasCommits'>>> {
  if (datasetIds.length === 0) return new Map();
  const rows = await engine.rows(`SELECT n.dataset_id, n.table_name,
      EXISTS (SELECT 1 FROM ${catalogTable('archived')} a WHERE a.dataset_id = n.dataset_id AND a.table_name = n.table_name),
      EXISTS (SELECT 1 FROM ${catalogTable('commits')} c WHERE c.dataset_id = n.dataset_id)
    FROM ${catalogTable('names')} n WHERE n.dataset_id IN (${datasetIds.map(text).join(', ')})`);
  return new Map(
    rows.map((row) => [
      textAt(row, 0),
      { tableName: textAt(row, 1), isKept: booleanAt(row, 2), hasCommits: booleanAt(row, 3) },
    ]),
  );
}

async function readKinds(
  engine: Engine,
  tableNames: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (tableNames.length === 0) return new Map();
  const rows = await engine.rows(selectKinds(tableNames));
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/**
 * Refuses a name that is taken. A dataset keeps its name while it has no table, and an operator may meanwhile have made a table of that
 * name. Such a table is never touched.
 *
 * @throws StorageError when a load would replace an object that this program did not make.
 */
export function refuseTakenName(
  datasetId: string,
  { tableName, live, isKept, existingObject }: Current,
): void {
  if (existingObject === null) return;
  if (existingObject === 'table' && (live !== null || isKept)) return;
  throw new StorageError(
    `The mirror has a ${existingObject} main.${tableName} that feed-sync did not make, under the name of the table of ${datasetId}.`,
    {
      code: 'dataset_storage_failed',
      hint: 'Rename or drop it; the next catch-up then loads the dataset. Until then it is left as it is.',
    },
  );
}

/** Returns the comments of a table that has none yet. */
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

/** Returns the statement for the comment of a table. `table` is the SQL of a dataset's table, in any schema. */
export function commentOnTable(table: string, datasetId: string): string {
  return `COMMENT ON TABLE ${table} IS ${text(`Dataset ${datasetId}`)}`;
}

/** Returns the statement for the comment of a column. A null comment removes the existing one. */
export function commentOnColumn(table: string, columnName: string, comment: string | null): string {
  return `COMMENT ON COLUMN ${table}.${identifier(columnName)} IS ${text(comment)}`;
}

export interface FoundTable {
  readonly rowCount: number;
  /** The highest row address, as text because a column of any type may hide the addresses; null for an empty table. */
  readonly highestAddress: string | null;
  /** The name and the type of each column, in order. */
  readonly columns: readonly (readonly [string, string])[];
}

/** Returns whether the rows have addresses. DuckDB addresses a row by the name `rowid`, unless a column hides it. */
export function hasAddresses({
  columns,
}: {
  readonly columns: readonly { readonly columnName: string }[];
}): boolean {
  return columns.every(({ columnName }) => columnName.toLowerCase() !== 'rowid');
}

/** Reads the tables, by name. @throws DuckDbError when a table is missing. */
export async function readFoundTables(
  engine: Engine,
  tableNames: readonly string[],
): Promise<ReadonlyMap<string, FoundTable>> {
  if (tableNames.length === 0) return new Map();
  const extents = await engine.rows(together(tableNames.map(selectExtent)));
  const columns = Map.groupBy(await engine.rows(together(tableNames.map(selectColumns))), (row) =>
    textAt(row, 0),
  );
  return new Map(
    extents.map((row) => {
      const tableName = textAt(row, 0);
      const listed = present(columns.get(tableName), 'every table has columns');
      const inOrder = listed.toSorted((left, right) => numberAt(left, 1) - numberAt(right, 1));
      const found = {
        rowCount: numberAt(row, 1),
        highestAddress: textOrNullAt(row, 2),
        columns: inOrder.map((column): [string, string] => [textAt(column, 2), textAt(column, 3)]),
      };
      return [tableName, found];
    }),
  );
}

function selectExtent(tableName: string): string {
  return `SELECT ${text(tableName)}, count(*), max(rowid)::VARCHAR FROM ${mirrored(tableName)}`;
}

function selectColumns(tableName: string): string {
  return `SELECT ${text(tableName)}, cid, name, type FROM pragma_table_info(${text(mirrored(tableName))})`;
}

function together(selects: readonly string[]): string {
  return selects.join(' UNION ALL ');
}
