/** The rows of the stored progress, and the changes that lead from one progress to another. Pure. */

import { assert } from '../../lib/assert.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { damagedBookkeeping } from '../../staging/engine/errors.ts';
import {
  bigintOrNullAt,
  booleanAt,
  dateAt,
  dateOrNullAt,
  numberAt,
  storedJson,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import type { OwedReload, StoredMember, StoredProgress, StoredSubscription } from '../destination.ts';
import { reloadMarkAt } from './cells.ts';
import type { CatalogTable } from './tables.ts';
import { type CatalogRow, type CatalogWrite, deleteRows, insertRows, jsonRow } from './writes.ts';

interface ProgressTable {
  readonly table: CatalogTable;
  /** The leading columns, which identify the subject of a row. Rows of the same subject are replaced together. */
  readonly keyColumns: readonly string[];
  /** In the order of the table's columns. */
  readonly rows: (progress: StoredProgress) => readonly CatalogRow[];
}

const OWED = {
  table: 'owed',
  keyColumns: ['dataset_id', 'subscription_id'],
  rows: ({ owed }: Pick<StoredProgress, 'owed'>) =>
    owed.map(({ datasetId, subscriptionId, logNumber, eventNumber, createdAt }) => {
      return [datasetId, subscriptionId, logNumber, eventNumber, createdAt];
    }),
} as const satisfies ProgressTable;

const PROGRESS_TABLES: readonly ProgressTable[] = [
  {
    table: 'subscriptions',
    keyColumns: ['subscription_id'],
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
    keyColumns: ['subscription_id', 'dataset_id'],
    rows: ({ members }) =>
      members.map(({ subscriptionId, datasetId, addedEvent, droppedEvent }) => {
        return [subscriptionId, datasetId, addedEvent, droppedEvent];
      }),
  },
  OWED,
];

/** Returns the changes for one transaction; none when `progress` is already stored. */
export function replaceProgress(
  stored: StoredProgress | null,
  progress: StoredProgress,
): readonly CatalogWrite[] {
  const before = stored ?? { subscriptions: [], members: [], owed: [] };
  return PROGRESS_TABLES.flatMap(({ table, keyColumns, rows }) => {
    const [is, shall] = [before, progress].map((of) => rowsByKey(rows(of), keyColumns.length));
    const differing = (left: RowsByKey = new Map(), right: RowsByKey = new Map()): readonly StoredRows[] =>
      [...left].flatMap(([key, own]) => (right.get(key)?.text === own.text ? [] : [own]));
    const superseded = differing(is, shall).map(({ rows: [first = []] }) =>
      first.slice(0, keyColumns.length).map(keyCell),
    );
    const written = differing(shall, is).flatMap((own) => own.rows);
    return [
      ...(superseded.length === 0 ? [] : [deleteRows(table, keyColumns, superseded)]),
      ...(written.length === 0 ? [] : [insertRows(table, written)]),
    ];
  });
}

/** Returns the changes that put reloads in place of those which their datasets owe to the same subscription, or to an operator. */
export function replaceOwed(owed: readonly OwedReload[]): readonly CatalogWrite[] {
  const keys = owed.map(({ datasetId, subscriptionId }) => [datasetId, subscriptionId]);
  return [deleteRows('owed', OWED.keyColumns, keys), insertRows('owed', OWED.rows({ owed }))];
}

function keyCell(cell: CatalogRow[number]): string {
  assert(typeof cell === 'string', 'stored progress is identified by ids');
  return cell;
}

interface StoredRows {
  readonly rows: readonly CatalogRow[];
  /** Does not depend on the order of the rows. */
  readonly text: string;
}

type RowsByKey = ReadonlyMap<string, StoredRows>;

/** The keys are texts as the database stores them; ids that are not valid Unicode may share a key. */
function rowsByKey(rows: readonly CatalogRow[], keyColumns: number): RowsByKey {
  const byKey = Map.groupBy(rows.filter(isStorable), (row) => jsonRow(row.slice(0, keyColumns)));
  return new Map(
    [...byKey].map(([key, own]) => [key, { rows: own, text: own.map(jsonRow).toSorted().join() }]),
  );
}

/** A dataset whose id cannot be stored has no table, because no name can hold the id. */
function isStorable(row: CatalogRow): boolean {
  return !row.some((cell) => typeof cell === 'string' && cell.includes('\0'));
}

/** Returns null when nothing was ever stored. */
export function progressOf(progress: StoredProgress): StoredProgress | null {
  const { subscriptions, members, owed } = progress;
  return subscriptions.length + members.length + owed.length === 0 ? null : progress;
}

/** Reads the cells of a row of `subscriptions`, times as milliseconds. */
export function storedSubscriptionAt(row: Row): StoredSubscription {
  const name = textOrNullAt(row, 1);
  if (name?.includes('\0') === true) throw damagedBookkeeping('the name of a subscription contains a NUL');
  return {
    subscriptionId: textAt(row, 0),
    name,
    logNumber: numberAt(row, 2),
    eventNumber: bigintOrNullAt(row, 3),
    eventCreatedAt: dateOrNullAt(row, 4),
    positionAt: dateAt(row, 5),
    statesLastEvent: booleanAt(row, 6),
  };
}

/** A member in JSON: dataset, number of the adding event, number of the dropping event. */
type MemberCells = readonly [string, string | null, string | null];

/** Reads a subscription, and the JSON text of its members. */
export function storedMembersAt(row: Row): readonly StoredMember[] {
  const subscriptionId = textAt(row, 0);
  return (storedJson(textAt(row, 1)) as readonly MemberCells[]).map(([datasetId, added, dropped]) => ({
    subscriptionId,
    datasetId,
    addedEvent: added === null ? null : BigInt(added),
    droppedEvent: dropped === null ? null : BigInt(dropped),
  }));
}

/** Reads the cells of a row of `owed`, times as milliseconds. */
export function owedReloadAt(row: Row): OwedReload {
  return { datasetId: textAt(row, 0), subscriptionId: textAt(row, 1), ...reloadMarkAt(row, 2) };
}
