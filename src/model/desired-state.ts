/**
 * The desired state of a dataset. It is never cleared when it is reached: whether a dataset is behind is computed from the
 * desired and the observed state, so a destination restored from a backup counts as behind. A subscription's announcements are
 * void once it drops the dataset; a reload that it asked for stays owed by the table.
 */

import { unreachable } from '../lib/assert.ts';
import type { EventId } from './event.ts';

export interface DesiredState {
  readonly datasetId: string;
  /** The subscriptions that contain the dataset, by id. */
  readonly members: ReadonlyMap<string, Member>;
  /** The subscriptions that contained the dataset and dropped it, by id. */
  readonly formerMembers: ReadonlyMap<string, FormerMember>;
  /** Every requested reload that may still be owed, oldest first within each subscription. */
  readonly reloads: readonly Reload[];
  /** Grows with every resync that an operator requests, from 0. The destination records which one the table satisfies. */
  readonly resyncNumber: number;
  /** The newest resync that is to move the table into the schema that the settings say; 0: none is. */
  readonly moveNumber: number;
  /** A metadata refresh is owed while more refreshes were requested than done. */
  readonly refreshesRequested: number;
  readonly refreshesDone: number;
  /**
   * True when an operator has approved retiring the table, however many others retire with it. Ends once a subscription
   * contains the dataset again.
   */
  readonly retirementApproved: boolean;
}

/** A subscription that contains the dataset. */
export interface Member {
  /** The event that added the dataset, or the watermark of the manifest that listed it; null when neither is known. */
  readonly eventNumber: bigint | null;
  /** The service time of joining. */
  readonly since: Date;
  /** The lowest version that satisfies the subscription's announcements; null when none is known. */
  readonly announced: number | null;
}

/** A subscription that dropped the dataset. */
export interface FormerMember {
  /** As for a member. */
  readonly eventNumber: bigint | null;
  /** The service time of dropping the dataset. */
  readonly at: Date;
  /** The service's word for the reason; null when it gave none. */
  readonly reason: string | null;
}

/** A reload that an event requested, or a request made at a time, which counts as the newest event of that time. */
export interface Reload {
  readonly subscriptionId: string;
  /** The number of the subscription's log: event numbers of another log are void. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** The service time of the event's creation, or of the request. */
  readonly createdAt: Date;
  /** The service time at which the request was read. */
  readonly readAt: Date;
  /** The highest version, of the table or announced, that was known when the request was read; null when unknown. */
  readonly knownVersion: number | null;
  /** The newest version in the first list of versions that was read afterwards; null when none was read. */
  readonly listedVersion: number | null;
  /** True when the table contains withdrawn or restarted versions: it takes no changes until this reload is satisfied. */
  readonly isWithdrawal: boolean;
}

/** The source of a change: its time, and its event if there is one. */
interface Announcement {
  readonly datasetId: string;
  readonly eventNumber: bigint | null;
  /** The service time of the event's creation; without an event, the time up to which the manifest reflects events. */
  readonly at: Date;
}

/** One change of the desired state by one subscription. Repeating it, or making it after a later one, has no effect. */
export type DesiredStateChange =
  /** The subscription contains the dataset, and desires at least `version`; null when nothing is announced. */
  | ({ readonly kind: 'member'; readonly version: number | null } & Announcement)
  /** The subscription no longer contains the dataset. */
  | ({ readonly kind: 'no-member'; readonly reason: string | null } & Announcement)
  /** A member desires at least this version. */
  | {
      readonly kind: 'at-least';
      readonly datasetId: string;
      readonly version: number;
      readonly eventNumber: bigint;
    }
  /** The announced version became unknown, because the position in the log was lost. */
  | { readonly kind: 'nothing-announced'; readonly datasetId: string }
  /**
   * The table must be loaded from a snapshot that satisfies this reload. `version` replaces the subscription's announcement;
   * null leaves the announcement out.
   */
  | ({
      readonly kind: 'reload';
      readonly datasetId: string;
      readonly version: number | null;
    } & Omit<Reload, 'subscriptionId' | 'listedVersion'>)
  /** The dataset's versions and schemas must be read. */
  | { readonly kind: 'refresh'; readonly datasetId: string };

/** The changes of one step of reading a subscription, committed together. */
export interface FollowStep {
  readonly subscriptionId: string;
  readonly subscriptionName: string | null;
  readonly position: LogPosition;
  /**
   * Earlier statements that become void before the changes:
   * - `numbers`: everything that event numbers of the log have decided or requested, because of a log restart.
   * - `everything`: all statements of the subscription, because a better source replaces them.
   */
  readonly voids?: 'numbers' | 'everything';
  /** True when the record has named the newest event of this log. Otherwise the stored value stays. */
  readonly statesLastEvent?: boolean;
  readonly changes: readonly DesiredStateChange[];
}

/** The position from which the log of a subscription is read. */
export interface LogPosition {
  /** The number of the subscription's log, from 1; each log restart adds one. */
  readonly logNumber: number;
  /** The newest event that was read; null when none was. */
  readonly cursor: EventId | null;
  /** The service time of that event's creation; null when unknown. */
  readonly cursorCreatedAt: Date | null;
  /**
   * Expired-cursor replay: the log is read from its start, and events up to the cursor are skipped, because the service no
   * longer keeps the cursor's position and no newer event has come.
   */
  readonly isExpiredCursorReplay: boolean;
  /** The manifest behind the tables reflects all events created up to this time, so these events only change memberships. */
  readonly coveredUntil: Date | null;
  /** The service time at which the position was read. */
  readonly readAt: Date;
}

/** Returns the desired state of a dataset without any statement about it. */
export function emptyDesiredState(datasetId: string): DesiredState {
  return {
    datasetId,
    members: new Map(),
    formerMembers: new Map(),
    reloads: [],
    resyncNumber: 0,
    moveNumber: 0,
    refreshesRequested: 0,
    refreshesDone: 0,
    retirementApproved: false,
  };
}

/** Returns the highest version announced by a subscription that contains the dataset; null when none is known. */
export function announcedVersion(desired: DesiredState): number | null {
  return announcedVersions(desired).reduce<number | null>(
    (highest, announced) => Math.max(highest ?? announced, announced),
    null,
  );
}

/** Returns the announced version of each subscription that contains the dataset and has announced one. */
export function announcedVersions({ members }: DesiredState): readonly number[] {
  return [...members.values()].flatMap(({ announced }) => announced ?? []);
}

/** The most separate reloads of one subscription. The oldest and the newest are always kept. */
export const MAX_RELOADS_KEPT = 64;

/** Returns the desired state after a change by the subscription. */
export function changedDesiredState(
  desired: DesiredState,
  subscriptionId: string,
  change: DesiredStateChange,
): DesiredState {
  switch (change.kind) {
    case 'member':
      return withMember(desired, subscriptionId, change);
    case 'no-member':
      return withoutMember(desired, subscriptionId, change);
    case 'at-least':
      return withVersion(desired, subscriptionId, change);
    case 'nothing-announced':
      return withAnnounced(desired, subscriptionId, null);
    case 'reload':
      return withReload(desired, subscriptionId, change);
    case 'refresh':
      return desired.members.has(subscriptionId)
        ? { ...desired, refreshesRequested: desired.refreshesRequested + 1 }
        : desired;
    default:
      return unreachable(change);
  }
}

/** Voids the event numbers of the subscription's log, because the log was restarted. */
export function withoutLog(desired: DesiredState, subscriptionId: string): DesiredState {
  const member = desired.members.get(subscriptionId);
  const former = desired.formerMembers.get(subscriptionId);
  return {
    ...desired,
    members:
      member === undefined
        ? desired.members
        : withEntry(desired.members, subscriptionId, { ...member, eventNumber: null, announced: null }),
    formerMembers:
      former === undefined
        ? desired.formerMembers
        : withEntry(desired.formerMembers, subscriptionId, { ...former, eventNumber: null }),
    reloads: desired.reloads.filter((reload) => reload.subscriptionId !== subscriptionId),
  };
}

/** Removes everything that a forgotten subscription has stated. */
export function withoutSubscription(desired: DesiredState, subscriptionId: string): DesiredState {
  return {
    ...desired,
    members: withoutEntry(desired.members, subscriptionId),
    formerMembers: withoutEntry(desired.formerMembers, subscriptionId),
    reloads: desired.reloads.filter((reload) => reload.subscriptionId !== subscriptionId),
  };
}

/** Lowers announcements above `version`, because those versions were withdrawn. */
export function withoutAnnouncedAbove(desired: DesiredState, version: number): DesiredState {
  if ((announcedVersion(desired) ?? version) <= version) return desired;
  const members = [...desired.members].map(([id, member]): [string, Member] =>
    (member.announced ?? version) <= version ? [id, member] : [id, { ...member, announced: version }],
  );
  return { ...desired, members: new Map(members) };
}

/** Records the first list of versions that was read after the reloads; `newest` is the newest version in it. */
export function withListed(desired: DesiredState, newest: number): DesiredState {
  if (desired.reloads.every(({ listedVersion }) => listedVersion !== null)) return desired;
  const reloads = desired.reloads.map((reload) =>
    reload.listedVersion === null ? { ...reload, listedVersion: newest } : reload,
  );
  return { ...desired, reloads };
}

/** Adds reloads that the table may owe again. */
export function withOwed(desired: DesiredState, reloads: readonly Reload[]): DesiredState {
  const isKnown = (reload: Reload): boolean =>
    desired.reloads.some(
      ({ subscriptionId, logNumber, eventNumber }) =>
        subscriptionId === reload.subscriptionId &&
        logNumber === reload.logNumber &&
        eventNumber === reload.eventNumber,
    );
  const missing = reloads.filter((reload) => !isKnown(reload));
  return missing.length === 0
    ? desired
    : { ...desired, reloads: [...desired.reloads, ...missing].toSorted(byNumber) };
}

/** A resync that an operator requested. */
export interface Resync {
  readonly datasetId: string;
  readonly resyncNumber: number;
  readonly moveNumber: number;
}

/** Adds a resync. One of a dataset that no subscription contains is void, as is one that is not newer than the known one. */
export function withResync(desired: DesiredState, { resyncNumber, moveNumber }: Resync): DesiredState {
  if (desired.members.size === 0 || resyncNumber <= desired.resyncNumber) return desired;
  return { ...desired, resyncNumber, moveNumber };
}

/** Records that the table satisfies these reloads, of which only the newest per subscription is remembered. */
export function withoutAnswered(
  desired: DesiredState,
  isSatisfied: (reload: Reload) => boolean,
): DesiredState {
  const newest = new Map<string, Reload>();
  for (const reload of desired.reloads) if (isSatisfied(reload)) newest.set(reload.subscriptionId, reload);
  const kept = new Set(newest.values());
  const reloads = desired.reloads.filter((reload) => !isSatisfied(reload) || kept.has(reload));
  return reloads.length === desired.reloads.length ? desired : { ...desired, reloads };
}

type Of<Kind extends DesiredStateChange['kind']> = Extract<DesiredStateChange, { readonly kind: Kind }>;

function withMember(desired: DesiredState, subscriptionId: string, change: Of<'member'>): DesiredState {
  const { eventNumber, at, version } = change;
  const member = desired.members.get(subscriptionId);
  if (member !== undefined) {
    if (!isLater(change, decisionOf(member))) return desired;
    return withDecided(desired, subscriptionId, { eventNumber, since: at, announced: version });
  }
  const former = desired.formerMembers.get(subscriptionId);
  if (former !== undefined && !undoes(change, former)) return desired;
  const joined = withDecided(desired, subscriptionId, { eventNumber, since: at, announced: version });
  return { ...joined, retirementApproved: false };
}

function withDecided(desired: DesiredState, subscriptionId: string, member: Member): DesiredState {
  return {
    ...desired,
    members: withEntry(desired.members, subscriptionId, member),
    formerMembers: withoutEntry(desired.formerMembers, subscriptionId),
  };
}

/** A dataset that is dropped twice keeps the stated reason. */
function withoutMember(desired: DesiredState, subscriptionId: string, change: Of<'no-member'>): DesiredState {
  const member = desired.members.get(subscriptionId);
  const former = desired.formerMembers.get(subscriptionId);
  if (member !== undefined && !undoes(change, decisionOf(member))) return desired;
  if (former !== undefined && !isLater(change, former)) return desired;
  const dropped: FormerMember = {
    eventNumber: change.eventNumber,
    at: change.at,
    reason: change.reason ?? former?.reason ?? null,
  };
  return {
    ...desired,
    members: withoutEntry(desired.members, subscriptionId),
    formerMembers: withEntry(desired.formerMembers, subscriptionId, dropped),
  };
}

/** An event announces nothing when it is older than the subscription's newest reload, or than the dataset's joining. */
function withVersion(
  desired: DesiredState,
  subscriptionId: string,
  { version, eventNumber }: Of<'at-least'>,
): DesiredState {
  const member = desired.members.get(subscriptionId);
  if (member === undefined || (member.announced ?? -1) >= version) return desired;
  const isBeforeJoining = member.eventNumber !== null && eventNumber < member.eventNumber;
  const isBeforeReload = desired.reloads.some(
    (reload) => reload.subscriptionId === subscriptionId && reload.eventNumber > eventNumber,
  );
  return isBeforeJoining || isBeforeReload ? desired : withAnnounced(desired, subscriptionId, version);
}

function withAnnounced(
  desired: DesiredState,
  subscriptionId: string,
  announced: number | null,
): DesiredState {
  const member = desired.members.get(subscriptionId);
  if (member === undefined || member.announced === announced) return desired;
  return { ...desired, members: withEntry(desired.members, subscriptionId, { ...member, announced }) };
}

/**
 * A record lists members as of its newest event, but its content was read only up to `since`: a reload that was created later
 * is owed, although its number is lower.
 */
function isBeforeJoining({ eventNumber, createdAt }: Of<'reload'>, member: Member): boolean {
  return member.eventNumber !== null && eventNumber < member.eventNumber && createdAt <= member.since;
}

/** A reload may bring a lower version, so its event replaces the subscription's earlier announcement. */
function withReload(desired: DesiredState, subscriptionId: string, change: Of<'reload'>): DesiredState {
  const member = desired.members.get(subscriptionId);
  if (member === undefined) return desired;
  if (isBeforeJoining(change, member)) return desired;
  const { kind: _kind, datasetId: _datasetId, version, ...asked } = change;
  const own = desired.reloads.filter((reload) => reload.subscriptionId === subscriptionId);
  const isKnown = own.some(
    ({ eventNumber, createdAt, isWithdrawal }) =>
      eventNumber === asked.eventNumber &&
      createdAt.getTime() === asked.createdAt.getTime() &&
      isWithdrawal === asked.isWithdrawal,
  );
  if (isKnown) return desired;
  const isNewest = own.every(({ eventNumber }) => eventNumber <= asked.eventNumber);
  const others = desired.reloads.filter((reload) => reload.subscriptionId !== subscriptionId);
  const kept = thinned([...own, { subscriptionId, listedVersion: null, ...asked }].toSorted(byNumber));
  const reloading = { ...desired, reloads: [...others, ...kept] };
  return isNewest && version !== null ? withAnnounced(reloading, subscriptionId, version) : reloading;
}

/** Sorts by event number; of two equal numbers the later time comes last. */
export function byNumber(left: Reload, right: Reload): number {
  if (left.eventNumber !== right.eventNumber) return left.eventNumber < right.eventNumber ? -1 : 1;
  return left.createdAt.getTime() - right.createdAt.getTime();
}

/** Drops the second newest reload: the oldest ones are satisfied in order, and the newest one covers the dropped one. */
function thinned(reloads: readonly Reload[]): readonly Reload[] {
  return reloads.length <= MAX_RELOADS_KEPT ? reloads : reloads.toSpliced(-2, 1);
}

/** The event or time that made a subscription a member or a former member. */
interface Decision {
  readonly eventNumber: bigint | null;
  readonly at: Date;
}

function decisionOf({ eventNumber, since }: Member): Decision {
  return { eventNumber, at: since };
}

/** Compares event numbers of one log; when one is missing, compares times. */
function isLater(change: Decision, decided: Decision): boolean {
  if (change.eventNumber !== null && decided.eventNumber !== null) {
    return change.eventNumber > decided.eventNumber;
  }
  return change.at > decided.at;
}

/**
 * Returns whether the change undoes the opposite decision. An event decides only one of them: when both have the same number, a
 * manifest or a record stated one of them as of its newest event, and the later time wins. Times have whole seconds: without
 * numbers, the decision that was reported last wins a tie.
 */
function undoes({ eventNumber, at }: Decision, decided: Decision): boolean {
  if (eventNumber === null || decided.eventNumber === null) return at >= decided.at;
  return eventNumber === decided.eventNumber ? at > decided.at : eventNumber > decided.eventNumber;
}

function withEntry<V>(map: ReadonlyMap<string, V>, key: string, value: V): ReadonlyMap<string, V> {
  return new Map([...map, [key, value]]);
}

function withoutEntry<V>(map: ReadonlyMap<string, V>, key: string): ReadonlyMap<string, V> {
  return map.has(key) ? new Map([...map].filter(([each]) => each !== key)) : map;
}

/** A reload event of a subscription's log, or the time of a request without one. Marks of another log are void. */
export interface ReloadMark {
  /** The number of the subscription's log, from 1; each log restart adds one. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** The service time of the event's creation; null when unknown. */
  readonly createdAt: Date | null;
}

/** Returns whether `mark` is later than another mark of its subscription. Of two marks with equal numbers the later time wins. */
export function isLaterMark(mark: ReloadMark, than: ReloadMark): boolean {
  if (mark.logNumber !== than.logNumber) return mark.logNumber > than.logNumber;
  if (mark.eventNumber !== than.eventNumber) return mark.eventNumber > than.eventNumber;
  return than.createdAt !== null && mark.createdAt !== null && mark.createdAt > than.createdAt;
}
