/**
 * Writes a net change into a table, proves the result, and returns the difference. Where the columns keep their order, one scan of
 * the table finds the addresses of the touched rows; these rows are deleted by address, and the new rows are inserted. A table of
 * which many rows are touched, or whose columns change their order, is written again. On 2 million rows
 * with polygons this costs less than MERGE at 100, 10,000 and 500,000 keys, and about as much at 100,000, and less than UPDATE at
 * 100 to 100,000 rows; the page `swap-or-in-place` of the decisions has the numbers.
 *
 * Induction proves that the keys are unique: no key was repeated before (the load proved all keys, each commit those that it
 * touched), the keys of the net change are unique, every touched row is gone, and every row of the net change exists once.
 */

import { present } from '../../lib/assert.ts';
import { formatCount } from '../../lib/units.ts';
import type { ShownKeys } from '../../model/gate.ts';
import type { Counts } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { netColumn, PRESENT } from '../../staging/changes/columns.ts';
import { type Engine, type Row, runTogether } from '../../staging/engine/engine.ts';
import { bigintAt, identifier, type KeyPair, numberAt, sameKey, tuple } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
import { mirrored } from './catalog/schema.ts';
import { CHECKSUM_VERSION, computeChecksum, rowHash, sumOfHashes } from './checksum.ts';
import { selectLowestKeys } from './judge-net.ts';
import { LOADING, swap } from './load-sql.ts';
import { keepsColumns, type TableAfter } from './table-after.ts';
import { type Current, type FoundTable, readFoundTables } from './tables.ts';

export interface Written {
  /** The row count of the table afterwards. */
  readonly rowCount: number;
  /** Rows added, changed and removed. A row that is replaced by an equal one is none of them. */
  readonly net: Counts;
  /** The checksum of the table afterwards. */
  readonly checksum: Checksum;
  /** True when the rows before were not those of the recorded checksum: somebody altered them. False where that was not compared. */
  readonly wereAltered: boolean;
}

/** The table differs from its recorded state, or from the expected result. The message names only the difference. */
export class UnprovenError extends Error {
  override readonly name = 'UnprovenError';
}

/** The table as recorded, and as it is. */
interface Before {
  readonly found: FoundTable;
  readonly recorded: { readonly rowCount: number; readonly checksum: Checksum | null };
  /** The columns before, of a table with an undo log whose rows are compared with the recorded checksum; null compares nothing. */
  readonly comparedColumns: readonly string[] | null;
  /**
   * The checksum afterwards: `kept-up` from the recorded one, or `computed` of all rows, because the table may have others than were
   * recorded; or the known one, where all rows were compared with content that has it.
   */
  readonly checksumAfter: 'kept-up' | 'computed' | Checksum;
}

/** Returns the table before, to be read whole: rows that were altered by hand must not go unnoticed. `isLogged`: in an undo log. */
export async function wholeBefore(
  engine: Engine,
  { tableName, columns }: ObservedTable,
  { checksum }: Current,
  { isLogged, checksumAfter }: Pick<Before, 'checksumAfter'> & { readonly isLogged: boolean },
): Promise<Before> {
  const found = present((await readFoundTables(engine, [tableName])).get(tableName), 'the table is there');
  return {
    found,
    recorded: { rowCount: found.rowCount, checksum },
    comparedColumns: isLogged ? columns.map(({ columnName }) => columnName) : null,
    checksumAfter,
  };
}

/** The rows of the table whose keys occur in the net change. */
interface Touched {
  readonly rows: number;
  /** The touched rows whose key has a row afterwards, too. */
  readonly replaced: number;
  /** The replaced rows whose new row differs. */
  readonly changed: number;
  /** The sum of the hashes of the touched rows. */
  readonly hashes: bigint;
}

/** Sees the difference while the touched rows are there as they were. */
interface DifferenceObserver {
  /** False: nothing reads the touched rows, so many of them need not be kept. */
  readonly readsRows: boolean;
  /** Returns statements that keep the difference. */
  readonly logEntries?: (rows: TouchedRows) => readonly string[];
  readonly onCounted?: (net: Counts, rows: TouchedRows) => Promise<void>;
}

/** Writes a net change. @throws UnprovenError */
export async function writeNet(
  engine: Engine,
  target: Target,
  alteration: TableAfter['alteration'],
  before: Before,
  observer: DifferenceObserver,
): Promise<Written> {
  const { found, recorded, checksumAfter } = before;
  expect('rows', found.rowCount, recorded.rowCount);
  const readBefore = await checksumBefore(engine, target, alteration, before);
  const { touched, rowCount, inserted } =
    alteration.kind === 'rewrite'
      ? await rewrite(engine, target, alteration.added, observer)
      : await editRows(engine, target, alteration, found, observer);
  const added = target.net.rows - touched.replaced;
  const removed = touched.rows - touched.replaced;
  const rows = touchedRows(target);
  await observer.onCounted?.({ added, changed: touched.changed, removed }, rows);
  await engine.runWithinReserve(observer.logEntries?.(rows) ?? []);
  await runTogether(engine, [drop(TOUCHED), drop(OLD)]);
  // The number of deleted rows equals the number of touched rows. The final count therefore proves the number of inserted rows.
  expect('rows afterwards', rowCount, found.rowCount + added - removed);
  if ((target.net.hashes ?? inserted.sum) !== inserted.sum) {
    throw new UnprovenError('its new rows are not those that were to be written');
  }
  const isKeptUp =
    checksumAfter === 'kept-up' &&
    keepsColumns(alteration) &&
    recorded.checksum?.version === inserted.version;
  const computed = () => computeChecksum(engine, mirrored(target.tableName), columnNames(target));
  const keptUp =
    isKeptUp && recorded.checksum !== null
      ? { ...inserted, sum: recorded.checksum.sum - touched.hashes + inserted.sum }
      : null;
  const checksum = typeof checksumAfter === 'object' ? checksumAfter : (keptUp ?? (await computed()));
  const edited = isKeptUp ? null : checksum.sum - inserted.sum + touched.hashes;
  const sumBefore = readBefore?.sum ?? (before.comparedColumns === null ? null : edited);
  const isComparable = sumBefore !== null && recorded.checksum?.version === checksum.version;
  const wereAltered = isComparable && sumBefore !== recorded.checksum?.sum;
  return { rowCount, net: { added, changed: touched.changed, removed }, checksum, wereAltered };
}

/** Null where the sum of the rows before follows from that of the rows afterwards, or is not needed. */
async function checksumBefore(
  engine: Engine,
  { tableName }: Target,
  alteration: TableAfter['alteration'],
  { comparedColumns }: Before,
): Promise<Checksum | null> {
  if (comparedColumns === null || keepsColumns(alteration)) return null;
  return await computeChecksum(engine, mirrored(tableName), comparedColumns);
}

interface Edited {
  readonly touched: Touched;
  /** The row count of the table afterwards. */
  readonly rowCount: number;
  /** The sum of the hashes of the rows of the net change. */
  readonly inserted: Checksum;
}

/**
 * Reading a row by its address takes as long as scanning this many rows. Fewer touched rows are found by a scan of the key columns
 * and returned by the statement that deletes them; more are compared by one scan of all columns.
 */
const ROWS_SCANNED_IN_TIME_OF_ONE = 500;

async function editRows(
  engine: Engine,
  target: Target,
  alteration: Exclude<TableAfter['alteration'], { kind: 'rewrite' }>,
  { rowCount, highestAddress }: FoundTable,
  { readsRows }: DifferenceObserver,
): Promise<Edited> {
  const { tableName, net } = target;
  const added = alteration.kind === 'append' ? alteration.added : [];
  const alter = added.map((column) => addColumn(tableName, column));
  const insert = net.rows === 0 ? [] : [insertPresent(target)];
  const areFew =
    net.touched === undefined && (net.rows + net.removals) * ROWS_SCANNED_IN_TIME_OF_ONE < rowCount;
  if (areFew) {
    await runTogether(engine, [...alter, createAddresses(target), createEmptyOld(target)]);
    await engine.moveRows(deleteTouchedReturning(target), OLD_NAME);
  } else {
    const keep = readsRows ? [createOld(target)] : [];
    const edit = [...alter, createTouched(target), ...keep, deleteTouched(target), ...insert];
    await engine.runWhileSpaceIsFree(edit.join(';\n'));
  }
  const touched = areFew ? `(${compareRows(target, OLD)})` : TOUCHED;
  const rest = [...(areFew ? insert : []), countEdited(target, touched, highestAddress)];
  // The rows are those of the last statement.
  const [row = []] = await engine.rows(rest.join(';\n'));
  proveWritten(net, row.slice(5));
  return { touched: touchedFrom(row), rowCount: numberAt(row, 10), inserted: checksumAt(row, 8) };
}

async function rewrite(
  engine: Engine,
  target: Target,
  added: ReadonlySet<PlannedColumn>,
  { readsRows }: DifferenceObserver,
): Promise<Edited> {
  const { touched: known } = target.net;
  if (readsRows)
    await engine.runWhileSpaceIsFree(known === undefined ? createOldByKey(target, added) : createOld(target));
  const before = readsRows
    ? OLD
    : (known ?? `(SELECT ${valuesBefore(target, added)} FROM ${mirrored(target.tableName)} AS ${TABLE})`);
  const [counted = []] = await engine.rows(countTouched(target, `(${compareRows(target, before)})`));
  const touched = touchedFrom(counted);
  await engine.runWhileSpaceIsFree(createRewritten(target, added));
  for (const statement of swap(target.tableName, true)) await engine.run(statement);
  const [written = []] = await engine.rows(countWritten(target));
  proveWritten(target.net, written);
  const [all = []] = await engine.rows(countRowsOf(target.tableName));
  return { touched, rowCount: numberAt(all, 0), inserted: checksumAt(written, 3) };
}

function touchedFrom(row: Row): Touched {
  const rows = numberAt(row, 0);
  expect('rows of the keys that are changed', rows, numberAt(row, 1));
  return { rows, replaced: numberAt(row, 2), changed: numberAt(row, 3), hashes: bigintAt(row, 4) };
}

/** Proves that each key with a row has exactly one, and that no part of a key is null. */
function proveWritten(net: NetRows, row: Row): void {
  expect('new rows', numberAt(row, 0), net.rows);
  expect('keys in the new rows', numberAt(row, 1), net.rows);
  expect('new rows with a whole key', numberAt(row, 2), net.rows);
}

function expect(what: string, found: number, expected: number): void {
  if (found === expected) return;
  throw new UnprovenError(`it has ${formatCount(found)} ${what}, and not ${formatCount(expected)}`);
}

const TABLE = identifier('feed-sync: table');
const NET = identifier('feed-sync: net');

/** The addresses of the touched rows; of many, also the comparison with the new rows. */
const TOUCHED = `temp.${identifier('feed-sync: touched')}`;

/** The touched rows as they were: few, or those that an observer reads. */
const OLD_NAME = 'feed-sync: old';
const OLD = `temp.${identifier(OLD_NAME)}`;

/** The rows of a net change, wherever they come from. */
export interface NetRows {
  /** SQL for use after FROM with an alias: the columns `c0`, `c1`, … with the types of the mirror, then `present`. */
  readonly from: string;
  /** The number of keys with a row afterwards. */
  readonly rows: number;
  /** The number of keys without a row afterwards. */
  readonly removals: number;
  /** The sum of the hashes of the rows afterwards, where it is known. */
  readonly hashes?: bigint;
  /**
   * The rows of the table with these keys, where they were read already: SQL for use after FROM with an alias. Their columns are those of
   * the table afterwards, and `ADDRESS`.
   */
  readonly touched?: string;
}

/** The address of a row in `touched`. No column of a dataset has this name. */
export const ADDRESS = identifier('feed-sync: address');

/** A table and its net change. */
export interface Target {
  readonly tableName: string;
  readonly net: NetRows;
  /** The columns of the table afterwards, in the order of the net change. */
  readonly columns: readonly PlannedColumn[];
}

/** The rows that a commit touches, as SQL. */
export interface LoggedRows {
  /** The names of the table's columns, in order. */
  readonly columns: readonly string[];
  /** Selects those columns as they were of every row that is removed or changed, after its operation. */
  readonly selectOld: string;
  /** Selects the same of every row that is added: its key; all other values are null. */
  readonly selectAdded: string;
}

/** The rows that a commit touches: for the undo log, and for the gate. */
export interface TouchedRows extends LoggedRows {
  /** Selects the number of rows that differ in one of these columns. */
  readonly countChangedIn: (columnNames: ReadonlySet<string>) => string;
  /** For `readShownKeys`; a row is changed where it differs in one of these columns. */
  readonly selectKeys: (columnNames: ReadonlySet<string>) => Readonly<Record<keyof ShownKeys, string>>;
}

function touchedRows(target: Target): TouchedRows {
  const columns = columnNames(target);
  const old = columns.map((column) => `${TABLE}.${identifier(column)}`);
  const keys = keyPositions(target);
  const added = target.columns.map(({ type }, position) =>
    keys.includes(position) ? `${NET}.${netColumn(position)}` : `NULL::${DUCKDB_TYPES[type]}`,
  );
  return {
    columns,
    selectOld: `SELECT CASE WHEN ${NET}.${PRESENT} THEN 'changed' ELSE 'removed' END, ${old.join(', ')}
      FROM ${OLD} AS ${TABLE} JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}
      WHERE NOT ${NET}.${PRESENT} OR ${differs(target)}`,
    selectAdded: `SELECT 'added', ${added.join(', ')}
      FROM ${target.net.from} AS ${NET} ANTI JOIN ${OLD} AS ${TABLE} ON ${isSameKey(target)} WHERE ${NET}.${PRESENT}`,
    countChangedIn: (columnNames) => `SELECT count(*) FROM ${changedIn(target, columnNames)}`,
    selectKeys: (columnNames) => {
      const added = keys.map((position) => `${NET}.${netColumn(position)}`);
      const before = keys.map((position) => `${TABLE}.${columnAt(target, position)}`);
      const isAdded = `${target.net.from} AS ${NET} ANTI JOIN ${OLD} AS ${TABLE} ON ${isSameKey(target)} WHERE ${NET}.${PRESENT}`;
      const isRemoved = `${OLD} AS ${TABLE} JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)} WHERE NOT ${NET}.${PRESENT}`;
      return {
        added: selectLowestKeys(added, isAdded),
        changed: selectLowestKeys(before, changedIn(target, columnNames)),
        removed: selectLowestKeys(before, isRemoved),
      };
    },
  };
}

function changedIn(target: Target, columnNames: ReadonlySet<string>): string {
  return `${OLD} AS ${TABLE} JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}
    WHERE ${NET}.${PRESENT} AND ${differs(target, columnNames)}`;
}

/** True when the new row of a key differs from the one before, in any column or in one of these. */
function differs(target: Target, columnNames: ReadonlySet<string> | null = null): string {
  const columns = target.columns.flatMap(({ columnName }, position) =>
    columnNames?.has(columnName) === false
      ? []
      : [`${TABLE}.${columnAt(target, position)} IS DISTINCT FROM ${NET}.${netColumn(position)}`],
  );
  return columns.length === 0 ? 'FALSE' : `(${columns.join(' OR ')})`;
}

function addColumn(tableName: string, { columnName, type }: PlannedColumn): string {
  return `ALTER TABLE ${mirrored(tableName)} ADD COLUMN ${identifier(columnName)} ${DUCKDB_TYPES[type]}`;
}

function countRowsOf(tableName: string): string {
  return `SELECT count(*) FROM ${mirrored(tableName)}`;
}

/** Selects one row if the column holds a value, else none. */
export function findFilled(tableName: string, columnName: string): string {
  return `SELECT 1 FROM ${mirrored(tableName)} AS ${TABLE} WHERE ${TABLE}.${identifier(columnName)} IS NOT NULL LIMIT 1`;
}

/** Scans the key columns only. */
function createAddresses(target: Target): string {
  return `CREATE TEMP TABLE ${TOUCHED} AS SELECT ${TABLE}.rowid AS row_id
    FROM ${mirrored(target.tableName)} AS ${TABLE} JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}`;
}

function createTouched(target: Target): string {
  const { touched } = target.net;
  const address = touched === undefined ? 'rowid' : ADDRESS;
  return `CREATE TEMP TABLE ${TOUCHED} AS ${compareRows(target, touched ?? mirrored(target.tableName), [`${TABLE}.${address} AS row_id`])}`;
}

/**
 * Selects one row for each touched row: its key, whether the key has a row afterwards, whether that row differs, and the hash of the
 * touched row. `rows` are the rows of the table before, for use after FROM with an alias.
 */
function compareRows(target: Target, rows: string, further: readonly string[] = []): string {
  const keys = keyPositions(target).map(
    (position, index) => `${TABLE}.${columnAt(target, position)} AS k${index}`,
  );
  const hashed = target.columns.map((_, position) => `${TABLE}.${columnAt(target, position)}`);
  const compared = [
    `${NET}.${PRESENT} AS is_replaced`,
    `${NET}.${PRESENT} AND ${differs(target)} AS is_changed`,
    `${rowHash(hashed)} AS row_hash`,
  ];
  return `SELECT ${[...further, ...keys, ...compared].join(', ')}
    FROM ${rows} AS ${TABLE} JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}`;
}

const IS_TOUCHED = `rowid IN (SELECT row_id FROM ${TOUCHED})`;

function createOld(target: Target): string {
  const { touched } = target.net;
  const rows =
    touched === undefined
      ? `${selectOld(target)} WHERE ${IS_TOUCHED}`
      : `SELECT ${nameList(target)} FROM ${touched}`;
  return `CREATE TEMP TABLE ${OLD} AS ${rows}`;
}

function createEmptyOld(target: Target): string {
  return `CREATE TEMP TABLE ${OLD} AS ${selectOld(target)} LIMIT 0`;
}

function selectOld(target: Target): string {
  return `SELECT ${nameList(target)} FROM ${mirrored(target.tableName)}`;
}

/** For a table whose rows have no address, or that lacks the columns in `added`. */
function createOldByKey(target: Target, added: ReadonlySet<PlannedColumn>): string {
  return `CREATE TEMP TABLE ${OLD} AS SELECT ${valuesBefore(target, added)} FROM ${mirrored(target.tableName)} AS ${TABLE}
    SEMI JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}`;
}

function deleteTouched({ tableName }: Target): string {
  return `DELETE FROM ${mirrored(tableName)} WHERE ${IS_TOUCHED}`;
}

function deleteTouchedReturning(target: Target): string {
  return `${deleteTouched(target)} RETURNING ${nameList(target)}`;
}

function drop(table: string): string {
  return `DROP TABLE IF EXISTS ${table}`;
}

/**
 * Returns one row after an edit: the counts of touched rows; the number of rows inserted after the given address, of their distinct
 * keys, and of those without a null in the key; the checksum of the inserted rows; the row count of the table.
 */
function countEdited(target: Target, touched: string, afterAddress: string | null): string {
  return `SELECT * FROM (${countTouched(target, touched)}), (${countInserted(target, afterAddress)}),
    (${countRowsOf(target.tableName)})`;
}

/**
 * Returns one row: the number of touched rows, of their distinct keys, of those whose key has a row afterwards, and of those whose
 * new row differs; the sum of their hashes. `touched` are the rows of `compareRows`.
 */
function countTouched(target: Target, touched: string): string {
  const keys = keyPositions(target).map((_, index) => `k${index}`);
  return `SELECT count(*), count(DISTINCT ${tuple(keys)}), count(*) FILTER (is_replaced),
      count(*) FILTER (is_changed), coalesce(sum(row_hash), 0)::HUGEINT FROM ${touched}`;
}

function insertPresent(target: Target): string {
  return `INSERT INTO ${mirrored(target.tableName)} (${nameList(target)}) ${selectPresent(target)}`;
}

function selectPresent({ net, columns }: Pick<Target, 'net' | 'columns'>): string {
  const values = columns.map((_, position) => `${NET}.${netColumn(position)}`);
  return `SELECT ${values.join(', ')} FROM ${net.from} AS ${NET} WHERE ${NET}.${PRESENT}`;
}

/** Creates the complete new table, in the order of its columns, under the name of a table that is being loaded. */
function createRewritten(target: Target, added: ReadonlySet<PlannedColumn>): string {
  return `CREATE TABLE ${LOADING} AS SELECT ${valuesBefore(target, added)} FROM ${mirrored(target.tableName)} AS ${TABLE}
    ANTI JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)} UNION ALL ${selectPresent(target)}`;
}

/** The columns afterwards, as the table has them before. */
function valuesBefore({ columns }: Target, added: ReadonlySet<PlannedColumn>): string {
  const values = columns.map((column) => {
    const name = identifier(column.columnName);
    return added.has(column) ? `NULL::${DUCKDB_TYPES[column.type]} AS ${name}` : `${TABLE}.${name}`;
  });
  return values.join(', ');
}

function countInserted(target: Target, afterAddress: string | null): string {
  const where = afterAddress === null ? '' : ` WHERE ${TABLE}.rowid > ${afterAddress}`;
  return `${selectWritten(target)}${where}`;
}

/**
 * Returns one row: the number of rows with a key of the net change, of their distinct keys, and of those without a null in the
 * key; their checksum.
 */
function countWritten(target: Target): string {
  return `${selectWritten(target)} SEMI JOIN ${target.net.from} AS ${NET} ON ${isSameKey(target)}`;
}

function selectWritten(target: Target): string {
  const keys = keyPositions(target).map((position) => `${TABLE}.${columnAt(target, position)}`);
  const complete = keys.map((key) => `${key} IS NOT NULL`).join(' AND ');
  const counts = ['count(*)', `count(DISTINCT ${tuple(keys)})`, `count(*) FILTER (${complete})`];
  const hashed = target.columns.map((_, position) => `${TABLE}.${columnAt(target, position)}`);
  return `SELECT ${[...counts, sumOfHashes(hashed), CHECKSUM_VERSION].join(', ')} FROM ${mirrored(target.tableName)} AS ${TABLE}`;
}

function isSameKey(target: Target): string {
  const pairs = target.columns.flatMap(({ role, type }, position): KeyPair[] => {
    return role === 'key'
      ? [[`${TABLE}.${columnAt(target, position)}`, `${NET}.${netColumn(position)}`, type]]
      : [];
  });
  return sameKey(pairs);
}

function columnAt({ columns }: Target, position: number): string {
  return identifier(columns[position]?.columnName ?? '');
}

function columnNames({ columns }: Target): readonly string[] {
  return columns.map(({ columnName }) => columnName);
}

function nameList(target: Target): string {
  return columnNames(target).map(identifier).join(', ');
}

function keyPositions({ columns }: Target): readonly number[] {
  return columns.flatMap(({ role }, position) => (role === 'key' ? [position] : []));
}
