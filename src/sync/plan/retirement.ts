/**
 * Decides whether tables that no subscription contains may retire now, and why not. Pure.
 *
 * A table retires only where no unread log or manifest may bring the dataset back. Many tables retire within a day only with an
 * operator's approval: a service that forgets its subscriptions for a while must not cost the mirror its tables.
 */

import type { Followed, Suspension } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import type { DesiredState, Reload } from '../../model/desired-state.ts';
import type { Refusal } from '../../model/errors.ts';

/** Fewer tables than this retire without approval, whatever share of the mirror they are. */
export const MASS_RETIREMENT_TABLES = 10;
/** Any number of tables up to this share of the mirror retires without approval. */
const MASS_RETIREMENT_SHARE = 0.5;
/** Tables that retired within this time, in service time, count together with the tables about to retire. */
export const MASS_RETIREMENT_WITHIN_MS = 24 * 3_600_000;
/** How many datasets a message names; it counts the rest. */
const NAMED_IN_MESSAGE = 5;

/** Whether a table that no subscription contains may retire, and why not. */
export type RetirementVerdict =
  /** `judgedAt`: in service time. */
  | { readonly kind: 'allowed'; readonly judgedAt: Date }
  /** These subscriptions may contain the dataset by now, so the table waits for them. */
  | { readonly kind: 'logs-unread'; readonly awaited: readonly AwaitedSubscription[] }
  /** So many tables would retire at once that an operator has to approve. The suspension has the scope `retirement`. */
  | { readonly kind: 'needs-approval'; readonly suspension: Suspension };

/** Returns the verdict on a dataset in its current desired state; meaningless where a subscription contains the dataset. */
export type VerdictOf = (desired: DesiredState) => RetirementVerdict;

/** A subscription that the retirement of a table waits for. */
export type AwaitedSubscription = { readonly subscriptionId: string } & (
  | { readonly reason: 'suspended'; readonly ofSubscription: Suspension }
  /** The log was not read to its head after the dataset left its last subscription. */
  | { readonly reason: 'log-unread' }
  /** The service may have restarted the log, so the log does not show later events. */
  | { readonly reason: 'log-in-doubt' }
  | { readonly reason: 'record-names-dataset' }
);

/** The subscriptions that were read, and those that cannot be read. */
export interface Readings {
  /** The service as the destination knows it. */
  readonly observed: Pick<ObservedState, 'service'>;
  /** By dataset id, the subscriptions whose records name the dataset or named it lately. Its table stays, and counts among all tables. */
  readonly named: ReadonlyMap<string, readonly string[]>;
  /** Subscriptions that the checkpoint follows. */
  readonly followed: ReadonlySet<string>;
  /** The suspensions by subscription id: nothing is requested from the service for these subscriptions. */
  readonly suspendedSubscriptions: ReadonlyMap<string, Suspension>;
  /** The subscriptions whose logs and manifests were read after the last drop was. */
  readonly readToHead: ReadonlySet<string>;
  /** The subscriptions whose logs may have been restarted, without confirmation yet: they count as unread. */
  readonly doubted: ReadonlySet<string>;
  /** The subscriptions that an operator gave up. */
  readonly forgotten: ReadonlySet<string>;
}

export interface RetirementInput extends Readings {
  readonly desiredStates: ReadonlyMap<string, DesiredState>;
  readonly observed: ObservedState;
  /** The number of tables that retired within the last day without approval. */
  readonly retiredLately: number;
}

interface Retirements {
  /** By dataset id, the verdict on every table whose dataset no subscription contains and no record names. */
  readonly verdicts: ReadonlyMap<string, RetirementVerdict['kind']>;
  /** By dataset id, the subscriptions that the retirement of each table waits for. */
  readonly awaited: ReadonlyMap<string, readonly AwaitedSubscription[]>;
  /** The refusal to suspend retirements with, where some need approval. Null: an existing suspension is over. */
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
 * Returns the tables without a desired state: no subscription is known to contain their datasets. They are absent from
 * all subscriptions only where every subscription that the destination has seen was read to its head; null where one
 * was not.
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
 * Returns the reloads that a table from before the retirement of its dataset owes: the reloads of the drops. Such a
 * table exists where an older destination is restored after the dataset has come back. Pure.
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

/** Returns why a table retires, for the operator: `left subscription sub_1: left_coverage`. */
export function retirementReason({ formerMembers }: DesiredState): string {
  const left = [...formerMembers]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([subscriptionId, { reason }]) => {
      return `left subscription ${subscriptionId}${reason === null ? '' : `: ${reason}`}`;
    });
  return left.length === 0 ? 'no subscription contains it' : left.join(', ');
}

/**
 * Returns, in order of id, the subscriptions that may contain the dataset again although every other subscription has
 * dropped it. Where there are none, the table may retire.
 *
 * A suspended subscription is not read, so a dataset that it has dropped may have come back unseen. The members of a
 * subscription are unknown where it was refused before it was ever read, or where the destination names it and the
 * checkpoint does not follow it any more. A subscription that an operator gave up does not count.
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

/** Returns the subscriptions that the destination has seen. */
function namedSubscriptions({ observed, forgotten }: Readings): readonly string[] {
  return (observed.service?.subscriptionIds ?? []).filter((id) => !forgotten.has(id));
}

/** Returns the followed subscriptions that could be read but were not. */
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
