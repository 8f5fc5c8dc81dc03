/**
 * The statements that apply a net change to a table, as text. Tables stand under aliases that no column can have, and
 * every column under one of them: what a service names its columns can mean nothing else.
 */

import { mirrored } from '../books/mirror-schema.ts';
import { identifier } from '../engine/quoting.ts';
import { DUCKDB_TYPES } from '../snapshot/casts.ts';
import { LOADING } from '../snapshot/load-sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { type NetChange, netColumn, netRows, PRESENT } from './net.ts';

const TABLE = identifier('feed-sync: table');
const NET = identifier('feed-sync: net');

/** For each row of the table that has a key of the net change: its address, its key, and whether it stays. */
const TOUCHED = `temp.${identifier('feed-sync: touched')}`;

/** A table and the net change for it. */
export interface Target {
  readonly tableName: string;
  readonly net: NetChange;
  /** Of the table afterwards, in the order of the net change. */
  readonly columns: readonly PlannedColumn[];
}

export function addColumn(tableName: string, { columnName, type }: PlannedColumn): string {
  return `ALTER TABLE ${mirrored(tableName)} ADD COLUMN ${identifier(columnName)} ${DUCKDB_TYPES[type]}`;
}

export function countRowsOf(tableName: string): string {
  return `SELECT count(*) FROM ${mirrored(tableName)}`;
}

/** Selects one row if the column of the table holds a value, else none. */
export function findFilled(tableName: string, columnName: string): string {
  return `SELECT 1 FROM ${mirrored(tableName)} AS ${TABLE} WHERE ${TABLE}.${identifier(columnName)} IS NOT NULL LIMIT 1`;
}

/** By a single scan of the key columns; what comes after it goes to the rows by their addresses. */
export function createTouched(target: Target): string {
  const keys = keyPositions(target).map((position) => `${NET}.${netColumn(position)}`);
  return `CREATE TEMP TABLE ${TOUCHED} AS SELECT ${TABLE}.rowid AS row_id, ${NET}.${PRESENT}, ${keys.join(', ')}
    FROM ${mirrored(target.tableName)} AS ${TABLE} JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)}`;
}

export function dropTouched(): string {
  return `DROP TABLE ${TOUCHED}`;
}

/**
 * One row, of a table that was edited: the touched rows, their different keys, and those of the rows that stay; the rows that were
 * put in after the address given, their different keys, and those without a null in it; all rows of the table.
 */
export function countEdited(target: Target, afterAddress: string | null): string {
  return `SELECT * FROM (${countsOfTouched(target, TOUCHED, '')}), (${countInserted(target, afterAddress)}),
    (${countRowsOf(target.tableName)})`;
}

/** One row: the same of the touched rows from the table itself, where rows cannot be addressed. */
export function countTouchedByKey(target: Target): string {
  const joined = `${mirrored(target.tableName)} AS ${TABLE} JOIN ${netRows(target.net)} AS ${NET} ON ${sameKey(target)}`;
  return countsOfTouched(target, joined, `${NET}.`);
}

function countsOfTouched(target: Target, from: string, qualifier: string): string {
  const keys = keyPositions(target).map((position) => `${qualifier}${netColumn(position)}`);
  return `SELECT count(*), count(DISTINCT ${together(keys)}), count(*) FILTER (${qualifier}${PRESENT}) FROM ${from}`;
}

export function deleteTouched({ tableName }: Target): string {
  return `DELETE FROM ${mirrored(tableName)} WHERE rowid IN (SELECT row_id FROM ${TOUCHED})`;
}

export function insertPresent({ tableName, net, columns }: Target): string {
  const names = columns.map(({ columnName }) => identifier(columnName));
  return `INSERT INTO ${mirrored(tableName)} (${names.join(', ')}) ${selectPresent({ net, columns })}`;
}

function selectPresent({ net, columns }: Pick<Target, 'net' | 'columns'>): string {
  const values = columns.map((_, position) => `${NET}.${netColumn(position)}`);
  return `SELECT ${values.join(', ')} FROM ${netRows(net)} AS ${NET} WHERE ${NET}.${PRESENT}`;
}

/** The whole table as it is afterwards, in the order of its columns, under the name of a table that is being loaded. */
export function createRewritten(target: Target, added: ReadonlySet<PlannedColumn>): string {
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

/** One row: all rows that have a key of the net change, their different keys, and those without a null in it. */
export function countWritten(target: Target): string {
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

/** DuckDB finds no two geometries equal in a join, without a word. */
function joinable(geometry: string): string {
  return `ST_AsWKB(${geometry})`;
}

function keyPositions({ columns }: Target): readonly number[] {
  return columns.flatMap(({ role }, position) => (role === 'key' ? [position] : []));
}

function together(values: readonly string[]): string {
  return values.length === 1 ? values.join('') : `(${values.join(', ')})`;
}
