/**
 * The earlier formats of the schema `feed_sync`, as text: how they are read as if they were the newest one, and
 * how a mirror is migrated. Format 1 lacks stored progress, and columns of `datasets` and `reloads`.
 */

import { text } from '../engine/quoting.ts';
import {
  type BookTable,
  book,
  bookColumns,
  createBook,
  FORMAT_VERSION,
  META_FORMAT_VERSION,
} from './mirror-schema.ts';

const OLDEST_FORMAT = 1;

/** The tables that format 2 brought. */
const NEW_TABLES = ['subscriptions', 'members', 'owed'] as const satisfies readonly BookTable[];

/** The columns that format 2 brought, each with the value that rows of format 1 get, as SQL. */
const NEW_COLUMNS: Partial<Readonly<Record<BookTable, Readonly<Record<string, string>>>>> = {
  datasets: { digest_kind: 'NULL', loaded_through: 'NULL', loaded_at: 'NULL' },
  reloads: { log_number: '1', created_at: 'NULL' },
};

/** What format 2 brought to the history, null in earlier rows. */
const ADDED_TO_HISTORY = bookColumns('history').filter(
  ([name]) => name === 'service_time' || name === 'approved',
);

/** Whether this program can read it. */
export function isKnownFormat(format: number): boolean {
  return Number.isInteger(format) && format >= OLDEST_FORMAT && format <= FORMAT_VERSION;
}

/** A table of a mirror of a known format, for use after FROM: it has the columns of the newest format. */
export function bookOf(format: number, table: BookTable): string {
  if (format === FORMAT_VERSION || NEW_COLUMNS[table] === undefined) return book(table);
  return `(${selectAsNewest(table)}) AS earlier`;
}

/** Whether mirrors of this format have the tables of stored progress. */
export function storesProgress(format: number): boolean {
  return format > OLDEST_FORMAT;
}

/** Statements for one transaction. None where the mirror has the newest format. */
export function migrate(format: number): readonly string[] {
  if (format === FORMAT_VERSION) return [];
  const extended = (Object.keys(NEW_COLUMNS) as BookTable[]).map(
    (table) => `CREATE OR REPLACE TABLE ${book(table)} AS ${selectAsNewest(table)}`,
  );
  // Rows of the history are read in the order in which they were put in, so its table stays.
  const historyColumns = ADDED_TO_HISTORY.map(
    ([name, type]) => `ALTER TABLE ${book('history')} ADD COLUMN ${name} ${type}`,
  );
  const newest = text(String(FORMAT_VERSION));
  return [
    ...extended,
    ...historyColumns,
    ...NEW_TABLES.map(createBook),
    `UPDATE ${book('meta')} SET value = ${newest} WHERE "key" = ${text(META_FORMAT_VERSION)}`,
  ];
}

function selectAsNewest(table: BookTable): string {
  const added = NEW_COLUMNS[table] ?? {};
  const columns = bookColumns(table).map(([name, type]) => {
    const value = added[name];
    return value === undefined ? `"${name}"` : `${value}::${type} AS "${name}"`;
  });
  return `SELECT ${columns.join(', ')} FROM ${book(table)}`;
}
