/**
 * Which entries of manifests answer what is needed. A manifest may lag: what it offers is loaded only where it surely meets
 * the need. An older version never replaces a newer one that the service still lists. Pure.
 */

import { type DesiredState, isLaterMark, type Reload, type ReloadMark } from '../../model/desired-state.ts';
import { covers, snapshotDigest } from '../../model/manifest.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { isSatisfied, OPERATOR, owesResync, pendingReloads } from './need.ts';
import type { History, ListedEntry } from './step.ts';
import { namingOf, schemaVersionAt, standingOfEntry } from './versions.ts';

export interface Asking {
  readonly desired: DesiredState;
  readonly observed: ObservedTable | null;
  readonly history: History;
}

/** What is needed of a table, so that a snapshot may be loaded for it. */
export type Wanting = 'table' | 'reload' | 'resync' | 'version' | 'schema';

/** Whether loading `offer` meets the need, now that its version is known to be listed. */
export function isAnswering(need: Wanting, listedEntry: ListedEntry, asking: Asking): boolean {
  if (!mayBeLoaded(listedEntry, asking)) return false;
  const { observed, history } = asking;
  const { version, schemaVersion } = listedEntry.entry;
  const tableVersion = observed?.version ?? -1;
  switch (need) {
    case 'table':
    case 'resync':
      return true;
    case 'reload':
      return answeredBy(listedEntry, asking).length > 0;
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
function mayBeLoaded(listedEntry: ListedEntry, asking: Asking): boolean {
  const { observed, history } = asking;
  if (standingOfEntry(listedEntry, history) !== 'named') return false;
  if (observed === null)
    return ownPending(listedEntry, asking).length === 0 || answeredBy(listedEntry, asking).length > 0;
  if (lacksSatisfied(listedEntry, observed)) return false;
  if (ownPending(listedEntry, asking).length > 0 && answeredBy(listedEntry, asking).length === 0)
    return false;
  return listedEntry.entry.version >= observed.version || mayLower(asking, observed);
}

/** Whether the offer may be from before what the table satisfies of its own subscription. A mark of an earlier log is void. */
function lacksSatisfied(listedEntry: ListedEntry, observed: ObservedTable): boolean {
  const satisfied = observed.reloads.get(listedEntry.subscriptionId);
  return (
    satisfied !== undefined &&
    satisfied.logNumber >= listedEntry.logNumber &&
    !watermarkCovers(listedEntry, satisfied)
  );
}

/** Whether the manifest surely reflects the event. Numbers of another log tell nothing. */
function watermarkCovers({ watermark, logNumber }: ListedEntry, mark: ReloadMark): boolean {
  return covers(watermark, mark) && (watermark.kind === 'time' || mark.logNumber === logNumber);
}

/** A version that the list names still is never gone back from. */
function mayLower({ desired, history }: Asking, observed: ObservedTable): boolean {
  const naming = namingOf(observed, history);
  if (naming === 'named') return false;
  return naming === 'another' || naming === 'absent' || owesWithdrawal(observed, desired);
}

/** What the table holds was withdrawn or restarted, as far as is known, and nothing else has come in its place yet. */
export function owesWithdrawal(observed: ObservedTable | null, desired: DesiredState): boolean {
  return pendingReloads(observed, desired).some(({ isWithdrawal }) => isWithdrawal);
}

/**
 * The reloads that loading the offer answers: those of its own subscription that it surely reflects, and those before them in
 * its log; and with them all of other subscriptions that were created no later than the newest of these.
 */
export function answeredBy(listedEntry: ListedEntry, asking: Asking): readonly Reload[] {
  const own = ownPending(listedEntry, asking);
  const reflected = own.filter((reload) => isReflected(reload, listedEntry, asking));
  if (reflected.length === 0) return [];
  const newest = Math.max(...reflected.map(({ createdAt }) => createdAt.getTime()));
  const isBeforeReflected = (reload: Reload): boolean => reflected.some((one) => !isLaterMark(reload, one));
  return pendingReloads(asking.observed, asking.desired).filter((reload) =>
    own.includes(reload) ? isBeforeReflected(reload) : reload.createdAt.getTime() <= newest,
  );
}

function ownPending({ subscriptionId }: ListedEntry, { observed, desired }: Asking): readonly Reload[] {
  return pendingReloads(observed, desired).filter((reload) => reload.subscriptionId === subscriptionId);
}

function isReflected(reload: Reload, listedEntry: ListedEntry, asking: Asking): boolean {
  return (
    watermarkCovers(listedEntry, reload) ||
    isAboveKnown(reload, listedEntry, asking) ||
    isOther(reload, listedEntry, asking)
  );
}

/** A version above every one that was known when the reload was asked for was published after it. */
function isAboveKnown(reload: Reload, { entry }: ListedEntry, { observed, history }: Asking): boolean {
  const { knownVersion, listedVersion } = reload;
  if (knownVersion === null || listedVersion === null) return false;
  if (entry.version <= Math.max(knownVersion, listedVersion)) return false;
  return observed !== null && namingOf(observed, history) === 'named';
}

/**
 * The manifest that the table was loaded through states other content for the very version it was loaded from, and only
 * this reload was asked for since. One from before that is owed still could be what the other content answers.
 */
function isOther(
  reload: Reload,
  { entry, through }: ListedEntry,
  { observed, desired, history }: Asking,
): boolean {
  if (observed === null || observed.loadedAt === null || observed.digestKind !== 'stated') return false;
  const loadedAt = observed.loadedAt;
  const digest = snapshotDigest(entry.files);
  const isOtherContent =
    observed.loadedThrough === through &&
    observed.snapshotVersion === entry.version &&
    digest !== null &&
    digest !== observed.snapshotDigest;
  if (!isOtherContent || loadedAt >= reload.readAt || namingOf(observed, history) !== 'named') return false;
  const isOpen = (other: Reload): boolean => other.readAt >= loadedAt || !isSatisfied(other, observed);
  return desired.reloads.every((other) => other === reload || !isOpen(other));
}

/** The newest reload of each subscription that the table satisfies once the offer is loaded. */
export function satisfiedAfter(listedEntry: ListedEntry, asking: Asking): ReadonlyMap<string, ReloadMark> {
  const { observed, desired } = asking;
  const satisfied = new Map<string, ReloadMark>();
  const add = (id: string, mark: ReloadMark): void => {
    const before = satisfied.get(id) ?? observed?.reloads.get(id);
    if (before === undefined || isLaterMark(mark, before)) satisfied.set(id, mark);
  };
  // Where there is no table, nothing is owed to subscriptions that dropped the dataset.
  const ofFormer =
    observed === null
      ? desired.reloads.filter(({ subscriptionId }) => !desired.members.has(subscriptionId))
      : [];
  for (const { subscriptionId, logNumber, eventNumber, createdAt } of [
    ...answeredBy(listedEntry, asking),
    ...ofFormer,
  ]) {
    add(subscriptionId, { logNumber, eventNumber, createdAt });
  }
  const { resyncNumber } = desired;
  if (resyncNumber > 0 && owesResync(observed, desired)) {
    add(OPERATOR, { logNumber: 1, eventNumber: BigInt(resyncNumber), createdAt: null });
  }
  return satisfied;
}

/**
 * When the earliest of the manifests that do not say how far they go reflects one more of what its own subscription asked for,
 * in service time; null: no time is known.
 */
export function answeredAt(
  asking: Asking,
  listedEntries: readonly ListedEntry[],
  manifestLagMs: number,
): Date | null {
  const byTime = listedEntries.filter(({ watermark }) => watermark.kind === 'time');
  const times = byTime.flatMap((listedEntry) =>
    [...ownPending(listedEntry, asking), ...satisfiedOf(listedEntry, asking)]
      .filter((mark) => !watermarkCovers(listedEntry, mark))
      .flatMap(({ createdAt }) => (createdAt === null ? [] : createdAt.getTime() + manifestLagMs)),
  );
  return times.length === 0 ? null : new Date(Math.min(...times));
}

function satisfiedOf({ subscriptionId }: ListedEntry, { observed }: Asking): readonly ReloadMark[] {
  const mark = observed?.reloads.get(subscriptionId);
  return mark === undefined ? [] : [mark];
}

/**
 * Reloads that the table owes to subscriptions that dropped the dataset since. Any subscription that contains it answers
 * them, as if it had asked for a reload itself since: those of which none has yet.
 */
export function orphanReloads(observed: ObservedTable | null, desired: DesiredState): readonly Reload[] {
  if (observed === null || desired.members.size === 0) return [];
  const pending = pendingReloads(observed, desired);
  return pending.filter(
    (orphan) =>
      !desired.members.has(orphan.subscriptionId) &&
      !pending.some(
        (other) => desired.members.has(other.subscriptionId) && other.createdAt >= orphan.createdAt,
      ),
  );
}
