/**
 * Whether tables that no subscription contains any more may go now, and what is told of it. Pure.
 *
 * A table goes only where nothing is left to be read that may say that it came back, and many tables go within a day only
 * where an operator has agreed: a service that forgets its subscriptions for a while must not cost the mirror.
 */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { Held } from '../../destination/destination.ts';
import type { AbsenceSubject } from '../../model/absence.ts';
import type { Refusal } from '../../model/errors.ts';
import type { Want } from '../../model/want.ts';

/** Fewer than this many tables go without being asked about, however few there are. */
export const MASS_RETIREMENT_TABLES = 10;
/** As many go without being asked about, where they are no more than this share of all tables. */
export const MASS_RETIREMENT_SHARE = 0.5;
/** Tables that went within this time, in service time, count with those that are about to go. */
export const MASS_RETIREMENT_WITHIN_MS = 24 * 3_600_000;
/** Datasets that a message names before it only counts them. */
const NAMED_IN_MESSAGE = 5;

/** What stands in the way of retiring a table that no subscription contains. */
export type RetirementVerdict =
  /** `judgedAt`: in service time. */
  | { readonly kind: 'allowed'; readonly judgedAt: Date }
  /** A log was not read to its head that may say that the dataset has come back. */
  | { readonly kind: 'logs-unread' }
  /** So many go at once that an operator has to agree; the hold, of scope `retirement`, says so. */
  | { readonly kind: 'needs-approval'; readonly hold: Hold };

export interface RetirementInput {
  readonly wants: ReadonlyMap<string, Want>;
  readonly held: Held;
  /** Datasets that the record of a subscription still names: their tables stay, and count among all. */
  readonly named: ReadonlySet<string>;
  /** Tables that went within the last day without being approved of. */
  readonly retiredLately: number;
  /** Subscriptions that the checkpoint follows. */
  readonly followed: ReadonlySet<string>;
  /** Those of them that are held: nothing is asked of the service for them. */
  readonly heldSubscriptions: ReadonlySet<string>;
  /** Those whose logs and manifests were read after the last drop was. */
  readonly readToHead: ReadonlySet<string>;
  /** Those that an operator gave up. */
  readonly forgotten: ReadonlySet<string>;
}

export interface Retirements {
  /** Of every table whose dataset is wanted by no subscription, by dataset id. */
  readonly verdicts: ReadonlyMap<string, RetirementVerdict['kind']>;
  /** To be held where some need approval. Null: such a hold, if one stands, is over. */
  readonly refusal: Refusal | null;
}

export function retirementVerdicts(input: RetirementInput): Retirements {
  const { wants, held, named, retiredLately } = input;
  const leaving = [...held.datasets.keys()]
    .filter((datasetId) => !named.has(datasetId))
    .sort()
    .flatMap((datasetId) => wants.get(datasetId) ?? [])
    .filter(({ members }) => members.size === 0);
  const unread = leaving.filter((want) => !areLogsRead(want, input));
  const going = leaving.filter((want) => areLogsRead(want, input));
  const unasked = going.filter(({ retirementApproved }) => !retirementApproved);
  const tables = held.datasets.size + retiredLately;
  const waiting = isMassRetirement(unasked.length + retiredLately, tables) ? unasked : [];
  const verdicts = new Map<string, RetirementVerdict['kind']>([
    ...going.map(({ datasetId }) => [datasetId, 'allowed'] as const),
    ...waiting.map(({ datasetId }) => [datasetId, 'needs-approval'] as const),
    ...unread.map(({ datasetId }) => [datasetId, 'logs-unread'] as const),
  ]);
  const refusal = waiting.length === 0 ? null : massRetirement(waiting, held.datasets.size, retiredLately);
  return { verdicts, refusal };
}

/**
 * Tables that no want knows: nobody is known to contain their datasets. Absent from all as long as every subscription that
 * the destination has seen was read to its head; null where one was not.
 */
export function orphansOf(input: RetirementInput): readonly AbsenceSubject[] | null {
  const { wants, held, named, readToHead } = input;
  const isAllRead = namedSubscriptions(input).every((id) => readToHead.has(id)) && areFollowedRead(input);
  if (readToHead.size === 0 || !isAllRead) return null;
  const isOrphan = (datasetId: string): boolean => !wants.has(datasetId) && !named.has(datasetId);
  const orphans = [...held.datasets.keys()].filter(isOrphan).sort();
  return orphans.map((datasetId) => ({ kind: 'table', datasetId }));
}

/** Why a table goes, for people: `left subscription sub_1: left_coverage`. */
export function retirementReason({ formerMembers }: Want): string {
  const left = [...formerMembers]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([subscriptionId, { reason }]) => {
      return `left subscription ${subscriptionId}${reason === null ? '' : `: ${reason}`}`;
    });
  return left.length === 0 ? 'no subscription holds it' : left.join(', ');
}

/**
 * A subscription that is held is not read, and what it has dropped may have come back to it. What one contains that was
 * refused before it was ever read, or that the destination names and the checkpoint does not follow any more, is not
 * known. One that is given up counts no more.
 */
function areLogsRead({ formerMembers }: Want, input: RetirementInput): boolean {
  const { followed, readToHead, heldSubscriptions } = input;
  const former = [...formerMembers.keys()].filter((id) => followed.has(id));
  const unknown = [...namedSubscriptions(input), ...heldSubscriptions].filter((id) => !followed.has(id));
  return [...former, ...unknown].every((id) => readToHead.has(id)) && areFollowedRead(input);
}

/** Those that the destination has seen. */
function namedSubscriptions({ held, forgotten }: RetirementInput): readonly string[] {
  return (held.service?.subscriptionIds ?? []).filter((id) => !forgotten.has(id));
}

function areFollowedRead({ followed, heldSubscriptions, readToHead }: RetirementInput): boolean {
  return [...followed].every((id) => readToHead.has(id) || heldSubscriptions.has(id));
}

function isMassRetirement(going: number, tables: number): boolean {
  return going >= MASS_RETIREMENT_TABLES && going > tables * MASS_RETIREMENT_SHARE;
}

function massRetirement(going: readonly Want[], tables: number, retiredLately: number): Refusal {
  const named = going.slice(0, NAMED_IN_MESSAGE).map(({ datasetId }) => datasetId);
  const others = going.length - named.length;
  const list = others === 0 ? named.join(', ') : `${named.join(', ')} and ${others} more`;
  const lately = retiredLately === 0 ? '' : ` ${retiredLately} more went within the last 24 hours.`;
  return {
    scope: { kind: 'retirement' },
    operation: 'retire datasets',
    status: null,
    code: 'mass_retirement',
    message: `${going.length} of ${tables} tables are held by no subscription any more: ${list}.${lately} They stay until a person agrees.`,
    links: new Map(),
  };
}
