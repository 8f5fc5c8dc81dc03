/**
 * The ways that lead a table on, and the best of them: the one that leads furthest; of those that lead as far, the one that
 * leaves the fewest reloads to answer by further loads; and of these the one of least work. Pure.
 */

import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema, Version } from '../../model/records.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
import { pendingReloads } from './need.ts';
import { type Asking, answeredBy } from './reload-rules.ts';
import type { Offer } from './step.ts';
import { columnsOf, reachOf, type Terrain, type Walk, walk } from './version-chain.ts';
import { findSchemaOfSnapshot, recordOf } from './versions.ts';

export type Route =
  /** Along the changes. Where a reload is owed there is no such way. */
  | { readonly kind: 'changes'; readonly reach: number; readonly owed: 0; readonly cost: number }
  /** The snapshot, and the changes after it. */
  | {
      readonly kind: 'load';
      readonly offer: Offer;
      /** That of the snapshot; null where the service does not list it, so that it cannot be loaded. */
      readonly schema: Schema | null;
      readonly reach: number;
      /** How many reloads it does not answer. */
      readonly owed: number;
      readonly cost: number;
    };

export type RouteByLoad = Route & { readonly kind: 'load' };

/** Null where the changes do not lead on. */
export function routeByChanges(held: HeldDataset, walked: Walk): Route | null {
  const { path } = walked;
  if (path.length === 0) return null;
  return { kind: 'changes', reach: reachOf(held, walked), owed: 0, cost: changesCost(path) };
}

export function routeByLoad(
  offer: Offer,
  { held, want }: Pick<Asking, 'held' | 'want'>,
  terrain: Terrain,
): RouteByLoad {
  const { entry } = offer;
  const { version } = entry;
  const { history } = terrain;
  const schema = findSchemaOfSnapshot(entry, history);
  const start = schema === null ? null : { ...columnsOf(schema), version, publishedAt: null };
  const after: Walk = start === null ? { path: [], stop: null } : walk(start, terrain);
  const answered = answeredBy(offer, { held, want, history });
  const rows = recordOf(version, history)?.rowCount ?? held?.rowCount ?? 0;
  return {
    kind: 'load',
    offer,
    schema,
    reach: after.path.at(-1)?.version ?? version,
    owed: pendingReloads(held, want).length - answered.length,
    cost: snapshotCost(entry, rows) + changesCost(after.path),
  };
}

/**
 * Whether no snapshot that may be offered can be a better way on than the changes: they lead to the newest version of the
 * list, for no more work than the smallest snapshot of so many rows. Then nobody has to ask what is offered.
 */
export function isSurelyBest(
  byChanges: Route | null,
  walked: Walk | null,
  held: HeldDataset | null,
): boolean {
  const last = walked?.path.at(-1);
  if (byChanges === null || held === null || last === undefined || walked?.stop !== null) return false;
  return byChanges.cost <= leastSnapshotCost(last.rowCount ?? held.rowCount);
}

/** Where two are as good, the earlier one. Null where there is none. */
export function bestRoute<Of extends Route>(routes: readonly Of[]): Of | null {
  return routes.reduce<Of | null>(
    (best, route) => (best === null || isBetter(route, best) ? route : best),
    null,
  );
}

function isBetter(route: Route, than: Route): boolean {
  if (route.reach !== than.reach) return route.reach > than.reach;
  return route.owed === than.owed ? route.cost < than.cost : route.owed < than.owed;
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
