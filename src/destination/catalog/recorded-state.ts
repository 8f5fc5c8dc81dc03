/**
 * The state in which each commit left a table with history, as `feed_sync.commits` keeps it: a rollback restores it, with the rows that the
 * undo log leads back to. Pure.
 */

import type { ReloadMark } from '../../model/desired-state.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Row } from '../../staging/engine/engine.ts';
import {
  dateOrNullAt,
  integer,
  numberAt,
  storedJson,
  textAt,
  textListAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import { type Checksum, checksumOrNullAt, digestKindAt } from './cells.ts';
import type { RecordedColumn } from './columns.ts';
import type { CatalogRow } from './writes.ts';

export interface RecordedState {
  readonly table: Pick<
    ObservedTable,
    | 'version'
    | 'schemaVersion'
    | 'rowCount'
    | 'keyColumns'
    | 'snapshotVersion'
    | 'snapshotDigest'
    | 'digestKind'
    | 'loadedThrough'
    | 'loadedAt'
    | 'publishedAt'
  >;
  readonly checksum: Checksum;
  readonly columns: readonly RecordedColumn[];
  readonly reloads: ReadonlyMap<string, ReloadMark>;
}

/** As a commit leaves it; without a checksum where none was recorded before history began. */
type LeftState = Omit<RecordedState, 'checksum'> & { readonly checksum: Checksum | null };

/** Returns the cells of `RESTORED_COLUMNS`. */
export function restoredCells({ table, checksum, reloads, columns }: LeftState): CatalogRow {
  return [
    table.schemaVersion,
    table.keyColumns,
    table.rowCount,
    table.snapshotVersion,
    table.snapshotDigest,
    table.digestKind,
    table.loadedThrough,
    table.loadedAt,
    table.publishedAt,
    checksum?.sum ?? null,
    checksum?.version ?? null,
    reloadsJson(reloads),
    JSON.stringify(columns),
  ];
}

function reloadsJson(reloads: ReadonlyMap<string, ReloadMark>): string {
  const rows = [...reloads].map(([subscriptionId, { logNumber, eventNumber, createdAt }]) => {
    return { subscriptionId, logNumber, eventNumber: integer(eventNumber), createdAt };
  });
  return JSON.stringify(rows);
}

/** Reads the JSON of `reloadsJson`. */
function reloadsFromJson(json: string): ReadonlyMap<string, ReloadMark> {
  const rows = storedJson(json) as readonly {
    readonly subscriptionId: string;
    readonly logNumber: number;
    readonly eventNumber: string;
    readonly createdAt: string | null;
  }[];
  return new Map(
    rows.map(({ subscriptionId, logNumber, eventNumber, createdAt }) => [
      subscriptionId,
      {
        logNumber,
        eventNumber: BigInt(eventNumber),
        createdAt: createdAt === null ? null : new Date(createdAt),
      },
    ]),
  );
}

/** Reads the cells `to_version` and `RESTORED_COLUMNS`, times as milliseconds. Null where nothing was recorded. */
export function recordedStateAt(row: Row): RecordedState | null {
  const checksum = checksumOrNullAt(row, 10);
  if (checksum === null || textOrNullAt(row, 13) === null) return null;
  return {
    checksum,
    table: {
      version: numberAt(row, 0),
      schemaVersion: textOrNullAt(row, 1),
      keyColumns: textListAt(row, 2),
      rowCount: numberAt(row, 3),
      snapshotVersion: numberAt(row, 4),
      snapshotDigest: textAt(row, 5),
      digestKind: digestKindAt(row, 6),
      loadedThrough: textOrNullAt(row, 7),
      loadedAt: dateOrNullAt(row, 8),
      publishedAt: dateOrNullAt(row, 9),
    },
    reloads: reloadsFromJson(textAt(row, 12)),
    columns: storedJson(textAt(row, 13)) as readonly RecordedColumn[],
  };
}
