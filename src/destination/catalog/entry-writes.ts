/** The changes that entries make in the tables of the catalog. Pure. */

import type { ReloadMark } from '../../model/desired-state.ts';
import type { RecordedColumn } from './columns.ts';
import type { CatalogEntry, LiveEntry, RetiredEntry } from './entries.ts';
import { restoredCells } from './recorded-state.ts';
import { type CatalogTable, RESTORED_COLUMNS } from './tables.ts';
import { type CatalogRow, type CatalogWrite, deleteRows, insertRows } from './writes.ts';

/** The tables with rows about a live table, which retirement deletes. */
const OF_RETIRED = ['reloads', 'members', 'owed'] as const;

/** Returns the writes for entries of different datasets. Their commits take the numbers after `newestNumber`, in order. */
export function writeEntries(given: readonly CatalogEntry[], newestNumber: number): readonly CatalogWrite[] {
  const entries = given.map((entry, index) => ({ ...entry, commitNumber: newestNumber + index + 1 }));
  const live = entries.filter((entry) => entry.kind === 'live');
  const retired = entries.filter((entry) => entry.kind === 'retired');
  const described = live.filter(({ areColumnsNew }) => areColumnsNew);
  return [
    deleteOf('datasets', entries),
    insertRows('datasets', live.map(datasetRow)),
    deleteOf('columns', [...described, ...retired]),
    insertRows(
      'columns',
      described.flatMap(({ datasetId, columns }) => columnRows(datasetId, columns)),
    ),
    ...OF_RETIRED.map((table) => deleteOf(table, retired)),
    ...replaceReloads(live),
    ...oweReloads(live),
    deleteReturned(live.filter(({ wasKept }) => wasKept)),
    insertRows('archived', retired.map(archivedRow)),
    insertRows('commits', entries.map(commitRow)),
  ];
}

type Numbered<Entry> = Entry & { readonly commitNumber: number };

function datasetRow({ datasetId, table, checksum, commitNumber }: Numbered<LiveEntry>): CatalogRow {
  return [
    datasetId,
    table.schemaName,
    table.tableName,
    table.version,
    table.schemaVersion,
    table.rowCount,
    table.keyColumns,
    commitNumber,
    table.snapshotVersion,
    table.snapshotDigest,
    table.digestKind,
    table.loadedThrough,
    table.loadedAt,
    table.publishedAt,
    table.appliedAt,
    checksum.sum,
    checksum.version,
    table.pinnedSince,
  ];
}

function columnRows(datasetId: string, columns: readonly RecordedColumn[]): readonly CatalogRow[] {
  return columns.map((column, index) => {
    const { name, columnName, type, isNullable, description, sourceName, role, crs } = column;
    return [datasetId, index + 1, name, columnName, type, isNullable, description, sourceName, role, crs];
  });
}

function replaceReloads(live: readonly LiveEntry[]): readonly CatalogWrite[] {
  const same = live.flatMap(({ datasetId, reloads: { before, after } }) =>
    [...new Set([...before.keys(), ...after.keys()])]
      .filter((subscriptionId) => before.get(subscriptionId) !== after.get(subscriptionId))
      .map((subscriptionId) => [datasetId, subscriptionId]),
  );
  const rows = live.flatMap(({ datasetId, reloads: { before, after } }) =>
    [...after]
      .filter(([subscriptionId, mark]) => before.get(subscriptionId) !== mark)
      .map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
        return [datasetId, subscriptionId, logNumber, eventNumber, createdAt] as const;
      }),
  );
  return [deleteRows('reloads', ['dataset_id', 'subscription_id'], same), insertRows('reloads', rows)];
}

/** A reload that is owed already has one row. */
function oweReloads(live: readonly LiveEntry[]): readonly CatalogWrite[] {
  const rows = live.flatMap(({ datasetId, owed = new Map<string, ReloadMark>() }) =>
    [...owed].map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
      return [datasetId, subscriptionId, logNumber, eventNumber, createdAt] as const;
    }),
  );
  const keys = rows.map(([datasetId, subscriptionId, logNumber, eventNumber]) => {
    return [datasetId, subscriptionId, logNumber, eventNumber] as const;
  });
  const columns = ['dataset_id', 'subscription_id', 'log_number', 'event_number'];
  return [deleteRows('owed', columns, keys), insertRows('owed', rows)];
}

/**
 * A kept table that is loaded again becomes the live one and leaves the list of retired tables. The list has the schema with the name
 * where it is none of the usual ones.
 */
function deleteReturned(returned: readonly LiveEntry[]): CatalogWrite {
  const same = returned.flatMap(({ datasetId, table: { schemaName, tableName } }) => [
    [datasetId, tableName],
    [datasetId, `${schemaName}.${tableName}`],
  ]);
  return deleteRows('archived', ['dataset_id', 'table_name'], same);
}

function archivedRow({ datasetId, tableName, reason, commit, checksum }: RetiredEntry): CatalogRow {
  const { toVersion, appliedAt } = commit;
  return [
    datasetId,
    tableName,
    toVersion,
    reason,
    appliedAt,
    checksum?.sum ?? null,
    checksum?.version ?? null,
  ];
}

function commitRow(entry: Numbered<CatalogEntry>): CatalogRow {
  const { datasetId, commit, commitNumber } = entry;
  const {
    fromVersion,
    toVersion,
    kind,
    net,
    appliedAt,
    restoredCommit = null,
    retirement,
    isApproved,
  } = commit;
  const counts = [net?.added ?? null, net?.changed ?? null, net?.removed ?? null];
  const judged = [retirement?.judgedAt ?? null, retirement?.isApproved ?? (isApproved || null)];
  const restored =
    entry.kind === 'live' && entry.isLogged
      ? restoredCells({ ...entry, reloads: entry.reloads.after })
      : RESTORED_COLUMNS.map(() => null);
  return [
    commitNumber,
    datasetId,
    fromVersion,
    toVersion,
    kind,
    ...counts,
    appliedAt,
    ...judged,
    restoredCommit,
    ...restored,
  ];
}

function deleteOf(table: CatalogTable, entries: readonly CatalogEntry[]): CatalogWrite {
  return deleteRows(
    table,
    ['dataset_id'],
    entries.map(({ datasetId }) => [datasetId]),
  );
}
