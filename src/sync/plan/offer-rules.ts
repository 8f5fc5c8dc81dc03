/**
 * Which entries of manifests answer what is needed. A manifest may lag: what it offers is loaded only where that meets
 * the need. An older version never replaces a newer one but by a reload. Pure.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import { snapshotDigest } from '../../model/manifest.ts';
import type { Want } from '../../model/want.ts';
import type { History } from './history.ts';
import { type Need, pendingReloads } from './need.ts';
import { recordOf, schemaVersionAt } from './schemas.ts';
import type { Offer } from './step.ts';

/**
 * After this time a manifest that does not say how far it goes is taken to be as new as the reload that was asked for:
 * where the content stays the same, it has no other way to show it.
 */
export const RELOAD_ACCEPTED_AFTER_MS = 15 * 60_000;

export interface Asking {
  readonly want: Want;
  readonly held: HeldDataset | null;
  /** Of the subscriptions that hold the dataset. */
  readonly offers: readonly Offer[];
  readonly now: Date;
}

/** Those that may answer at all. A reload is answered by the manifest of who asked for it: another's may list what came before. */
export function askedOffers({ held, want, offers }: Asking): readonly Offer[] {
  const asking = [...pendingReloads(held, want).keys()].filter((id) => want.members.has(id));
  return asking.length === 0
    ? offers
    : offers.filter(({ subscriptionId }) => asking.includes(subscriptionId));
}

/** Those that meet the need. `reachOf` is the version that a snapshot and the changes after it lead to. */
export function answeringOffers(
  need: Exclude<Need, 'look' | 'nothing'>,
  asking: Asking,
  history: History,
  reachOf: (offer: Offer) => number,
): readonly Offer[] {
  const asked = askedOffers(asking);
  const tableVersion = asking.held?.version ?? -1;
  const leadsFarEnough = (offer: Offer): boolean => reachOf(offer) >= (asking.want.atLeastVersion ?? -1);
  switch (need) {
    case 'table':
      return isReloadAnswered(asking, history) ? asked : [];
    case 'reload':
      return isReloadAnswered(asking, history) ? asked.filter(leadsFarEnough) : [];
    case 'resync':
      return asked.filter((offer) => offer.entry.version >= tableVersion && leadsFarEnough(offer));
    case 'version':
      return asked.filter(({ entry }) => entry.version > tableVersion);
    case 'schema': {
      const wanted = schemaVersionAt(tableVersion, history);
      return asked.filter(
        ({ entry: { version, schemaVersion } }) =>
          version > tableVersion ||
          (version === tableVersion && (schemaVersion === null || schemaVersion === wanted)),
      );
    }
  }
}

/** Whether every subscription that asked for a reload offers what it asked for. One that has left is not waited for. */
function isReloadAnswered(asking: Asking, history: History): boolean {
  const { held, want, offers } = asking;
  return [...pendingReloads(held, want)].every(([subscriptionId, eventNumber]) => {
    const offer = offers.find((candidate) => candidate.subscriptionId === subscriptionId);
    if (offer === undefined) return !want.members.has(subscriptionId);
    return offer.reflects === null ? isTakenToReflect(offer, asking, history) : offer.reflects >= eventNumber;
  });
}

/**
 * Without word of the manifest on how far it goes, other content than the table's is taken for the asked one, and after
 * a while whatever it lists. A version lower than the table's is only taken where versions have begun anew: as long as
 * the service lists the table's own, a manifest that does not is older than the table.
 */
function isTakenToReflect({ subscriptionId, entry }: Offer, asking: Asking, history: History): boolean {
  const { held, want, now } = asking;
  if (entry.version < (want.atLeastVersion ?? -1)) return false;
  if (held === null) return true;
  const isOtherContent = entry.version >= held.version && snapshotDigest(entry.files) !== held.snapshotDigest;
  if (isOtherContent) return true;
  const askedAt = want.reloadAskedAt.get(subscriptionId);
  // Asked as far in the future, it was asked by a clock that was wrong.
  const hasWaited =
    askedAt !== undefined && Math.abs(now.getTime() - askedAt.getTime()) >= RELOAD_ACCEPTED_AFTER_MS;
  return hasWaited && (entry.version >= held.version || recordOf(held.version, history) === null);
}

/**
 * Each subscription's newest reload event that the loaded snapshot satisfies: those asked for, and those that a
 * manifest which lists this very snapshot reflects.
 */
export function reloadsSatisfiedBy(loaded: Offer, { want, offers }: Asking): ReadonlyMap<string, bigint> {
  const satisfied = new Map(want.reloadAfter);
  for (const offer of offers) {
    if (offer.reflects === null || !isSameSnapshot(offer, loaded)) continue;
    const asked = satisfied.get(offer.subscriptionId);
    if (asked === undefined || asked < offer.reflects) satisfied.set(offer.subscriptionId, offer.reflects);
  }
  return satisfied;
}

function isSameSnapshot(left: Offer, right: Offer): boolean {
  if (left.subscriptionId === right.subscriptionId) return true;
  const digest = snapshotDigest(left.entry.files);
  return (
    left.entry.version === right.entry.version &&
    digest !== null &&
    digest === snapshotDigest(right.entry.files)
  );
}
