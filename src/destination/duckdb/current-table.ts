/**
 * What the mirror has of a dataset at the begin of a transaction, and the guard: a unit that was planned from
 * something else is overtaken, and nothing is done for it.
 */

import { present } from '../../lib/assert.ts';
import { DatasetStorageError } from '../../model/errors.ts';
import type { HeldDataset, PlannedFrom } from '../destination.ts';
import type { Engine } from './engine.ts';
import { book, selectKind } from './mirror-schema.ts';
import { giveNames } from './mirror-state.ts';
import { text } from './quoting.ts';
import { booleanAt, numberOrNullAt, textAt, textOrNullAt } from './rows.ts';

export interface Current {
  readonly tableName: string;
  /** Null where the dataset has no live table. */
  readonly live: PlannedFrom | null;
  /** Whether there is a table of this name that was kept when the dataset was retired. */
  readonly isKept: boolean;
}

/** A dataset that has no name yet is given one. */
export async function readCurrent(engine: Engine, datasetId: string): Promise<Current> {
  const select = `SELECT n.table_name, d.version, d.snapshot_digest,
      EXISTS (SELECT 1 FROM ${book('archived')} a WHERE a.dataset_id = n.dataset_id AND a.table_name = n.table_name)
    FROM ${book('names')} n LEFT JOIN ${book('datasets')} d USING (dataset_id) WHERE n.dataset_id = ${text(datasetId)}`;
  const [row] = await engine.rows(select);
  if (row === undefined) {
    const names = await giveNames(engine, [datasetId]);
    const tableName = present(names.get(datasetId), 'a dataset has a name');
    return { tableName, live: null, isKept: false };
  }
  const version = numberOrNullAt(row, 1);
  return {
    tableName: textAt(row, 0),
    live: version === null ? null : { version, snapshotDigest: textOrNullAt(row, 2) ?? '' },
    isKept: booleanAt(row, 3),
  };
}

/**
 * A name stays a dataset's while it has no table, and a person may have made one of that name meanwhile. It is never
 * touched.
 *
 * @throws DatasetStorageError where a load would have to put its table in the place of something that is not ours.
 */
export async function refuseTakenName(
  engine: Engine,
  datasetId: string,
  { tableName, live, isKept }: Current,
): Promise<void> {
  const [row] = await engine.rows(selectKind(tableName));
  if (row === undefined) return;
  const kind = textAt(row, 0);
  if (kind === 'table' && (live !== null || isKept)) return;
  throw new DatasetStorageError(
    `The mirror has a ${kind} main.${tableName} that feed-sync did not make, in the place of the table of the dataset ${datasetId}.`,
    {
      hint: 'It is left as it is. Give it another name, or drop it; the dataset is then loaded at the next catch-up.',
    },
  );
}

/** For what replaces or retires the table as a whole. */
export function isPlannedFrom(live: PlannedFrom | null, planned: PlannedFrom | null): boolean {
  return live?.version === planned?.version && live?.snapshotDigest === planned?.snapshotDigest;
}

/** For changes, which build on every row of the table: nothing was committed to it since. */
export function isSameTable(live: HeldDataset | undefined, planned: HeldDataset): live is HeldDataset {
  return (
    live !== undefined &&
    isPlannedFrom(live, planned) &&
    live.rowCount === planned.rowCount &&
    live.reloads.size === planned.reloads.size &&
    [...planned.reloads].every(([subscriptionId, event]) => live.reloads.get(subscriptionId) === event)
  );
}
