/**
 * The ways that lead a table on, and the best of them: the one that leads furthest; of those that lead as far, the one that
 * leaves the fewest reloads to answer by further loads; and of these the one of least work. Pure.
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
  /** Along the changes. Where a reload is owed there is no such way. */
  | { readonly kind: 'changes'; readonly reach: number; readonly owed: 0; readonly cost: number }
  /** The snapshot, and the changes after it. */
  | {
      readonly kind: 'load';
      readonly listedEntry: ListedEntry;
      /** That of the snapshot; null where the service does not list it, so that it cannot be loaded. */
      readonly schema: Schema | null;
      readonly reach: number;
      /** How many reloads it does not answer. */
      readonly owed: number;
      readonly cost: number;
    };

export type PathByLoad = UpdatePath & { readonly kind: 'load' };

/** Null where the changes do not lead on. */
export function pathByChanges(observed: ObservedTable, walked: PossiblePath): UpdatePath | null {
  const { path } = walked;
  if (path.length === 0) return null;
  return { kind: 'changes', reach: reachOf(observed, walked), owed: 0, cost: changesCost(path) };
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
 * Whether no snapshot that may be offered can be a better way on than the changes: they lead to the newest version of the
 * list, for no more work than the smallest snapshot of so many rows. Then nobody has to ask what is offered.
 */
export function isSurelyBest(
  byChanges: UpdatePath | null,
  walked: PossiblePath | null,
  observed: ObservedTable | null,
): boolean {
  const last = walked?.path.at(-1);
  if (byChanges === null || observed === null || last === undefined || walked?.stop !== null) return false;
  return byChanges.cost <= leastSnapshotCost(last.rowCount ?? observed.rowCount);
}

/** Where two are as good, the earlier one. Null where there is none. */
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

/** A request: some 20 ms to and fro, with several under way at once. */
export const REQUEST_IN_ROWS = 1_000;
/** A row of changes travels as text, is decoded, checked, folded, and found in the table by its key. */
export const CHANGED_ROW_IN_ROWS = 10;
/** What a snapshot costs before its first row: its files are examined, a new table is written and swapped for the old one. */
export const SNAPSHOT_IN_ROWS = 10_000;
/** Rows on a full page of changes; also what a version is taken to list that does not say how many. */
export const ROWS_PER_PAGE = 1_000;

/** Rows that the changes of a version list. */
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

/** Of a snapshot of so many rows, before its entry was read: one file, if not more. */
function leastSnapshotCost(rows: number): number {
  return SNAPSHOT_IN_ROWS + REQUEST_IN_ROWS + rows;
}

/** `otherwiseRows`: what the snapshot is taken to have where its entry does not say. */
export function snapshotCost({ rowCount, files }: ManifestEntry, otherwiseRows: number): number {
  return SNAPSHOT_IN_ROWS + files.length * REQUEST_IN_ROWS + (rowCount ?? otherwiseRows);
}
