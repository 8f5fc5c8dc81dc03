/**
 * What is wanted of a dataset. Wants are never cleared when met: whether a dataset is behind is computed from what is
 * wanted and what the destination has, so a destination restored from a backup is seen to be behind. What a subscription
 * announced is void once that subscription drops the dataset; a reload it asked for stays owed by the table.
 */

import { unreachable } from '../lib/assert.ts';
import type { EventId } from './event.ts';

export interface DesiredState {
  readonly datasetId: string;
  /** By subscription id: the subscriptions that contain the dataset. */
  readonly members: ReadonlyMap<string, Member>;
  /** By subscription id: those that contained it and dropped it. */
  readonly formerMembers: ReadonlyMap<string, FormerMember>;
  /** Every reload that was asked for and may be owed still, oldest first within each subscription. */
  readonly reloads: readonly Reload[];
  /** Grows with every resync that an operator asks for; 0: none was. The destination says which one the table satisfies. */
  readonly resyncNumber: number;
  /** Metadata refreshes asked for and done are counted; one is owed while more were asked for. */
  readonly refreshesRequested: number;
  readonly refreshesDone: number;
  /** An operator has agreed that the table is retired, however many others are with it. Over once a subscription contains it again. */
  readonly retirementApproved: boolean;
}

/** A subscription that contains the dataset. */
export interface Member {
  /** The event that said so, or the one that the manifest which says so reflects; null: neither is known. */
  readonly eventNumber: bigint | null;
  /** Since when, in service time. */
  readonly since: Date;
  /** At least this version was announced by this subscription; null: none is known. */
  readonly announced: number | null;
}

/** A subscription that dropped the dataset. */
export interface FormerMember {
  /** As of a member. */
  readonly eventNumber: bigint | null;
  /** When it dropped the dataset, in service time. */
  readonly at: Date;
  /** Why, in the service's word; null where it did not say. */
  readonly reason: string | null;
}

/** A reload that an event asked for, or that was asked for at a moment, as if by the newest event of then. */
export interface Reload {
  readonly subscriptionId: string;
  /** Counts the logs that the service has begun for the subscription: numbers of another log are void. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** When the event was created, else the moment, in service time. */
  readonly createdAt: Date;
  /** When it was read, in service time. */
  readonly readAt: Date;
  /** The highest version that was known when it was read: of the table, or announced. Null: not known. */
  readonly knownVersion: number | null;
  /** The newest version of the first list of versions that was read after it. Null: none was. */
  readonly listedVersion: number | null;
  /** The table holds what was withdrawn or restarted: until this is answered it takes no changes. */
  readonly isWithdrawal: boolean;
}

/** What was told, when, and by which event; null: by none. */
interface Announcement {
  readonly datasetId: string;
  readonly eventNumber: bigint | null;
  /** When the event was created; without an event, the time up to which the manifest reflects events. Service time. */
  readonly at: Date;
}

/** One change of what is wanted, made by one subscription. Made again, or after a later one, it changes nothing. */
export type DesiredStateChange =
  /** The subscription contains the dataset. `version`: at least this one is wanted; null: nothing is announced by it. */
  | ({ readonly kind: 'member'; readonly version: number | null } & Announcement)
  /** The subscription contains it no more. */
  | ({ readonly kind: 'no-member'; readonly reason: string | null } & Announcement)
  /** At least this version, of a member. */
  | {
      readonly kind: 'at-least';
      readonly datasetId: string;
      readonly version: number;
      readonly eventNumber: bigint;
    }
  /** What was announced is not known any more: the position in the log was lost. */
  | { readonly kind: 'nothing-announced'; readonly datasetId: string }
  /** Loaded from a snapshot that answers it. `version` replaces what the subscription announced; null: it says nothing of it. */
  | ({
      readonly kind: 'reload';
      readonly datasetId: string;
      readonly version: number | null;
    } & Omit<Reload, 'subscriptionId' | 'listedVersion'>)
  /** Versions and schemas are to be read. */
  | { readonly kind: 'refresh'; readonly datasetId: string };

/** What one step of reading a subscription changes, committed as one. */
export interface FollowStep {
  readonly subscriptionId: string;
  readonly subscriptionName: string | null;
  readonly position: LogPosition;
  /**
   * What is void before the changes are made:
   * - `numbers`: whatever the numbers of the log decided or asked for, because the service has begun it again.
   * - `everything`: all that the subscription has said, because somebody knows it better.
   */
  readonly voids?: 'numbers' | 'everything';
  /** The record has named the newest event of this log before. Without it, what is stored of that stays. */
  readonly statesLastEvent?: boolean;
  readonly changes: readonly DesiredStateChange[];
}

/** Where the log of a subscription is read on. */
export interface LogPosition {
  /** Counts the logs that the service has begun for the subscription, from 1. */
  readonly logNumber: number;
  /** The newest event that was read; null: none was. */
  readonly cursor: EventId | null;
  /** When that event was created; null: not known. */
  readonly cursorCreatedAt: Date | null;
  /**
   * The log is read from its start, and what is not newer than the cursor is skipped: the service keeps nothing at the
   * cursor any more, and nothing newer has come.
   */
  readonly isExpiredCursorReplay: boolean;
  /** Events created up to then are reflected by the manifest that the tables were taken from: they only change who is a member. */
  readonly coveredUntil: Date | null;
  /** When this was read, in service time. */
  readonly readAt: Date;
}

/** Of a dataset that nobody has said anything of. */
export function emptyDesiredState(datasetId: string): DesiredState {
  return {
    datasetId,
    members: new Map(),
    formerMembers: new Map(),
    reloads: [],
    resyncNumber: 0,
    refreshesRequested: 0,
    refreshesDone: 0,
    retirementApproved: false,
  };
}

/** The highest version that a subscription which contains the dataset has announced; null: none is known. */
export function announcedVersion(desired: DesiredState): number | null {
  return announcedVersions(desired).reduce<number | null>(
    (highest, announced) => Math.max(highest ?? announced, announced),
    null,
  );
}

/** Of each subscription that contains the dataset, as far as it has announced one. */
export function announcedVersions({ members }: DesiredState): readonly number[] {
  return [...members.values()].flatMap(({ announced }) => announced ?? []);
}

/** Reloads of one subscription that are kept apart: the oldest and the newest always, those between as far as this allows. */
export const MAX_RELOADS_KEPT = 64;

/** The want after `change`, made by the subscription. */
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

/** The numbers of the subscription's log are void: the service has begun it again. */
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

/** An operator gave the subscription up: nothing that it said counts any more. */
export function withoutSubscription(desired: DesiredState, subscriptionId: string): DesiredState {
  return {
    ...desired,
    members: withoutEntry(desired.members, subscriptionId),
    formerMembers: withoutEntry(desired.formerMembers, subscriptionId),
    reloads: desired.reloads.filter((reload) => reload.subscriptionId !== subscriptionId),
  };
}

/** What was announced above `version` was withdrawn: that one is the newest. */
export function withoutAnnouncedAbove(desired: DesiredState, version: number): DesiredState {
  if ((announcedVersion(desired) ?? version) <= version) return desired;
  const members = [...desired.members].map(([id, member]): [string, Member] =>
    (member.announced ?? version) <= version ? [id, member] : [id, { ...member, announced: version }],
  );
  return { ...desired, members: new Map(members) };
}

/** The first list of versions after the reloads was read: `newest` is what it ends with. */
export function withListed(desired: DesiredState, newest: number): DesiredState {
  if (desired.reloads.every(({ listedVersion }) => listedVersion !== null)) return desired;
  const reloads = desired.reloads.map((reload) =>
    reload.listedVersion === null ? { ...reload, listedVersion: newest } : reload,
  );
  return { ...desired, reloads };
}

/** The table satisfies these: of each subscription only the newest of them is remembered. */
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

/** Dropped twice, a dataset keeps the reason that was given. */
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

/** An event from before the subscription's newest reload, or from before the dataset joined it, announces nothing. */
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
 * A record names members as of its newest event, while what was read of their content reflects only the events up to
 * `since`: a reload that was created later is owed, though its number is lower.
 */
function isBeforeJoining({ eventNumber, createdAt }: Of<'reload'>, member: Member): boolean {
  return member.eventNumber !== null && eventNumber < member.eventNumber && createdAt <= member.since;
}

/** A reload may bring a lower version, so what its event says replaces what the subscription announced before. */
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

/** In the order of the log: of two at one number, the one of the later moment is the later one. */
export function byNumber(left: Reload, right: Reload): number {
  if (left.eventNumber !== right.eventNumber) return left.eventNumber < right.eventNumber ? -1 : 1;
  return left.createdAt.getTime() - right.createdAt.getTime();
}

/** The newest but one gives way: the oldest are answered as their time comes, and the newest answers for what is left out. */
function thinned(reloads: readonly Reload[]): readonly Reload[] {
  return reloads.length <= MAX_RELOADS_KEPT ? reloads : reloads.toSpliced(-2, 1);
}

/** What made a subscription a member, or a former one. */
interface Decision {
  readonly eventNumber: bigint | null;
  readonly at: Date;
}

function decisionOf({ eventNumber, since }: Member): Decision {
  return { eventNumber, at: since };
}

/** Numbers of one log decide; where one of the two has none, the time does. */
function isLater(change: Decision, decided: Decision): boolean {
  if (change.eventNumber !== null && decided.eventNumber !== null) {
    return change.eventNumber > decided.eventNumber;
  }
  return change.at > decided.at;
}

/**
 * Whether the change undoes the opposite decision. An event says one thing only: where both stand at one number, a manifest or
 * a record told one of them as of the newest event then, and the later moment decides. Moments have whole seconds: without
 * numbers, of two at one moment the one that is told last is the later one.
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

/** A reload event of a subscription's log, or a moment that stands for one. Marks of another log are void. */
export interface ReloadMark {
  /** Counts the logs of the subscription: from 1, and one more with each log restart. */
  readonly logNumber: number;
  readonly eventNumber: bigint;
  /** When the event was created, in service time; null where it is not known. */
  readonly createdAt: Date | null;
}

/**
 * Whether `mark` is later than another one of its subscription. Numbers of events are compared within one log. Of two at one
 * number the one of the later moment is later.
 */
export function isLaterMark(mark: ReloadMark, than: ReloadMark): boolean {
  if (mark.logNumber !== than.logNumber) return mark.logNumber > than.logNumber;
  if (mark.eventNumber !== than.eventNumber) return mark.eventNumber > than.eventNumber;
  return than.createdAt !== null && mark.createdAt !== null && mark.createdAt > than.createdAt;
}
