/**
 * The difference that a reload makes. By default the keys alone are compared, which shows how many rows are added and removed:
 * comparing whole rows costs as much as the load itself, the keys a tenth of it. Where history is kept the rows are compared.
 */

import { isDeepStrictEqual } from 'node:util';
import type { RowDifference } from '../../model/commits.ts';
import { TOO_LITTLE_MEMORY } from '../../model/lost-past.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { netColumn, PRESENT } from '../../staging/changes/columns.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../staging/engine/errors.ts';
import { bigintAt, identifier, type KeyPair, numberAt, sameKey } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { KeyStatements } from '../judge-commit.ts';
import { mirrored } from './catalog/schema.ts';
import { rowHash } from './checksum.ts';
import { selectLowestKeys } from './judge-net.ts';
import { LOADING } from './load-sql.ts';
import type { StagedContent } from './staged-content.ts';
import { type Current, hasAddresses } from './tables.ts';
import { ADDRESS, type NetRows, UnprovenError } from './write-net-change.ts';

/** The table of the dataset cannot be compared: it is damaged, or was changed by hand. The load replaces it all the same. */
export class IncomparableError extends Error {
  override readonly name = 'IncomparableError';
  readonly datasetId: string;
  /** The compared parts: whole rows need much more memory. */
  readonly compared: 'keys' | 'rows';
  override readonly cause: Error;

  constructor(datasetId: string, compared: 'keys' | 'rows', cause: Error) {
    super(cause.message);
    this.datasetId = datasetId;
    this.compared = compared;
    this.cause = cause;
  }
}

/**
 * Compares the loaded table with the live one. Returns null where there is none, or where their keys are not of the same columns.
 * `keyColumns` and `rowCount` are those of the loaded table, whose keys are proven.
 * @throws IncomparableError
 */
export async function differenceByKeys(
  engine: Engine,
  { live, existingObject }: Pick<Current, 'live' | 'existingObject'>,
  keyColumns: readonly PlannedColumn[],
  rowCount: number,
): Promise<RowDifference | null> {
  if (live === null || existingObject !== 'table' || keyColumns.length === 0) return null;
  const keys = keyColumns.map(({ columnName, type }) => [columnName, type]);
  const keysBefore = live.columns
    .filter(({ role }) => role === 'key')
    .map(({ columnName, type }) => [columnName, type]);
  if (!isDeepStrictEqual(keys, keysBefore)) return null;
  try {
    const [row = []] = await engine.rows(countKept(live.tableName, keyColumns));
    const [rowsBefore, kept] = [numberAt(row, 0), numberAt(row, 1)];
    return { added: rowCount - kept, changed: null, removed: Math.max(0, rowsBefore - kept) };
  } catch (error) {
    throw incomparable(live.datasetId, error, 'keys');
  }
}

/** Returns the error that an error met while comparing a table stands for. */
export function incomparable(datasetId: string, error: unknown, compared: 'keys' | 'rows' = 'rows'): unknown {
  const isOfTable = error instanceof DuckDbError && IS_OF_TABLE.has(error.fault);
  return isOfTable || error instanceof UnprovenError
    ? new IncomparableError(datasetId, compared, error)
    : error;
}

/** Says why the table was not compared; an undo log that is closed for it repeats this to readers. */
export function whyIncomparable(error: IncomparableError): string {
  return ranOutOfMemory(error) ? TOO_LITTLE_MEMORY : firstLine(error.cause);
}

/** Returns whether the comparison did not fit into the memory that DuckDB may use. */
export function ranOutOfMemory(error: unknown): boolean {
  const cause = error instanceof IncomparableError ? error.cause : null;
  return cause instanceof DuckDbError && cause.fault === 'out-of-memory';
}

const IS_OF_TABLE: ReadonlySet<DuckDbError['fault']> = new Set([
  'statement',
  'unreadable',
  'gave-up',
  'out-of-memory',
]);

/** A loaded table and the live one, whose keys are of the same columns. */
interface LoadedBesideLive {
  readonly live: ObservedTable;
  readonly keyColumns: readonly PlannedColumn[];
  /** The columns of the loaded table. */
  readonly columns: readonly PlannedColumn[];
}

/** Counts the rows that differ in a column that both tables have with the same type. */
export async function countChanged(engine: Engine, loaded: LoadedBesideLive): Promise<number> {
  const [row = []] = await engine.rows(`SELECT count(*) FROM ${changedRows(loaded)}`);
  return numberAt(row, 0);
}

/** Returns statements for `readShownKeys`. */
export function lowestKeysOfLoaded(loaded: LoadedBesideLive, comparesRows: boolean): KeyStatements {
  const { live, keyColumns } = loaded;
  const table = `${mirrored(live.tableName)} AS live`;
  const isSame = sameKey(keyPairs(keyColumns));
  const keysOf = (alias: string): readonly string[] =>
    keyColumns.map(({ columnName }) => `${alias}.${identifier(columnName)}`);
  return {
    added: selectLowestKeys(keysOf('loaded'), `${LOADING} AS loaded ANTI JOIN ${table} ON ${isSame}`),
    changed: comparesRows ? selectLowestKeys(keysOf('live'), changedRows(loaded)) : null,
    removed: selectLowestKeys(keysOf('live'), `${table} ANTI JOIN ${LOADING} AS loaded ON ${isSame}`),
  };
}

function changedRows({ live, keyColumns, columns }: LoadedBesideLive): string {
  const before = new Map(live.columns.map((column) => [column.name, column]));
  const differs = columns.flatMap(({ column, columnName, type }) => {
    const other = before.get(column.name);
    if (other?.type !== type) return [];
    return [`loaded.${identifier(columnName)} IS DISTINCT FROM live.${identifier(other.columnName)}`];
  });
  return `${LOADING} AS loaded JOIN ${mirrored(live.tableName)} AS live ON ${sameKey(keyPairs(keyColumns))}
    WHERE ${differs.join(' OR ')}`;
}

function keyPairs(keyColumns: readonly PlannedColumn[]): readonly KeyPair[] {
  return keyColumns.map(({ columnName, type }): KeyPair => {
    return [`loaded.${identifier(columnName)}`, `live.${identifier(columnName)}`, type];
  });
}

/** Returns one row: the number of rows of the live table, and of loaded rows whose key it has. */
function countKept(tableName: string, keyColumns: readonly PlannedColumn[]): string {
  return `SELECT (SELECT count(*) FROM ${mirrored(tableName)}),
    (SELECT count(*) FROM ${LOADING} AS loaded SEMI JOIN ${mirrored(tableName)} AS live ON ${sameKey(keyPairs(keyColumns))})`;
}

const DIFFERENCE = `temp.${identifier('feed-sync: difference')}`;

/**
 * Compares the staged content with the live table, value by value: DuckDB's hashes of texts and geometries are too weak to say that two
 * rows are equal. Returns the rows of the content that are new or differ, and the keys that the content lacks, as a net change of the
 * table, with the rows that the table has of these keys. `columns` are those of the table afterwards; a column that the table lacks is
 * null in all of its rows.
 * @throws DuckDbError
 */
export async function differenceFromStaged(
  engine: Engine,
  staged: StagedContent,
  live: ObservedTable,
  columns: readonly PlannedColumn[],
): Promise<NetRows> {
  await engine.runWithinReserve([createDifference(staged, live, columns)]);
  const hash = rowHash(columns.map((_, index) => netColumn(index)));
  const [row = []] = await engine.rows(
    `SELECT count(*) FILTER (${PRESENT}), count(*) FILTER (NOT ${PRESENT}),
      coalesce(sum(${hash}) FILTER (${PRESENT}), 0)::HUGEINT FROM ${DIFFERENCE}`,
  );
  return {
    from: DIFFERENCE,
    rows: numberAt(row, 0),
    removals: numberAt(row, 1),
    hashes: bigintAt(row, 2),
    touched: touchedRows(columns),
  };
}

export function dropDifference(): string {
  return `DROP TABLE ${DIFFERENCE}`;
}

/** Columns are renamed by position, because a column of the table may have any name. */
function createDifference(
  staged: StagedContent,
  { tableName, columns: before }: ObservedTable,
  columns: readonly PlannedColumn[],
): string {
  const known = new Set(before.map(({ columnName }) => columnName));
  const isKey = ({ role }: PlannedColumn): boolean => role === 'key';
  const content = staged.columns.map(({ columnName }, index) => `${identifier(columnName)} AS s${index}`);
  const live = columns.map(({ columnName, type }, index) => {
    const value = known.has(columnName) ? identifier(columnName) : `NULL::${DUCKDB_TYPES[type]}`;
    return `${value} AS l${index}`;
  });
  const values = columns.map((column, index) => {
    const value = isKey(column) ? `CASE WHEN is_staged THEN s${index} ELSE l${index} END` : `s${index}`;
    return `${value} AS ${netColumn(index)}`;
  });
  const differs = columns.map((_, index) => `s${index} IS DISTINCT FROM l${index}`);
  const keys = columns.flatMap((column, index): KeyPair[] => {
    return isKey(column) ? [[`s${index}`, `l${index}`, column.type]] : [];
  });
  const address = hasAddresses({ columns }) ? 'rowid' : 'NULL';
  return `CREATE TEMP TABLE ${DIFFERENCE} AS
    SELECT ${values.join(', ')}, is_staged IS NOT NULL AS ${PRESENT}, is_live, address, ${columns.map((_, index) => `l${index}`).join(', ')}
    FROM (SELECT ${content.join(', ')}, TRUE AS is_staged FROM ${staged.table}) AS staged
    FULL JOIN (SELECT ${live.join(', ')}, TRUE AS is_live, ${address} AS address FROM ${mirrored(tableName)}) AS live ON ${sameKey(keys)}
    WHERE ${differs.join(' OR ')}`;
}

/** Returns the rows of the table before as `touched` of a net change. */
function touchedRows(columns: readonly PlannedColumn[]): string {
  const values = columns.map(({ columnName }, index) => `l${index} AS ${identifier(columnName)}`);
  return `(SELECT ${values.join(', ')}, address AS ${ADDRESS} FROM ${DIFFERENCE} WHERE is_live)`;
}
