/**
 * Writes a net change into a table and proves the result. Where the columns keep their order, one scan of the key columns finds
 * the addresses of the touched rows; these rows are deleted by address, and the new rows are inserted. Any other table is
 * rewritten. On 2 million rows with polygons this costs less than MERGE at 100, 10,000 and 500,000 keys, and about as much at
 * 100,000; the README has the numbers.
 *
 * Induction proves that the keys are unique: no key was repeated before (the load proved all keys, each commit those that it
 * touched), the keys of the net change are unique, every touched row is gone, and every row of the net change exists once.
 */

import { formatCount } from '../../lib/units.ts';
import type { Counts } from '../../model/records.ts';
import { type NetChange, netColumn, netRows, PRESENT } from '../../staging/changes/net-change.ts';
import { type Engine, type Row, runTogether } from '../../staging/engine/engine.ts';
import { identifier, numberAt } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { FoundTable, TableAfter } from './apply-changes.ts';
import { mirrored } from './catalog/schema.ts';
import { LOADING, swap } from './load-sql.ts';

export interface Written {
  /** The row count of the table afterwards. */
  readonly rowCount: number;
  /** Rows added, replaced and removed. Replacing a row by an equal one counts as a change. */
  readonly net: Counts;
}

/** The table differs from its recorded state, or from the expected result. The message names only the difference. */
export class UnprovenError extends Error {
  override readonly name = 'UnprovenError';
}

interface Before {
  readonly found: FoundTable;
  /** The recorded row count of the table. */
  readonly expectedBefore: number;
}

/** The rows of the table whose keys occur in the net change. */
interface Touched {
  readonly rows: number;
  /** The touched rows whose key has a row afterwards, too. */
  readonly replaced: number;
}

/** @throws UnprovenError */
export async function writeNet(
  engine: Engine,
  target: Target,
  alteration: TableAfter['alteration'],
  { found, expectedBefore }: Before,
): Promise<Written> {
  expect('rows', found.rowCount, expectedBefore);
  const { touched, rowCount } =
    alteration.kind === 'rewrite'
      ? await rewrite(engine, target, alteration.added)
      : await editRows(engine, target, alteration, found.highestAddress);
  const net = {
    added: target.net.rows - touched.replaced,
    changed: touched.replaced,
    removed: touched.rows - touched.replaced,
  };
  // The number of deleted rows equals the number of touched rows. The final count therefore proves the number of inserted rows.
  expect('rows afterwards', rowCount, found.rowCount + net.added - net.removed);
  return { rowCount, net };
}

interface Edited {
  readonly touched: Touched;
  /** The row count of the table afterwards. */
  readonly rowCount: number;
}

async function editRows(
  engine: Engine,
  target: Target,
  alteration: Exclude<TableAfter['alteration'], { kind: 'rewrite' }>,
  highestAddress: string | null,
): Promise<Edited> {
  const { tableName, net } = target;
  const added = alteration.kind === 'append' ? alteration.added : [];
  const additions = added.map((column) => addColumn(tableName, column));
  await runTogether(engine, [
    ...additions,
    createTouched(target),
    deleteTouched(target),
    ...(net.rows === 0 ? [] : [insertPresent(target)]),
  ]);
  const [row = []] = await engine.rows(countEdited(target, highestAddress));
  await engine.run(dropTouched());
  proveWritten(net, row.slice(3));
  return { touched: touchedFrom(row), rowCount: numberAt(row, 6) };
}

async function rewrite(engine: Engine, target: Target, added: ReadonlySet<PlannedColumn>): Promise<Edited> {
  const [counted = []] = await engine.rows(countTouchedByKey(target));
  const touched = touchedFrom(counted);
  await engine.run(createRewritten(target, added));
  for (const statement of swap(target.tableName, true)) await engine.run(statement);
  const [written = []] = await engine.rows(countWritten(target));
  proveWritten(target.net, written);
  const [all = []] = await engine.rows(countRowsOf(target.tableName));
  return { touched, rowCount: numberAt(all, 0) };
}

function touchedFrom(row: Row): Touched {
  const rows = numberAt(row, 0);
  expect('rows of the keys that are changed', rows, numberAt(row, 1));
  return { rows, replaced: numberAt(row, 2) };
}

/** Proves that each key with a row has exactly one, and that no part of a key is null. */
function proveWritten(net: NetChange, row: Row): void {
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

/** Lists each touched row: its address, its key, and whether a row with this key exists afterwards. */
const TOUCHED = `temp.${identifier('feed-sync: touched')}`;

/** A table and its net change. */
interface Target {
  readonly tableName: string;
  readonly net: NetChange;
  /** The columns of the table afterwards, in the order of the net change. */
  readonly columns: readonly PlannedColumn[];
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

/** A single scan of the key columns; the later statements address the rows directly. */
function createTouched(target: Target): string {
  const keys = keyPositions(target).map((position) => `${NET}.${netColumn(position)}`);
  return `CREATE TEMP TABLE ${TOUCHED} AS SELECT ${TABLE}.rowid AS row_id, ${NET}.${PRESENT}, ${keys.join(', ')}
    FROM ${mirrored(target.tableName)} AS ${TABLE} JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)}`;
}

function dropTouched(): string {
  return `DROP TABLE ${TOUCHED}`;
}

/**
 * Returns one row after an edit: the number of touched rows, of their distinct keys, and of those whose row stays; the number
 * of rows inserted after the given address, of their distinct keys, and of those without a null in the key; the row count of
 * the table.
 */
function countEdited(target: Target, afterAddress: string | null): string {
  return `SELECT * FROM (${countsOfTouched(target, TOUCHED, '')}), (${countInserted(target, afterAddress)}),
    (${countRowsOf(target.tableName)})`;
}

/** Returns the same counts of touched rows from the table itself, for a table whose rows have no address. */
function countTouchedByKey(target: Target): string {
  const joined = `${mirrored(target.tableName)} AS ${TABLE} JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)}`;
  return countsOfTouched(target, joined, `${NET}.`);
}

function countsOfTouched(target: Target, from: string, qualifier: string): string {
  const keys = keyPositions(target).map((position) => `${qualifier}${netColumn(position)}`);
  return `SELECT count(*), count(DISTINCT ${together(keys)}), count(*) FILTER (${qualifier}${PRESENT}) FROM ${from}`;
}

function deleteTouched({ tableName }: Target): string {
  return `DELETE FROM ${mirrored(tableName)} WHERE rowid IN (SELECT row_id FROM ${TOUCHED})`;
}

function insertPresent({ tableName, net, columns }: Target): string {
  const names = columns.map(({ columnName }) => identifier(columnName));
  return `INSERT INTO ${mirrored(tableName)} (${names.join(', ')}) ${selectPresent({ net, columns })}`;
}

function selectPresent({ net, columns }: Pick<Target, 'net' | 'columns'>): string {
  const values = columns.map((_, position) => `${NET}.${netColumn(position)}`);
  return `SELECT ${values.join(', ')} FROM ${netRows(net)} AS ${NET} WHERE ${NET}.${PRESENT}`;
}

/** Creates the complete new table, in the order of its columns, under the name of a table that is being loaded. */
function createRewritten(target: Target, added: ReadonlySet<PlannedColumn>): string {
  const values = target.columns.map((column) => {
    const name = identifier(column.columnName);
    return added.has(column) ? `NULL::${DUCKDB_TYPES[column.type]} AS ${name}` : `${TABLE}.${name}`;
  });
  return `CREATE TABLE ${LOADING} AS SELECT ${values.join(', ')} FROM ${mirrored(target.tableName)} AS ${TABLE}
    ANTI JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)} UNION ALL ${selectPresent(target)}`;
}

function countInserted(target: Target, afterAddress: string | null): string {
  const where = afterAddress === null ? '' : ` WHERE ${TABLE}.rowid > ${afterAddress}`;
  return `${selectWritten(target)}${where}`;
}

/**
 * Returns one row: the number of rows with a key of the net change, of their distinct keys, and of those without a null in the
 * key.
 */
function countWritten(target: Target): string {
  return `${selectWritten(target)} SEMI JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)}`;
}

function selectWritten(target: Target): string {
  const keys = keyPositions(target).map(
    (position) => `${TABLE}.${identifier(target.columns[position]?.columnName ?? '')}`,
  );
  const complete = keys.map((key) => `${key} IS NOT NULL`).join(' AND ');
  return `SELECT count(*), count(DISTINCT ${together(keys)}), count(*) FILTER (${complete})
    FROM ${mirrored(target.tableName)} AS ${TABLE}`;
}

function sameKey(target: Target): string {
  return keyPositions(target)
    .map((position) => {
      const { columnName = '', type } = target.columns[position] ?? {};
      const pair = [`${TABLE}.${identifier(columnName)}`, `${NET}.${netColumn(position)}`];
      return pair.map((value) => (type === 'geometry' ? joinable(value) : value)).join(' = ');
    })
    .join(' AND ');
}

/** In a join, DuckDB silently treats equal geometries as different. */
function joinable(geometry: string): string {
  return `ST_AsWKB(${geometry})`;
}

function keyPositions({ columns }: Target): readonly number[] {
  return columns.flatMap(({ role }, position) => (role === 'key' ? [position] : []));
}

function together(values: readonly string[]): string {
  return values.length === 1 ? values.join('') : `(${values.join(', ')})`;
}
