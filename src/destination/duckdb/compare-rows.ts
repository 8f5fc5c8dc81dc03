/**
 * Compares rows by two hashes of all their values, as multisets: neither a key that is repeated nor a table without keys is in the
 * way. The hashes and the keys of both sides lie in temporary tables, so that the sides need not be read at the same time, and
 * everything else is computed from these.
 *
 * A row of the table that the content lacks is *wrong*; a row of the content that the table lacks is *missing*. A wrong and a missing
 * row of one key are a changed row.
 */

import type { RowDifference } from '../../model/commits.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { netColumn } from '../../staging/changes/columns.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier, type KeyPair, numberAt, sameKey, tuple } from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import { MAX_SHOWN_VALUE } from '../../staging/snapshot/scan-sql.ts';
import type { ContentRows, ExpectedRows } from '../../staging/version-content.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
import { shownKeyAt } from '../catalog/columns.ts';
import type { ChangedKey, ShownKey, ShownKeys } from '../comparer.ts';
import { mirrored } from './catalog/schema.ts';
import { CHECKSUM_VERSION, sumOfTwoHashes, twoHashes } from './checksum.ts';
import { hasAddresses } from './tables.ts';
import type { LoggedRows } from './write-net-change.ts';

/** `row_id`, `h`, `k0`, `k1`, … of the rows of the table. */
const ACTUAL = `temp.${identifier('feed-sync: actual rows')}`;
/** `h`, `k0`, `k1`, … of the rows of the content. */
const EXPECTED = `temp.${identifier('feed-sync: expected rows')}`;
/** `h`, `expected`, `actual`: the hashes that do not occur equally often on both sides. */
const DIFFERING = `temp.${identifier('feed-sync: differing rows')}`;
/** `row_id`, `h`, `k0`, `k1`, … of the rows of the table that the content lacks. */
export const WRONG = `temp.${identifier('feed-sync: wrong rows')}`;
/** `h`, `k0`, `k1`, … of the rows of the content that the table lacks. */
export const MISSING = `temp.${identifier('feed-sync: missing rows')}`;

type ComparedTable = Pick<ObservedTable, 'columns' | 'tableName'>;

function keysOf({ columns }: ComparedTable): readonly number[] {
  return columns.flatMap(({ role }, position) => (role === 'key' ? [position] : []));
}

export function dropCompared(): readonly string[] {
  const all = [ACTUAL, EXPECTED, DIFFERING, WRONG, MISSING, SHOWN, SHOWN_ACTUAL, SHOWN_EXPECTED];
  return all.map((table) => `DROP TABLE IF EXISTS ${table}`);
}

function keyNames(table: ComparedTable): readonly string[] {
  return keysOf(table).map((_, index) => `k${index}`);
}

/** Returns the statement that hashes the content. */
export function createExpected(table: ComparedTable, { select }: ContentRows): string {
  const keys = keysOf(table).map((position, index) => `${netColumn(position)} AS k${index}`);
  return `CREATE TEMP TABLE ${EXPECTED} AS SELECT ${[`${hashesOfContent(table)} AS h`, ...keys].join(', ')}
    FROM (${select}) AS content`;
}

export function createActual(table: ComparedTable): string {
  const keys = keysOf(table).map(
    (position, index) => `k${index} ${DUCKDB_TYPES[table.columns[position]?.type ?? 'string']}`,
  );
  return `CREATE TEMP TABLE ${ACTUAL} (${['row_id BIGINT', 'h UHUGEINT', ...keys].join(', ')})`;
}

/** Addresses of rows, the first and the one after the last. */
export interface RowRange {
  readonly from: number;
  readonly to: number;
}

/** Returns the statement that hashes rows of the table; `source` is its SQL. Null: all rows. */
export function insertActual(table: ComparedTable, source: string, range: RowRange | null): string {
  const columns = table.columns.map(({ columnName }) => identifier(columnName));
  const keys = keysOf(table).map((position) => columns[position] ?? '');
  const address = hasAddresses(table) ? 'rowid' : 'NULL';
  const where = range === null ? '' : ` WHERE rowid >= ${range.from} AND rowid < ${range.to}`;
  const hashed = table.columns.map(({ columnName, type }) => ({ sql: identifier(columnName), type }));
  return `INSERT INTO ${ACTUAL} SELECT ${[address, twoHashes(hashed), ...keys].join(', ')} FROM ${source}${where}`;
}

function hashesOfContent({ columns }: ComparedTable): string {
  return twoHashes(columns.map(({ type }, position) => ({ sql: netColumn(position), type })));
}

export async function countExpected(engine: Engine, table: ComparedTable): Promise<ExpectedRows> {
  const names = keyNames(table);
  const whole = names.map((name) => `${name} IS NOT NULL`).join(' AND ');
  const counts =
    names.length === 0
      ? ['count(*)', 'count(*)', 'count(*)']
      : ['count(*)', `count(*) FILTER (${whole})`, `count(DISTINCT ${tuple(names)})`];
  const [row = []] = await engine.rows(`SELECT ${counts.join(', ')} FROM ${EXPECTED}`);
  return { rowCount: numberAt(row, 0), keyedRows: numberAt(row, 1), keys: numberAt(row, 2) };
}

export interface ComparedRows {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

export function countActual(engine: Engine): Promise<ComparedRows> {
  return countSide(engine, ACTUAL);
}

export function expectedChecksum(engine: Engine): Promise<ComparedRows> {
  return countSide(engine, EXPECTED);
}

async function countSide(engine: Engine, side: string): Promise<ComparedRows> {
  const [row = []] = await engine.rows(
    `SELECT count(*), ${sumOfTwoHashes('h')}, ${CHECKSUM_VERSION} FROM ${side}`,
  );
  return { rowCount: numberAt(row, 0), checksum: checksumAt(row, 1) };
}

/** Finds the wrong and the missing rows. Returns null where there are none. */
export async function findDifference(engine: Engine, table: ComparedTable): Promise<RowDifference | null> {
  const names = keyNames(table);
  const each = (side: string, expected: number) =>
    `SELECT h, ${expected} AS expected, ${1 - expected} AS actual FROM ${side}`;
  await engine.runWhileSpaceIsFree(`CREATE TEMP TABLE ${DIFFERING} AS
    SELECT h, sum(expected)::BIGINT AS expected, sum(actual)::BIGINT AS actual
    FROM (${each(EXPECTED, 1)} UNION ALL ${each(ACTUAL, 0)}) GROUP BY h HAVING sum(expected) <> sum(actual)`);
  const inOrder = `row_number() OVER (PARTITION BY side.h)`;
  await engine.runWhileSpaceIsFree(`CREATE TEMP TABLE ${WRONG} AS
    SELECT ${['row_id', 'side.h', ...names].join(', ')} FROM ${ACTUAL} AS side JOIN ${DIFFERING} AS differing USING (h)
    WHERE actual > expected QUALIFY ${inOrder} > expected`);
  await engine.runWhileSpaceIsFree(`CREATE TEMP TABLE ${MISSING} AS
    SELECT ${['side.h', ...names].join(', ')} FROM ${EXPECTED} AS side JOIN ${DIFFERING} AS differing USING (h)
    WHERE expected > actual QUALIFY ${inOrder} > actual`);
  const changed =
    names.length === 0
      ? 'NULL'
      : `(SELECT count(*) FROM ${MISSING} AS missing SEMI JOIN ${WRONG} AS wrong ON ${sameKeys(table)})`;
  const [row = []] = await engine.rows(
    `SELECT (SELECT count(*) FROM ${WRONG}), (SELECT count(*) FROM ${MISSING}), ${changed}`,
  );
  const [wrong, missing] = [numberAt(row, 0), numberAt(row, 1)];
  if (wrong + missing === 0) return null;
  if (names.length === 0) return { added: missing, changed: null, removed: wrong };
  const both = numberAt(row, 2);
  return { added: missing - both, changed: both, removed: wrong - both };
}

function sameKeys(table: ComparedTable): string {
  const pairs = keysOf(table).map((position, index): KeyPair => {
    return [`missing.k${index}`, `wrong.k${index}`, table.columns[position]?.type ?? 'string'];
  });
  return sameKey(pairs);
}

/** The most keys of each kind that are shown. */
const MAX_SHOWN_KEYS = 5;

/** `k0`, `k1`, … of the changed rows that are shown. */
const SHOWN = `temp.${identifier('feed-sync: shown keys')}`;
/** `c0`, `c1`, … of these rows in the table and in the content. */
const SHOWN_ACTUAL = `temp.${identifier('feed-sync: shown rows of the table')}`;
const SHOWN_EXPECTED = `temp.${identifier('feed-sync: shown rows of the content')}`;

/**
 * Shows some keys of each kind; none of a table without keys. `whileOpen` runs a statement that reads the table, whose SQL is
 * `source`.
 */
export async function showKeys(
  engine: Engine,
  table: ComparedTable,
  content: ContentRows,
  source: string,
  whileOpen: (statement: string) => Promise<void>,
): Promise<ShownKeys> {
  if (keysOf(table).length === 0) return { added: [], changed: [], removed: [] };
  const isBoth = `ON ${sameKeys(table)}`;
  const names = keyNames(table).map((name) => `missing.${name}`);
  await engine.run(
    `CREATE TEMP TABLE ${SHOWN} AS SELECT ${names.join(', ')}
      FROM ${MISSING} AS missing SEMI JOIN ${WRONG} AS wrong ${isBoth} ORDER BY ALL LIMIT ${MAX_SHOWN_KEYS}`,
  );
  const columns = table.columns.map(({ columnName }) => `side.${identifier(columnName)}`);
  await whileOpen(createShown(table, SHOWN_ACTUAL, source, columns));
  const own = table.columns.map((_, position) => `side.${netColumn(position)}`);
  await engine.run(createShown(table, SHOWN_EXPECTED, `(${content.select})`, own));
  return {
    added: await readKeys(
      engine,
      table,
      'missing',
      `${MISSING} AS missing ANTI JOIN ${WRONG} AS wrong ${isBoth}`,
    ),
    changed: await readChanged(engine, table),
    removed: await readKeys(
      engine,
      table,
      'wrong',
      `${WRONG} AS wrong ANTI JOIN ${MISSING} AS missing ${isBoth}`,
    ),
  };
}

/** `columns` are the SQL of the table's columns in `source`, with the alias `side`. */
function createShown(
  table: ComparedTable,
  target: string,
  source: string,
  columns: readonly string[],
): string {
  const values = columns.map((column, position) => `${column} AS ${netColumn(position)}`);
  const pairs = keysOf(table).map((position, index): KeyPair => {
    return [columns[position] ?? '', `shown.k${index}`, table.columns[position]?.type ?? 'string'];
  });
  return `CREATE TEMP TABLE ${target} AS SELECT ${values.join(', ')} FROM ${source} AS side
    SEMI JOIN ${SHOWN} AS shown ON ${sameKey(pairs)}`;
}

async function readChanged(engine: Engine, table: ComparedTable): Promise<readonly ChangedKey[]> {
  const pairs = keysOf(table).map((position): KeyPair => {
    const name = netColumn(position);
    return [`actual.${name}`, `expected.${name}`, table.columns[position]?.type ?? 'string'];
  });
  const keys = keysOf(table).map(
    (position) => `left(expected.${netColumn(position)}::VARCHAR, ${MAX_SHOWN_VALUE})`,
  );
  const differs = table.columns.map((_, position) => {
    return `bool_or(actual.${netColumn(position)} IS DISTINCT FROM expected.${netColumn(position)})`;
  });
  const rows = await engine.rows(`SELECT ${[...keys, ...differs].join(', ')}
    FROM ${SHOWN_ACTUAL} AS actual JOIN ${SHOWN_EXPECTED} AS expected ON ${sameKey(pairs)}
    GROUP BY ${keys.join(', ')} ORDER BY ALL`);
  return rows.map((row) => ({
    key: shownKeyAt(row, table.columns),
    columns: table.columns.flatMap(({ columnName }, position) =>
      row[keys.length + position] === true ? columnName : [],
    ),
  }));
}

async function readKeys(
  engine: Engine,
  table: ComparedTable,
  relation: string,
  from: string,
): Promise<readonly ShownKey[]> {
  const keys = keyNames(table).map((name) => `left(${relation}.${name}::VARCHAR, ${MAX_SHOWN_VALUE})`);
  const rows = await engine.rows(
    `SELECT ${keys.join(', ')} FROM ${from} ORDER BY ALL LIMIT ${MAX_SHOWN_KEYS}`,
  );
  return rows.map((row) => shownKeyAt(row, table.columns));
}

/** Returns a query for the whole rows of the content that the table lacks, as `c0`, `c1`, … */
export function selectMissing(table: ComparedTable, { select }: ContentRows): string {
  const columns = table.columns.map((_, position) => netColumn(position));
  const hash = hashesOfContent(table);
  const copies = `SELECT h, count(*) AS copies FROM ${MISSING} GROUP BY h`;
  return `SELECT ${columns.join(', ')} FROM (SELECT content.*, ${hash} AS h FROM (${select}) AS content) AS content
    JOIN (${copies}) AS missing USING (h) QUALIFY row_number() OVER (PARTITION BY h) <= copies`;
}

/** Returns what an undo log keeps of a repair. The keys of the table are unique. */
export function touchedBy(table: ObservedTable): LoggedRows {
  const columns = table.columns.map(({ columnName }) => columnName);
  const old = columns.map((column) => `live.${identifier(column)}`);
  const keys = keysOf(table);
  const pairs = keys.map((position, index): KeyPair => {
    return [old[position] ?? '', `wrong.k${index}`, table.columns[position]?.type ?? 'string'];
  });
  const added = table.columns.map(({ type }, position) => {
    const index = keys.indexOf(position);
    return index < 0 ? `NULL::${DUCKDB_TYPES[type]}` : `missing.k${index}`;
  });
  const isBoth = sameKeys(table);
  return {
    columns,
    selectOld: `SELECT CASE WHEN is_missing THEN 'changed' ELSE 'removed' END, ${old.join(', ')}
      FROM ${mirrored(table.tableName)} AS live JOIN (
        SELECT wrong.*, EXISTS (SELECT 1 FROM ${MISSING} AS missing WHERE ${isBoth}) AS is_missing FROM ${WRONG} AS wrong
      ) AS wrong ON ${sameKey(pairs)}`,
    selectAdded: `SELECT 'added', ${added.join(', ')} FROM ${MISSING} AS missing ANTI JOIN ${WRONG} AS wrong ON ${isBoth}`,
  };
}
