/**
 * Whether tables that no subscription contains any more may go now, and what is told of it. Pure.
 *
 * A table goes only where nothing is left to be read that may say that it came back, and many tables go within a day only
 * where an operator has agreed: a service that forgets its subscriptions for a while must not cost the mirror.
 */

import type { Followed, Suspension } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import type { DesiredState, Reload } from '../../model/desired-state.ts';
import type { Refusal } from '../../model/errors.ts';

/** Fewer than this many tables go without being asked about, however few there are. */
export const MASS_RETIREMENT_TABLES = 10;
/** As many go without being asked about, where they are no more than this share of all tables. */
const MASS_RETIREMENT_SHARE = 0.5;
/** Tables that went within this time, in service time, count with those that are about to go. */
export const MASS_RETIREMENT_WITHIN_MS = 24 * 3_600_000;
/** Datasets that a message names before it only counts them. */
const NAMED_IN_MESSAGE = 5;

/** What stands in the way of retiring a table that no subscription contains. */
export type RetirementVerdict =
  /** `judgedAt`: in service time. */
  | { readonly kind: 'allowed'; readonly judgedAt: Date }
  /** These subscriptions may contain the dataset by now: the table waits for them. */
  | { readonly kind: 'logs-unread'; readonly awaited: readonly AwaitedSubscription[] }
  /** So many go at once that an operator has to agree; the hold, of scope `retirement`, says so. */
  | { readonly kind: 'needs-approval'; readonly suspension: Suspension };

/** The verdict on a dataset, by what is wanted of it now; without meaning where a subscription contains it. */
export type VerdictOf = (desired: DesiredState) => RetirementVerdict;

/** A subscription that the retirement of a table waits for. */
export type AwaitedSubscription = { readonly subscriptionId: string } & (
  | { readonly reason: 'suspended'; readonly ofSubscription: Suspension }
  /** It was not read to the head of its log after the dataset had left the last subscription. */
  | { readonly reason: 'log-unread' }
  /** Its log may have begun anew: it does not tell what the service has said since. */
  | { readonly reason: 'log-in-doubt' }
  | { readonly reason: 'record-names-dataset' }
);

/** Which subscriptions were read, and which cannot be. */
export interface Readings {
  /** What the destination says of the service. */
  readonly observed: Pick<ObservedState, 'service'>;
  /** By dataset id: the subscriptions whose records still name the dataset. Its table stays, and counts among all. */
  readonly named: ReadonlyMap<string, readonly string[]>;
  /** Subscriptions that the checkpoint follows. */
  readonly followed: ReadonlySet<string>;
  /** Suspensions, by subscription id: nothing is asked of the service for these subscriptions. */
  readonly suspendedSubscriptions: ReadonlyMap<string, Suspension>;
  /** Those whose logs and manifests were read after the last drop was. */
  readonly readToHead: ReadonlySet<string>;
  /** Those whose logs may have begun anew, which is not confirmed yet: they count as unread. */
  readonly doubted: ReadonlySet<string>;
  /** Those that an operator gave up. */
  readonly forgotten: ReadonlySet<string>;
}

export interface RetirementInput extends Readings {
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly observed: ObservedState;
  /** Tables that went within the last day without being approved of. */
  readonly retiredLately: number;
}

interface Retirements {
  /** Of every table whose dataset no subscription contains and no record names, by dataset id. */
  readonly verdicts: ReadonlyMap<string, RetirementVerdict['kind']>;
  /** Of every table whose retirement waits for subscriptions, by dataset id. */
  readonly awaited: ReadonlyMap<string, readonly AwaitedSubscription[]>;
  /** To be held where some need approval. Null: such a hold, if one stands, is over. */
  readonly refusal: Refusal | null;
}

export function retirementVerdicts(input: RetirementInput): Retirements {
  const { desiredStates, observed, named, retiredLately } = input;
  const dropped = [...observed.datasets.keys()]
    .sort()
    .flatMap((datasetId) => desiredStates.get(datasetId) ?? [])
    .filter(({ members }) => members.size === 0);
  const awaited = new Map(
    dropped
      .map((desired) => [desired.datasetId, awaitedSubscriptions(desired, input)] as const)
      .filter(([, subscriptions]) => subscriptions.length > 0),
  );
  const leaving = dropped.filter(({ datasetId }) => !named.has(datasetId));
  const unread = leaving.filter(({ datasetId }) => awaited.has(datasetId));
  const going = leaving.filter(({ datasetId }) => !awaited.has(datasetId));
  const unasked = going.filter(({ retirementApproved }) => !retirementApproved);
  const tables = observed.datasets.size + retiredLately;
  const waiting = isMassRetirement(unasked.length + retiredLately, tables) ? unasked : [];
  const verdicts = new Map<string, RetirementVerdict['kind']>([
    ...going.map(({ datasetId }) => [datasetId, 'allowed'] as const),
    ...waiting.map(({ datasetId }) => [datasetId, 'needs-approval'] as const),
    ...unread.map(({ datasetId }) => [datasetId, 'logs-unread'] as const),
  ]);
  const refusal =
    waiting.length === 0 ? null : massRetirement(waiting, observed.datasets.size, retiredLately);
  return { verdicts, awaited, refusal };
}

/**
 * Tables that no want knows: nobody is known to contain their datasets. Absent from all as long as every subscription that
 * the destination has seen was read to its head; null where one was not.
 */
export function orphansOf(input: RetirementInput): readonly AbsenceSubject[] | null {
  const { desiredStates, observed, named, readToHead } = input;
  const isAllRead =
    namedSubscriptions(input).every((id) => isRead(id, input)) && unreadOfFollowed(input).length === 0;
  if (readToHead.size === 0 || !isAllRead) return null;
  const isOrphan = (datasetId: string): boolean => !desiredStates.has(datasetId) && !named.has(datasetId);
  const orphans = [...observed.datasets.keys()].filter(isOrphan).sort();
  return orphans.map((datasetId) => ({ kind: 'table', datasetId }));
}

/**
 * Returns the reloads that a table of the dataset from before its retirement owes: those of the drops. Such a table is there
 * where an older destination is restored after the dataset has come back. Pure.
 */
export function reloadsOfRetired(
  { formerMembers }: DesiredState,
  followed: ReadonlyMap<string, Pick<Followed, 'logNumber' | 'cursor'>>,
): readonly Reload[] {
  return [...formerMembers].flatMap(([subscriptionId, { eventNumber, at }]) => {
    const log = followed.get(subscriptionId);
    if (log === undefined) return [];
    return {
      subscriptionId,
      logNumber: log.logNumber,
      eventNumber: eventNumber ?? log.cursor?.number ?? 0n,
      createdAt: at,
      readAt: at,
      knownVersion: null,
      listedVersion: null,
      isWithdrawal: false,
    };
  });
}

/** Why a table goes, for people: `left subscription sub_1: left_coverage`. */
export function retirementReason({ formerMembers }: DesiredState): string {
  const left = [...formerMembers]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([subscriptionId, { reason }]) => {
      return `left subscription ${subscriptionId}${reason === null ? '' : `: ${reason}`}`;
    });
  return left.length === 0 ? 'no subscription contains it' : left.join(', ');
}

/**
 * The subscriptions that may contain a dataset again which every other subscription has dropped, in order of id; none: its
 * table may go.
 *
 * A suspended subscription is not read, and a dataset that it has dropped may have come back to it. Nobody knows what a
 * subscription contains that was refused before it was ever read, or that the destination names and the checkpoint does not
 * follow any more. A subscription that an operator gave up counts no more.
 */
export function awaitedSubscriptions(
  { datasetId, formerMembers }: Pick<DesiredState, 'datasetId' | 'formerMembers'>,
  input: Readings,
): readonly AwaitedSubscription[] {
  const { followed, suspendedSubscriptions, named, doubted } = input;
  const former = [...formerMembers.keys()].filter((id) => followed.has(id));
  const unknown = [...namedSubscriptions(input), ...suspendedSubscriptions.keys()].filter(
    (id) => !followed.has(id),
  );
  const unread = new Set([...former, ...unknown].filter((id) => !isRead(id, input)));
  for (const id of unreadOfFollowed(input)) unread.add(id);
  return [...new Set([...unread, ...(named.get(datasetId) ?? [])])].sort().map((subscriptionId) => {
    const ofSubscription = suspendedSubscriptions.get(subscriptionId);
    if (ofSubscription !== undefined) return { subscriptionId, reason: 'suspended', ofSubscription };
    if (!unread.has(subscriptionId)) return { subscriptionId, reason: 'record-names-dataset' };
    return { subscriptionId, reason: doubted.has(subscriptionId) ? 'log-in-doubt' : 'log-unread' };
  });
}

function isRead(subscriptionId: string, { readToHead, doubted }: Readings): boolean {
  return readToHead.has(subscriptionId) && !doubted.has(subscriptionId);
}

/** Those that the destination has seen. */
function namedSubscriptions({ observed, forgotten }: Readings): readonly string[] {
  return (observed.service?.subscriptionIds ?? []).filter((id) => !forgotten.has(id));
}

/** Those that could be read and were not. */
function unreadOfFollowed(input: Readings): readonly string[] {
  const { followed, suspendedSubscriptions } = input;
  return [...followed].filter((id) => !isRead(id, input) && !suspendedSubscriptions.has(id));
}

function isMassRetirement(going: number, tables: number): boolean {
  return going >= MASS_RETIREMENT_TABLES && going > tables * MASS_RETIREMENT_SHARE;
}

function massRetirement(going: readonly DesiredState[], tables: number, retiredLately: number): Refusal {
  const named = going.slice(0, NAMED_IN_MESSAGE).map(({ datasetId }) => datasetId);
  const others = going.length - named.length;
  const list = others === 0 ? named.join(', ') : `${named.join(', ')} and ${others} more`;
  const lately = retiredLately === 0 ? '' : ` ${retiredLately} more went within the last 24 hours.`;
  return {
    scope: { kind: 'retirement' },
    operation: 'retire datasets',
    status: null,
    code: 'mass_retirement',
    message: `${going.length} of ${tables} tables are in no subscription any more: ${list}.${lately} They stay until an operator agrees.`,
    links: new Map(),
  };
}
