/**
 * How wants grow. Pure: a change that is made again, or after a later one of the same subscription, changes nothing. Only
 * metadata refreshes are counted each time: one too many costs a request, one too few would lose an event.
 */

import { unreachable } from '../lib/assert.ts';
import {
  announcedVersion,
  type FormerMember,
  type Member,
  type Reload,
  type Want,
  type WantChange,
} from './want.ts';

/** Reloads of one subscription that are kept apart: the oldest and the newest always, those between as far as this allows. */
export const MAX_RELOADS_KEPT = 64;

/** The want after `change`, made by the subscription. */
export function changedWant(want: Want, subscriptionId: string, change: WantChange): Want {
  switch (change.kind) {
    case 'member':
      return withMember(want, subscriptionId, change);
    case 'no-member':
      return withoutMember(want, subscriptionId, change);
    case 'at-least':
      return withVersion(want, subscriptionId, change);
    case 'nothing-announced':
      return withAnnounced(want, subscriptionId, null);
    case 'reload':
      return withReload(want, subscriptionId, change);
    case 'look':
      return want.members.has(subscriptionId) ? { ...want, looksAsked: want.looksAsked + 1 } : want;
    default:
      return unreachable(change);
  }
}

/** The numbers of the subscription's log are void: the service has begun it anew. */
export function withoutLog(want: Want, subscriptionId: string): Want {
  const member = want.members.get(subscriptionId);
  const former = want.formerMembers.get(subscriptionId);
  return {
    ...want,
    members:
      member === undefined
        ? want.members
        : withEntry(want.members, subscriptionId, { ...member, eventNumber: null, announced: null }),
    formerMembers:
      former === undefined
        ? want.formerMembers
        : withEntry(want.formerMembers, subscriptionId, { ...former, eventNumber: null }),
    reloads: want.reloads.filter((reload) => reload.subscriptionId !== subscriptionId),
  };
}

/** An operator gave the subscription up: nothing that it said counts any more. */
export function withoutSubscription(want: Want, subscriptionId: string): Want {
  return {
    ...want,
    members: withoutEntry(want.members, subscriptionId),
    formerMembers: withoutEntry(want.formerMembers, subscriptionId),
    reloads: want.reloads.filter((reload) => reload.subscriptionId !== subscriptionId),
  };
}

/** What was announced above `version` was withdrawn: that one is the newest. */
export function withoutAnnouncedAbove(want: Want, version: number): Want {
  if ((announcedVersion(want) ?? version) <= version) return want;
  const members = [...want.members].map(([id, member]): [string, Member] =>
    (member.announced ?? version) <= version ? [id, member] : [id, { ...member, announced: version }],
  );
  return { ...want, members: new Map(members) };
}

/** The first list of versions after the reloads was read: `newest` is what it ends with. */
export function withListed(want: Want, newest: number): Want {
  if (want.reloads.every(({ listedVersion }) => listedVersion !== null)) return want;
  const reloads = want.reloads.map((reload) =>
    reload.listedVersion === null ? { ...reload, listedVersion: newest } : reload,
  );
  return { ...want, reloads };
}

/** The table satisfies these: of each subscription only the newest of them is remembered. */
export function withoutAnswered(want: Want, isSatisfied: (reload: Reload) => boolean): Want {
  const newest = new Map<string, Reload>();
  for (const reload of want.reloads) if (isSatisfied(reload)) newest.set(reload.subscriptionId, reload);
  const kept = new Set(newest.values());
  const reloads = want.reloads.filter((reload) => !isSatisfied(reload) || kept.has(reload));
  return reloads.length === want.reloads.length ? want : { ...want, reloads };
}

type Of<Kind extends WantChange['kind']> = Extract<WantChange, { readonly kind: Kind }>;

function withMember(want: Want, subscriptionId: string, change: Of<'member'>): Want {
  const { eventNumber, at, version } = change;
  const member = want.members.get(subscriptionId);
  if (member !== undefined) {
    if (!isLater(change, decisionOf(member))) return want;
    return withDecided(want, subscriptionId, { eventNumber, since: at, announced: version });
  }
  const former = want.formerMembers.get(subscriptionId);
  if (former !== undefined && !undoes(change, former)) return want;
  const joined = withDecided(want, subscriptionId, { eventNumber, since: at, announced: version });
  return { ...joined, retirementApproved: false };
}

function withDecided(want: Want, subscriptionId: string, member: Member): Want {
  return {
    ...want,
    members: withEntry(want.members, subscriptionId, member),
    formerMembers: withoutEntry(want.formerMembers, subscriptionId),
  };
}

/** Dropped twice, a dataset keeps the reason that was given. */
function withoutMember(want: Want, subscriptionId: string, change: Of<'no-member'>): Want {
  const member = want.members.get(subscriptionId);
  const former = want.formerMembers.get(subscriptionId);
  if (member !== undefined && !undoes(change, decisionOf(member))) return want;
  if (former !== undefined && !isLater(change, former)) return want;
  const dropped: FormerMember = {
    eventNumber: change.eventNumber,
    at: change.at,
    reason: change.reason ?? former?.reason ?? null,
  };
  return {
    ...want,
    members: withoutEntry(want.members, subscriptionId),
    formerMembers: withEntry(want.formerMembers, subscriptionId, dropped),
  };
}

/** An event from before the subscription's newest reload, or from before the dataset joined it, announces nothing. */
function withVersion(want: Want, subscriptionId: string, { version, eventNumber }: Of<'at-least'>): Want {
  const member = want.members.get(subscriptionId);
  if (member === undefined || (member.announced ?? -1) >= version) return want;
  const isBeforeJoining = member.eventNumber !== null && eventNumber < member.eventNumber;
  const isBeforeReload = want.reloads.some(
    (reload) => reload.subscriptionId === subscriptionId && reload.eventNumber > eventNumber,
  );
  return isBeforeJoining || isBeforeReload ? want : withAnnounced(want, subscriptionId, version);
}

function withAnnounced(want: Want, subscriptionId: string, announced: number | null): Want {
  const member = want.members.get(subscriptionId);
  if (member === undefined || member.announced === announced) return want;
  return { ...want, members: withEntry(want.members, subscriptionId, { ...member, announced }) };
}

/**
 * A record names members as of its newest event, while what was read of their content reflects only the events up to
 * `since`: a reload that was created later is owed, though its number is lower.
 */
function isBeforeJoining({ eventNumber, createdAt }: Of<'reload'>, member: Member): boolean {
  return member.eventNumber !== null && eventNumber < member.eventNumber && createdAt <= member.since;
}

/** A reload may bring a lower version, so what its event says replaces what the subscription announced before. */
function withReload(want: Want, subscriptionId: string, change: Of<'reload'>): Want {
  const member = want.members.get(subscriptionId);
  if (member === undefined) return want;
  if (isBeforeJoining(change, member)) return want;
  const { kind: _kind, datasetId: _datasetId, version, ...asked } = change;
  const own = want.reloads.filter((reload) => reload.subscriptionId === subscriptionId);
  const isKnown = own.some(
    ({ eventNumber, createdAt, isWithdrawal }) =>
      eventNumber === asked.eventNumber &&
      createdAt.getTime() === asked.createdAt.getTime() &&
      isWithdrawal === asked.isWithdrawal,
  );
  if (isKnown) return want;
  const isNewest = own.every(({ eventNumber }) => eventNumber <= asked.eventNumber);
  const others = want.reloads.filter((reload) => reload.subscriptionId !== subscriptionId);
  const kept = thinned([...own, { subscriptionId, listedVersion: null, ...asked }].toSorted(byNumber));
  const reloading = { ...want, reloads: [...others, ...kept] };
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
