/** The statements that store progress in place of what is stored: only rows that differ are written. Pure. */

import type { StoredProgress } from '../../stored-progress.ts';
import { type BookRow, deleteRows, insertRows, jsonRow } from '../books/book-sql.ts';
import type { BookTable } from '../books/mirror-schema.ts';

interface ProgressTable {
  readonly table: BookTable;
  /** So many of its first columns say what a row is about. The rows about one thing are replaced together. */
  readonly keyColumns: number;
  /** In the order of its columns. */
  readonly rows: (progress: StoredProgress) => readonly BookRow[];
}

const PROGRESS_TABLES: readonly ProgressTable[] = [
  {
    table: 'subscriptions',
    keyColumns: 1,
    rows: ({ subscriptions }) =>
      subscriptions.map((one) => [
        one.subscriptionId,
        one.name?.replaceAll('\0', '\u{fffd}') ?? null,
        one.logNumber,
        one.eventNumber,
        one.eventCreatedAt,
        one.positionAt,
        one.statesLastEvent,
      ]),
  },
  {
    table: 'members',
    keyColumns: 2,
    rows: ({ members }) =>
      members.map(({ subscriptionId, datasetId, addedEvent, droppedEvent }) => {
        return [subscriptionId, datasetId, addedEvent, droppedEvent];
      }),
  },
  {
    table: 'owed',
    keyColumns: 2,
    rows: ({ owed }) =>
      owed.map(({ datasetId, subscriptionId, logNumber, eventNumber, createdAt }) => {
        return [datasetId, subscriptionId, logNumber, eventNumber, createdAt];
      }),
  },
];

/** Statements for one transaction. None where `progress` is stored already. */
export function replaceProgress(stored: StoredProgress | null, progress: StoredProgress): readonly string[] {
  const before = stored ?? { subscriptions: [], members: [], owed: [] };
  return PROGRESS_TABLES.flatMap(({ table, keyColumns, rows }) => {
    const [is, shall] = [before, progress].map((of) => rowsByKey(rows(of), keyColumns));
    const differing = (left: RowsByKey = new Map(), right: RowsByKey = new Map()): readonly StoredRows[] =>
      [...left].flatMap(([key, own]) => (right.get(key)?.text === own.text ? [] : [own]));
    const superseded = differing(is, shall).map(({ rows: [first = []] }) => first.slice(0, keyColumns));
    const written = differing(shall, is).flatMap((own) => own.rows);
    return [...deleteRows(table, superseded), ...insertRows(table, written)];
  });
}

interface StoredRows {
  readonly rows: readonly BookRow[];
  /** The same for the same rows in another order. */
  readonly text: string;
}

type RowsByKey = ReadonlyMap<string, StoredRows>;

/** Keyed by the text that the database keeps, which may be the same for ids that are no Unicode. */
function rowsByKey(rows: readonly BookRow[], keyColumns: number): RowsByKey {
  const byKey = Map.groupBy(rows.filter(isStorable), (row) => jsonRow(row.slice(0, keyColumns)));
  return new Map(
    [...byKey].map(([key, own]) => [key, { rows: own, text: own.map(jsonRow).toSorted().join() }]),
  );
}

/** Such a dataset has no table: no name can hold its id. */
function isStorable(row: BookRow): boolean {
  return !row.some((cell) => typeof cell === 'string' && cell.includes('\0'));
}
