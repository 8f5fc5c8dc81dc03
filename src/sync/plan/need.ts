/**
 * Decides what a dataset needs, each time from the desired and the observed state alone, and which manifest entries satisfy it. A
 * manifest may lag, so its entry is loaded only where it surely meets the need. An older version never replaces a newer one that
 * the service still lists. Pure.
 */

import {
  announcedVersion,
  type DesiredState,
  isLaterMark,
  type Reload,
  type ReloadMark,
} from '../../model/desired-state.ts';
import { covers, type ListedEntry, snapshotDigest } from '../../model/manifest.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Metadata } from './step.ts';
import { confirmationOf, headOf, namingOf, schemaVersionAt } from './versions.ts';

export type Need =
  | 'table'
  /** A requested reload is not satisfied yet. */
  | 'reload'
  /** An operator asked for a resync. */
  | 'resync'
  /** A newer version is desired, or was published. */
  | 'version'
  /** The table has the version of the head, but another schema. */
  | 'schema'
  /** Versions and schemas must be read. */
  | 'refresh'
  | 'nothing';

/** The key of an operator's resync among the reloads of a table: no subscription has this id. */
export const OPERATOR = '';

/**
 * Returns the most pressing need; an earlier need makes the later ones moot. Without the metadata only announced
 * versions are known; with the metadata, published ones are, too.
 */
export function needOf(
  observed: ObservedTable | null,
  desired: DesiredState,
  metadata: Metadata | null = null,
): Need {
  if (observed === null) return 'table';
  if (pendingReloads(observed, desired).length > 0) return 'reload';
  if (owesResync(observed, desired)) return 'resync';
  return needOfChanges(observed, desired, metadata);
}

/** Returns the need of a table apart from the reloads it owes. */
export function needOfChanges(
  observed: ObservedTable,
  desired: DesiredState,
  metadata: Metadata | null,
): 'version' | 'schema' | 'refresh' | 'nothing' {
  if (observed.version < targetOf(desired, metadata)) return 'version';
  if (metadata === null) return isRefreshPending(desired) ? 'refresh' : 'nothing';
  return hasSchemaOfItsVersion(observed, metadata) ? 'nothing' : 'schema';
}

/** Returns the reloads that the table does not satisfy yet. */
export function pendingReloads(observed: ObservedTable | null, { reloads }: DesiredState): readonly Reload[] {
  return reloads.filter((reload) => !isSatisfied(reload, observed));
}

/** Returns whether the table satisfies a reload. A number of another log than the reload's is void. */
export function isSatisfied(reload: Reload, observed: ObservedTable | null): boolean {
  const mark = observed?.reloads.get(reload.subscriptionId);
  return mark !== undefined && !isLaterMark(reload, mark);
}

export function isRefreshPending({ refreshesRequested, refreshesDone }: DesiredState): boolean {
  return refreshesDone < refreshesRequested;
}

export function owesResync(observed: ObservedTable | null, { resyncNumber }: DesiredState): boolean {
  if (resyncNumber === 0) return false;
  return (observed?.reloads.get(OPERATOR)?.eventNumber ?? 0n) < BigInt(resyncNumber);
}

/** Returns whether a load that satisfies these reloads is to move the table into the schema that the settings say. */
export function movesWith(
  reloads: ReadonlyMap<string, ReloadMark>,
  observed: ObservedTable | null,
  { moveNumber }: DesiredState,
): boolean {
  const [before, after] = [observed?.reloads, reloads].map(
    (marks) => marks?.get(OPERATOR)?.eventNumber ?? 0n,
  );
  return moveNumber > (before ?? 0n) && moveNumber <= (after ?? 0n);
}

/**
 * Returns whether data read for one state serves the other, too: nothing was requested in between that the service may not have
 * known yet.
 */
export function asksTheSame(left: DesiredState, right: DesiredState): boolean {
  return left === right || saidOf(left) === saidOf(right);
}

function saidOf({ members, reloads, refreshesRequested, resyncNumber }: DesiredState): string {
  const ofMembers = [...members].map(([id, { eventNumber, announced }]) => [
    id,
    String(eventNumber),
    announced,
  ]);
  const ofReloads = reloads.map(({ subscriptionId, eventNumber, createdAt }) => [
    subscriptionId,
    String(eventNumber),
    createdAt.getTime(),
  ]);
  return JSON.stringify([ofMembers, ofReloads, refreshesRequested, resyncNumber]);
}

/** Returns whether every subscription that contains the dataset has announced this version, and so every earlier event. */
export function isAnnounced({ members }: DesiredState, version: number): boolean {
  return [...members.values()].every(({ announced }) => (announced ?? -1) >= version);
}

/**
 * Returns the target version: the newest published one, but at least the announced one. Returns a number below every
 * version where nothing is known.
 */
function targetOf(desired: DesiredState, metadata: Metadata | null): number {
  const head = metadata === null ? null : headOf(metadata);
  return Math.max(announcedVersion(desired) ?? -1, head?.version ?? -1);
}

/** No other schema is expected of a table that is ahead of the list, or whose schema the service does not state. */
function hasSchemaOfItsVersion(observed: ObservedTable, metadata: Metadata): boolean {
  const schemaVersion = schemaVersionAt(observed.version, metadata);
  return schemaVersion === null || schemaVersion === observed.schemaVersion;
}

export interface Asking {
  readonly desired: DesiredState;
  readonly observed: ObservedTable | null;
  readonly metadata: Metadata;
}

/** A need for which a snapshot may be loaded. */
export type SnapshotNeed = 'table' | 'reload' | 'resync' | 'version' | 'schema';

/** Returns whether loading the entry meets the need, given that the list names its version. */
export function isAnswering(need: SnapshotNeed, listedEntry: ListedEntry, asking: Asking): boolean {
  if (!mayBeLoaded(listedEntry, asking)) return false;
  const { observed, metadata } = asking;
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
      const expected = schemaVersionAt(tableVersion, metadata);
      return version > tableVersion || schemaVersion === null || schemaVersion === expected;
    }
  }
}

/**
 * Returns whether the entry may be loaded at all: the list names its version; its manifest covers the earlier reloads of its
 * own subscription; where that subscription owes a reload, the entry satisfies one; and it does not lower the table
 * below a version that is still listed.
 */
function mayBeLoaded(listedEntry: ListedEntry, asking: Asking): boolean {
  const { observed, metadata } = asking;
  if (confirmationOf(listedEntry, metadata) !== 'named') return false;
  if (observed === null)
    return ownPending(listedEntry, asking).length === 0 || answeredBy(listedEntry, asking).length > 0;
  if (lacksSatisfied(listedEntry, observed)) return false;
  if (ownPending(listedEntry, asking).length > 0 && answeredBy(listedEntry, asking).length === 0)
    return false;
  return listedEntry.entry.version >= observed.version || mayLower(asking, observed);
}

/**
 * Returns whether the entry may predate a reload of its own subscription that the table already satisfies. A mark of an earlier log
 * is void.
 */
export function lacksSatisfied(listedEntry: ListedEntry, observed: ObservedTable): boolean {
  const satisfied = observed.reloads.get(listedEntry.subscriptionId);
  return (
    satisfied !== undefined &&
    satisfied.logNumber >= listedEntry.logNumber &&
    !watermarkCovers(listedEntry, satisfied)
  );
}

/** Returns whether the manifest surely covers the event. Event numbers of different logs cannot be compared. */
function watermarkCovers({ watermark, logNumber }: ListedEntry, mark: ReloadMark): boolean {
  return covers(watermark, mark) && (watermark.kind === 'time' || mark.logNumber === logNumber);
}

/** A table never goes back from a version that the list still names. */
function mayLower({ desired, metadata }: Asking, observed: ObservedTable): boolean {
  const naming = namingOf(observed, metadata);
  if (naming === 'named') return false;
  return naming === 'another' || naming === 'absent' || owesWithdrawal(observed, desired);
}

/** Returns whether the table's content is known to be withdrawn or restarted, and nothing else has replaced it yet. */
export function owesWithdrawal(observed: ObservedTable | null, desired: DesiredState): boolean {
  return pendingReloads(observed, desired).some(({ isWithdrawal }) => isWithdrawal);
}

/**
 * Returns the reloads that loading the entry satisfies: the reloads of its own subscription that the manifest surely
 * covers, with all earlier ones of that log, and all reloads of other subscriptions that were created no later than the
 * newest of these.
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

/** A version above every version known at the time of the reload request was published after the request. */
function isAboveKnown(reload: Reload, { entry }: ListedEntry, { observed, metadata }: Asking): boolean {
  const { knownVersion, listedVersion } = reload;
  if (knownVersion === null || listedVersion === null) return false;
  if (entry.version <= Math.max(knownVersion, listedVersion)) return false;
  return observed !== null && namingOf(observed, metadata) === 'named';
}

/**
 * Returns whether the manifest through which the table was loaded now states other content for the version the table was loaded
 * from, and only this reload was requested since. An older unsatisfied reload could be the one that the other content
 * satisfies.
 */
function isOther(
  reload: Reload,
  { entry, through }: ListedEntry,
  { observed, desired, metadata }: Asking,
): boolean {
  if (observed === null || observed.loadedAt === null || observed.digestKind !== 'stated') return false;
  const loadedAt = observed.loadedAt;
  const digest = snapshotDigest(entry.files);
  const isOtherContent =
    observed.loadedThrough === through &&
    observed.snapshotVersion === entry.version &&
    digest !== null &&
    digest !== observed.snapshotDigest;
  if (!isOtherContent || loadedAt >= reload.readAt || namingOf(observed, metadata) !== 'named') return false;
  const isOpen = (other: Reload): boolean => other.readAt >= loadedAt || !isSatisfied(other, observed);
  return desired.reloads.every((other) => other === reload || !isOpen(other));
}

/** Returns the newest reload of each subscription that the table satisfies once the entry is loaded. */
export function satisfiedAfter(listedEntry: ListedEntry, asking: Asking): ReadonlyMap<string, ReloadMark> {
  const { observed, desired } = asking;
  const satisfied = new Map<string, ReloadMark>();
  const add = (id: string, mark: ReloadMark): void => {
    const before = satisfied.get(id) ?? observed?.reloads.get(id);
    if (before === undefined || isLaterMark(mark, before)) satisfied.set(id, mark);
  };
  // Without a table, nothing is owed to subscriptions that dropped the dataset.
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
 * Returns the earliest service time at which a manifest without a watermark covers one more reload of its own
 * subscription; null: no such time is known.
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
 * Returns the reloads that the table owes to subscriptions which dropped the dataset since, and which no other subscription has
 * satisfied yet. Any subscription that contains the dataset satisfies them, as if it had asked for a reload itself since.
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
