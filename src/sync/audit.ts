/**
 * Makes good what no event told: members and versions that the manifest lists and nobody wants yet. Pure.
 *
 * A manifest may be older than the log. So it never undoes an event that it does not reflect: where it says how far it
 * goes, its word stands at that place among the events; where it does not, it is not believed against an event.
 */

import type { Held } from '../destination/destination.ts';
import type { EventId } from '../model/event.ts';
import type { ManifestEntry } from '../model/manifest.ts';
import type { Want, WantChange } from '../model/want.ts';
import { pendingReloads } from './need.ts';

export interface Listing {
  readonly subscriptionId: string;
  /** Every event up to this one is reflected; null where the manifest does not say. */
  readonly reflects: EventId | null;
  readonly entries: readonly ManifestEntry[];
}

export function auditChanges(
  { subscriptionId, reflects, entries }: Listing,
  wants: ReadonlyMap<string, Want>,
  held: Held,
): readonly WantChange[] {
  const asOf = reflects === null ? {} : { eventNumber: reflects.number };
  return entries.flatMap(({ datasetId, version }): readonly WantChange[] => {
    const want = wants.get(datasetId);
    const table = held.datasets.get(datasetId) ?? null;
    const isMember = want?.members.has(subscriptionId) ?? false;
    const wasRemoved = want?.formerMembers.has(subscriptionId) ?? false;
    const isReloading = want !== undefined && pendingReloads(table, want).has(subscriptionId);
    const isNewer = version > (want?.atLeastVersion ?? -1);
    return [
      ...(isMember || (wasRemoved && reflects === null)
        ? []
        : [{ kind: 'member' as const, datasetId, ...asOf }]),
      ...(isNewer && !(isReloading && reflects === null)
        ? [{ kind: 'at-least' as const, datasetId, version, ...asOf }]
        : []),
    ];
  });
}
