/**
 * What `feed_sync.commits` keeps of a table with history, as each commit left it: a rollback restores it, with the rows that the
 * undo log leads back to.
 */

import { present } from '../../../lib/assert.ts';
import type { ReloadMark } from '../../../model/desired-state.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import {
  dateOrNullAt,
  identifier,
  integer,
  numberAt,
  text,
  textAt,
  textListAt,
  textOrNullAt,
} from '../../../staging/engine/sql.ts';
import { type Checksum, checksumOrNullAt } from '../checksum.ts';
import { digestKindAt } from './observed-state.ts';
import { type CatalogRow, FROM_JSON, jsonRow } from './rows.ts';
import { catalogColumns, catalogTable, RESTORED_COLUMNS } from './schema.ts';
import type { RecordedColumn } from './tables.ts';

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

/** Null where nothing was recorded. */
export async function readRecordedState(engine: Engine, commitNumber: number): Promise<RecordedState | null> {
  const times = new Set(['loaded_at', 'published_at']);
  const cells = RESTORED_COLUMNS.map((name) => (times.has(name) ? `epoch_ms(${name})` : name));
  const [row = []] = await engine.rows(`SELECT to_version, ${cells.join(', ')} FROM ${catalogTable('commits')}
    WHERE commit_number = ${integer(commitNumber)}`);
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
    columns: JSON.parse(textAt(row, 13)) as readonly RecordedColumn[],
  };
}

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
  const rows = JSON.parse(json) as readonly {
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

/** Records what a rollback restores for a commit that was made before the history of its table began. */
export function completeCommit(
  live: ObservedTable,
  commitNumber: number,
  checksum: Checksum | null,
  columns: readonly RecordedColumn[],
): readonly string[] {
  const cells = restoredCells({ table: live, checksum, reloads: live.reloads, columns });
  const types = new Map(catalogColumns('commits'));
  const assignments = RESTORED_COLUMNS.map((name, index) => {
    const type = present(types.get(name), 'the table has the column');
    return `${identifier(name)} = ${FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`)}`;
  });
  return [
    `UPDATE ${catalogTable('commits')} SET ${assignments.join(', ')}
      FROM (SELECT ${text(jsonRow(cells))}::JSON AS "row") AS restored WHERE commit_number = ${integer(commitNumber)}`,
  ];
}
