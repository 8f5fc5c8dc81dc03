/**
 * Which entries of manifests answer what is needed. A manifest may lag: what it offers is loaded only where it surely meets
 * the need. An older version never replaces a newer one that the service still lists. Pure.
 */

import { isLaterMark, type Reload, type ReloadMark, type Want } from '../../model/desired-state.ts';
import { covers, snapshotDigest } from '../../model/manifest.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
import { isSatisfied, OPERATOR, owesResync, pendingReloads } from './need.ts';
import type { History, Offer } from './step.ts';
import { namingOf, schemaVersionAt, standingOfOffer } from './versions.ts';

export interface Asking {
  readonly want: Want;
  readonly held: HeldDataset | null;
  readonly history: History;
}

/** What is needed of a table, so that a snapshot may be loaded for it. */
export type Wanting = 'table' | 'reload' | 'resync' | 'version' | 'schema';

/** Whether loading `offer` meets the need, now that its version is known to be listed. */
export function isAnswering(need: Wanting, offer: Offer, asking: Asking): boolean {
  if (!mayBeLoaded(offer, asking)) return false;
  const { held, history } = asking;
  const { version, schemaVersion } = offer.entry;
  const tableVersion = held?.version ?? -1;
  switch (need) {
    case 'table':
    case 'resync':
      return true;
    case 'reload':
      return answeredBy(offer, asking).length > 0;
    case 'version':
      return version > tableVersion;
    case 'schema': {
      const wanted = schemaVersionAt(tableVersion, history);
      return version > tableVersion || schemaVersion === null || schemaVersion === wanted;
    }
  }
}

/**
 * Whether the offer may be loaded for anything: the list of versions names it; it reflects what its own subscription asked
 * for before; where that is owed a reload, it answers one; and it brings no lower version than one that is still listed.
 */
function mayBeLoaded(offer: Offer, asking: Asking): boolean {
  const { held, history } = asking;
  if (standingOfOffer(offer, history) !== 'named') return false;
  if (held === null) return ownPending(offer, asking).length === 0 || answeredBy(offer, asking).length > 0;
  if (lacksSatisfied(offer, held)) return false;
  if (ownPending(offer, asking).length > 0 && answeredBy(offer, asking).length === 0) return false;
  return offer.entry.version >= held.version || mayLower(asking, held);
}

/** Whether the offer may be from before what the table satisfies of its own subscription. A mark of an earlier log is void. */
function lacksSatisfied(offer: Offer, held: HeldDataset): boolean {
  const satisfied = held.reloads.get(offer.subscriptionId);
  return satisfied !== undefined && satisfied.logNumber >= offer.logNumber && !reflects(offer, satisfied);
}

/** Whether the manifest surely reflects the event. Numbers of another log tell nothing. */
function reflects({ watermark, logNumber }: Offer, mark: ReloadMark): boolean {
  return covers(watermark, mark) && (watermark.kind === 'time' || mark.logNumber === logNumber);
}

/** A version that the list names still is never gone back from. */
function mayLower({ want, history }: Asking, held: HeldDataset): boolean {
  const naming = namingOf(held, history);
  if (naming === 'named') return false;
  return naming === 'another' || naming === 'absent' || owesWithdrawal(held, want);
}

/** What the table holds was withdrawn or restarted, as far as is known, and nothing else has come in its place yet. */
export function owesWithdrawal(held: HeldDataset | null, want: Want): boolean {
  return pendingReloads(held, want).some(({ isWithdrawal }) => isWithdrawal);
}

/**
 * The reloads that loading the offer answers: those of its own subscription that it surely reflects, and those before them in
 * its log; and with them all of other subscriptions that were created no later than the newest of these.
 */
export function answeredBy(offer: Offer, asking: Asking): readonly Reload[] {
  const own = ownPending(offer, asking);
  const reflected = own.filter((reload) => isReflected(reload, offer, asking));
  if (reflected.length === 0) return [];
  const newest = Math.max(...reflected.map(({ createdAt }) => createdAt.getTime()));
  const isBeforeReflected = (reload: Reload): boolean => reflected.some((one) => !isLaterMark(reload, one));
  return pendingReloads(asking.held, asking.want).filter((reload) =>
    own.includes(reload) ? isBeforeReflected(reload) : reload.createdAt.getTime() <= newest,
  );
}

function ownPending({ subscriptionId }: Offer, { held, want }: Asking): readonly Reload[] {
  return pendingReloads(held, want).filter((reload) => reload.subscriptionId === subscriptionId);
}

function isReflected(reload: Reload, offer: Offer, asking: Asking): boolean {
  return reflects(offer, reload) || isAboveKnown(reload, offer, asking) || isOther(reload, offer, asking);
}

/** A version above every one that was known when the reload was asked for was published after it. */
function isAboveKnown(reload: Reload, { entry }: Offer, { held, history }: Asking): boolean {
  const { knownVersion, listedVersion } = reload;
  if (knownVersion === null || listedVersion === null) return false;
  if (entry.version <= Math.max(knownVersion, listedVersion)) return false;
  return held !== null && namingOf(held, history) === 'named';
}

/**
 * The manifest that the table was loaded through states other content for the very version it was loaded from, and only
 * this reload was asked for since. One from before that is owed still could be what the other content answers.
 */
function isOther(reload: Reload, { entry, through }: Offer, { held, want, history }: Asking): boolean {
  if (held === null || held.loadedAt === null || held.digestKind !== 'stated') return false;
  const loadedAt = held.loadedAt;
  const digest = snapshotDigest(entry.files);
  const isOtherContent =
    held.loadedThrough === through &&
    held.snapshotVersion === entry.version &&
    digest !== null &&
    digest !== held.snapshotDigest;
  if (!isOtherContent || loadedAt >= reload.readAt || namingOf(held, history) !== 'named') return false;
  const isOpen = (other: Reload): boolean => other.readAt >= loadedAt || !isSatisfied(other, held);
  return want.reloads.every((other) => other === reload || !isOpen(other));
}

/** The newest reload of each subscription that the table satisfies once the offer is loaded. */
export function satisfiedAfter(offer: Offer, asking: Asking): ReadonlyMap<string, ReloadMark> {
  const { held, want } = asking;
  const satisfied = new Map<string, ReloadMark>();
  const add = (id: string, mark: ReloadMark): void => {
    const before = satisfied.get(id) ?? held?.reloads.get(id);
    if (before === undefined || isLaterMark(mark, before)) satisfied.set(id, mark);
  };
  // Where there is no table, nothing is owed to subscriptions that dropped the dataset.
  const ofFormer =
    held === null ? want.reloads.filter(({ subscriptionId }) => !want.members.has(subscriptionId)) : [];
  for (const { subscriptionId, logNumber, eventNumber, createdAt } of [
    ...answeredBy(offer, asking),
    ...ofFormer,
  ]) {
    add(subscriptionId, { logNumber, eventNumber, createdAt });
  }
  const { resyncNumber } = want;
  if (resyncNumber > 0 && owesResync(held, want)) {
    add(OPERATOR, { logNumber: 1, eventNumber: BigInt(resyncNumber), createdAt: null });
  }
  return satisfied;
}

/**
 * When the earliest of the manifests that do not say how far they go reflects one more of what its own subscription asked for,
 * in service time; null: no time is known.
 */
export function answeredAt(asking: Asking, offers: readonly Offer[], manifestLagMs: number): Date | null {
  const byTime = offers.filter(({ watermark }) => watermark.kind === 'time');
  const times = byTime.flatMap((offer) =>
    [...ownPending(offer, asking), ...satisfiedOf(offer, asking)]
      .filter((mark) => !reflects(offer, mark))
      .flatMap(({ createdAt }) => (createdAt === null ? [] : createdAt.getTime() + manifestLagMs)),
  );
  return times.length === 0 ? null : new Date(Math.min(...times));
}

function satisfiedOf({ subscriptionId }: Offer, { held }: Asking): readonly ReloadMark[] {
  const mark = held?.reloads.get(subscriptionId);
  return mark === undefined ? [] : [mark];
}

/**
 * Reloads that the table owes to subscriptions that dropped the dataset since. Any subscription that contains it answers
 * them, as if it had asked for a reload itself since: those of which none has yet.
 */
export function orphanReloads(held: HeldDataset | null, want: Want): readonly Reload[] {
  if (held === null || want.members.size === 0) return [];
  const pending = pendingReloads(held, want);
  return pending.filter(
    (orphan) =>
      !want.members.has(orphan.subscriptionId) &&
      !pending.some((other) => want.members.has(other.subscriptionId) && other.createdAt >= orphan.createdAt),
  );
}
