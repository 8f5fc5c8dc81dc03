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
import type { Offer, ReloadChange } from './step.ts';
import { isListed } from './walk.ts';

/**
 * A manifest that does not say how far it goes lags no longer than this: what it lists then is taken for the answer to a
 * reload that was asked for, because where the content stays the same, it has no other way to show it.
 */
export const LONGEST_LAG_MS = 15 * 60_000;

export interface Asking {
  readonly want: Want;
  readonly held: HeldDataset | null;
  /** Of the subscriptions that hold the dataset. */
  readonly offers: readonly Offer[];
  readonly now: Date;
}

/**
 * Those that may answer at all. A reload is answered by the manifest of who asked for it: another's may list what came before.
 * Where there is no table, and none of who asked lists it, what another lists is better than nothing until then.
 */
export function askedOffers({ held, want, offers }: Asking): readonly Offer[] {
  const asking = [...pendingReloads(held, want).keys()].filter((id) => want.members.has(id));
  if (asking.length === 0) return offers;
  const asked = offers.filter(({ subscriptionId }) => asking.includes(subscriptionId));
  return held === null && asked.length === 0 ? offers : asked;
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
  // Where who asked has left, another's manifest may list what came before; unless the versions have begun anew.
  const pending = pendingReloads(asking.held, asking.want);
  const isGone = asking.held === null || !isListed(asking.held, history);
  const mayReplace = ({ subscriptionId, entry }: Offer): boolean =>
    pending.has(subscriptionId) || entry.version >= tableVersion || isGone;
  switch (need) {
    case 'table':
      return isReloadAnswered(asking, history) ? asked : [];
    case 'reload':
      return isReloadAnswered(asking, history) ? asked.filter(leadsFarEnough).filter(mayReplace) : [];
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

/**
 * Whether every subscription that asked for a reload offers what it asked for. One that has left is not waited for, and
 * where there is no table, one that lists nothing is not either: its reload stays wanted.
 */
function isReloadAnswered(asking: Asking, history: History): boolean {
  const { held, want, offers } = asking;
  return [...pendingReloads(held, want)].every(([subscriptionId, eventNumber]) => {
    const offer = offers.find((candidate) => candidate.subscriptionId === subscriptionId);
    if (offer === undefined) return held === null || !want.members.has(subscriptionId);
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
  const hasWaited = askedAt !== undefined && isLongAgo(askedAt, now);
  return hasWaited && (entry.version >= held.version || recordOf(held.version, history) === null);
}

/** What is known of a manifest's age beside its own word. */
export interface Age {
  /** Up to which event the log of its subscription was read. */
  readonly cursor: bigint | null;
  readonly now: Date;
}

/**
 * Whether a manifest that is no older than the table lists a lower version than the table has. One that does not say how
 * far it goes may lag, but not for so long.
 */
export function isSurelyLower(
  offer: Pick<Offer, 'entry' | 'reflects'>,
  held: HeldDataset,
  age: Age,
): boolean {
  return offer.entry.version < held.version && isNoOlder(offer, held, age);
}

function isNoOlder({ reflects }: Pick<Offer, 'reflects'>, held: HeldDataset, { cursor, now }: Age): boolean {
  if (reflects !== null) return cursor === null || reflects >= cursor;
  return isLongAgo(held.appliedAt, now);
}

/**
 * The reloads to want of a table that the list of versions does not name, or names another under its number: none where
 * some manifest lists it still, or where the table was loaded by the very word of those that do not.
 */
export function reloadsOfAnew(asking: Asking & Anew): readonly ReloadChange[] {
  const { held, history, offers, cursors, now } = asking;
  const isAnotherListed = recordOf(held.version, history) !== null;
  const lowest = isAnotherListed ? held.version + 1 : held.version;
  if (offers.some(({ entry }) => entry.version >= lowest)) return [];
  return offers.flatMap((offer) => {
    const { subscriptionId, reflects, entry } = offer;
    const cursor = cursors.get(subscriptionId) ?? null;
    const eventNumber = reflects ?? cursor ?? 0n;
    const satisfied = held.reloads.get(subscriptionId) ?? -1n;
    const isTold = isNoOlder(offer, held, { cursor, now }) && satisfied < eventNumber;
    return isTold ? [{ subscriptionId, eventNumber, version: entry.version }] : [];
  });
}

interface Anew {
  readonly held: HeldDataset;
  readonly history: History;
  readonly cursors: ReadonlyMap<string, bigint>;
}

/** Longer ago than a manifest lags. A moment in the future was written down by a clock that was wrong: nobody knows how long ago it is. */
export function isLongAgo(moment: Date, now: Date): boolean {
  return Math.abs(now.getTime() - moment.getTime()) >= LONGEST_LAG_MS;
}

/**
 * Each subscription's newest reload event that the loaded snapshot satisfies: those asked for, and those that a
 * manifest which lists this very snapshot reflects.
 */
export function reloadsSatisfiedBy(loaded: Offer, { want, offers }: Asking): ReadonlyMap<string, bigint> {
  const isOffered = (id: string): boolean => offers.some(({ subscriptionId }) => subscriptionId === id);
  const satisfied = new Map([...want.reloadAfter].filter(([id]) => isOffered(id) || !want.members.has(id)));
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
