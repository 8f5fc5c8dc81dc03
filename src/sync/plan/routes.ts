/**
 * The ways that lead a table on, and the best of them: the one that leads furthest; of those that lead as far, the one that
 * leaves the fewest reloads to answer by further loads; and of these the one of least work. Pure.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import type { Schema } from '../../model/schema.ts';
import { changesCost, leastSnapshotCost, snapshotCost } from './cost.ts';
import { pendingReloads } from './need.ts';
import { type Asking, answeredBy } from './offer-rules.ts';
import { findSchemaOfSnapshot, recordOf } from './schemas.ts';
import type { Offer } from './step.ts';
import { columnsOf, reachOf, type Terrain, type Walk, walk } from './walk.ts';

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
