/**
 * The ways that lead a table on, and the best of them: the one that leads furthest, and of those that lead as far the
 * one of least work. Pure.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import type { Schema } from '../../model/schema.ts';
import { changesCost, leastSnapshotCost, snapshotCost } from './cost.ts';
import { findSchemaOfSnapshot, recordOf } from './schemas.ts';
import type { Offer } from './step.ts';
import { columnsOf, reachOf, type Terrain, type Walk, walk } from './walk.ts';

export type Route =
  /** Along the changes. */
  | { readonly kind: 'changes'; readonly reach: number; readonly cost: number }
  /** The snapshot, and the changes after it. */
  | {
      readonly kind: 'load';
      readonly offer: Offer;
      /** That of the snapshot; null where the service does not list it, so that it cannot be loaded. */
      readonly schema: Schema | null;
      readonly reach: number;
      readonly cost: number;
    };

export type RouteByLoad = Route & { readonly kind: 'load' };

/** Null where the changes do not lead on. */
export function routeByChanges(held: HeldDataset, walked: Walk): Route | null {
  const { path } = walked;
  if (path.length === 0) return null;
  return { kind: 'changes', reach: reachOf(held, walked), cost: changesCost(path) };
}

export function routeByLoad(offer: Offer, held: HeldDataset | null, terrain: Terrain): RouteByLoad {
  const { entry } = offer;
  const { version } = entry;
  const schema = findSchemaOfSnapshot(entry, terrain.history);
  const start = schema === null ? null : { ...columnsOf(schema), version, publishedAt: null };
  const after: Walk = start === null ? { path: [], stop: null } : walk(start, terrain);
  const rows = recordOf(version, terrain.history)?.rowCount ?? held?.rowCount ?? 0;
  return {
    kind: 'load',
    offer,
    schema,
    reach: after.path.at(-1)?.version ?? version,
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
  return routes.reduce<Of | null>((best, route) => {
    if (best === null || route.reach > best.reach) return route;
    return route.reach === best.reach && route.cost < best.cost ? route : best;
  }, null);
}
