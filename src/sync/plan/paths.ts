/**
 * Chooses the best path for a table: the path with the highest target version; among equals the path that leaves the
 * fewest reloads unsatisfied; among equals the path of least cost. Pure.
 */

import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { pendingReloads } from './need.ts';
import { type Asking, answeredBy } from './reload-rules.ts';
import type { ListedEntry } from './step.ts';
import {
  type ChainConstraints,
  columnsOf,
  followChain,
  type PossiblePath,
  reachOf,
} from './version-chain.ts';
import { findSchemaOfSnapshot, recordOf } from './versions.ts';

export type UpdatePath =
  /** The path by changes. A table that owes a reload has no such path. */
  | { readonly kind: 'changes'; readonly reach: number; readonly owed: 0; readonly cost: number }
  /** The path by snapshot, and by the changes after it. */
  | {
      readonly kind: 'load';
      readonly listedEntry: ListedEntry;
      /** The schema of the snapshot; null: the service does not list it, so the snapshot cannot be loaded. */
      readonly schema: Schema | null;
      readonly reach: number;
      /** The number of reloads that the snapshot does not satisfy. */
      readonly owed: number;
      readonly cost: number;
    };

export type PathByLoad = UpdatePath & { readonly kind: 'load' };

/** Returns null where no changes lead further. */
export function pathByChanges(observed: ObservedTable, byChain: PossiblePath): UpdatePath | null {
  const { path } = byChain;
  if (path.length === 0) return null;
  return { kind: 'changes', reach: reachOf(observed, byChain), owed: 0, cost: changesCost(path) };
}

export function pathByLoad(
  listedEntry: ListedEntry,
  { observed, desired }: Pick<Asking, 'observed' | 'desired'>,
  constraints: ChainConstraints,
): PathByLoad {
  const { entry } = listedEntry;
  const { version } = entry;
  const { history } = constraints;
  const schema = findSchemaOfSnapshot(entry, history);
  const start = schema === null ? null : { ...columnsOf(schema), version, publishedAt: null };
  const after: PossiblePath = start === null ? { path: [], stop: null } : followChain(start, constraints);
  const answered = answeredBy(listedEntry, { observed, desired, history });
  const rows = recordOf(version, history)?.rowCount ?? observed?.rowCount ?? 0;
  return {
    kind: 'load',
    listedEntry,
    schema,
    reach: after.path.at(-1)?.version ?? version,
    owed: pendingReloads(observed, desired).length - answered.length,
    cost: snapshotCost(entry, rows) + changesCost(after.path),
  };
}

/**
 * Whether no snapshot can be a better path than the changes: the changes lead to the newest version of the list at no
 * more cost than the smallest snapshot of as many rows. Then no manifest has to be read.
 */
export function isSurelyBest(
  byChanges: UpdatePath | null,
  byChain: PossiblePath | null,
  observed: ObservedTable | null,
): boolean {
  const last = byChain?.path.at(-1);
  if (byChanges === null || observed === null || last === undefined || byChain?.stop !== null) return false;
  return byChanges.cost <= leastSnapshotCost(last.rowCount ?? observed.rowCount);
}

/** Returns the best path, the earlier one of two equals; null where there is none. */
export function bestPath<Of extends UpdatePath>(updatePaths: readonly Of[]): Of | null {
  return updatePaths.reduce<Of | null>(
    (best, updatePath) => (best === null || isBetter(updatePath, best) ? updatePath : best),
    null,
  );
}

function isBetter(updatePath: UpdatePath, than: UpdatePath): boolean {
  if (updatePath.reach !== than.reach) return updatePath.reach > than.reach;
  return updatePath.owed === than.owed ? updatePath.cost < than.cost : updatePath.owed < than.owed;
}

/** The cost of a request: some 20 ms of latency, with several requests under way at once. */
export const REQUEST_IN_ROWS = 1_000;
/** The cost of a changed row: it travels as text, is decoded, checked and coalesced, and is found in the table by its key. */
export const CHANGED_ROW_IN_ROWS = 10;
/**
 * The cost of a snapshot before its first row: its files are validated, and a new table is written and swapped for the old
 * one.
 */
export const SNAPSHOT_IN_ROWS = 10_000;
/** The rows on a full page of changes; also assumed for a version that does not state its number of rows. */
export const ROWS_PER_PAGE = 1_000;

/** Returns how many rows the changes of a version list. */
export function listedRows({ counts }: Version): number {
  return counts === null ? ROWS_PER_PAGE : counts.added + counts.changed + counts.removed;
}

export function changesCost(versions: readonly Version[]): number {
  return versions.reduce((sum, version) => {
    const rows = listedRows(version);
    const pages = Math.max(1, Math.ceil(rows / ROWS_PER_PAGE));
    return sum + pages * REQUEST_IN_ROWS + rows * CHANGED_ROW_IN_ROWS;
  }, 0);
}

/** The least cost of a snapshot of so many rows while its entry is unread: at least one file. */
function leastSnapshotCost(rows: number): number {
  return SNAPSHOT_IN_ROWS + REQUEST_IN_ROWS + rows;
}

/** `otherwiseRows`: the number of rows assumed where the entry states none. */
export function snapshotCost({ rowCount, files }: ManifestEntry, otherwiseRows: number): number {
  return SNAPSHOT_IN_ROWS + files.length * REQUEST_IN_ROWS + (rowCount ?? otherwiseRows);
}
