/** Whether tables that no subscription holds any more may go now, and what is told of it. Pure. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Held } from '../destination/destination.ts';
import type { Refusal } from '../model/errors.ts';
import type { Want } from '../model/want.ts';

/** What stands in the way of retiring a table that no subscription holds. */
export type RetirementVerdict =
  | { readonly kind: 'allowed' }
  /** A log that may hold the dataset was not read to its head: it may have come back. */
  | { readonly kind: 'logs-unread' }
  /** So many go at once that a person has to agree; the hold, of scope `retirement`, says so. */
  | { readonly kind: 'needs-approval'; readonly hold: Hold };

export interface RetirementInput {
  /** Of all datasets, the orphans' too. */
  readonly wants: ReadonlyMap<string, Want>;
  readonly held: Held;
  /** Subscriptions that the checkpoint follows. */
  readonly followed: ReadonlySet<string>;
  /** Those of them that are held: nothing is asked of the service for them. */
  readonly heldSubscriptions: ReadonlySet<string>;
  /** Those whose logs were read to their heads in this catch-up. */
  readonly readToHead: ReadonlySet<string>;
}

export interface Retirements {
  /** Of every table that no subscription holds, by dataset id. */
  readonly verdicts: ReadonlyMap<string, 'allowed' | 'logs-unread' | 'needs-approval'>;
  /** What is stored as a hold where some need approval. Null: such a hold, if one stands, is over. */
  readonly refusal: Refusal | null;
}

export function retirementVerdicts(_input: RetirementInput): Retirements {
  return { verdicts: new Map(), refusal: null };
}

/**
 * Tables that no want knows: the checkpoint was lost, and what held them is gone since. None as long as a subscription
 * that the destination has seen is not followed or was not read to its head.
 */
export function orphansOf(_input: RetirementInput): readonly string[] {
  return [];
}

/** Why a table goes, for people: `left subscription sub_1: left_coverage`. */
export function retirementReason({ formerMembers, removalReasons }: Want): string {
  const left = [...formerMembers.keys()].sort().map((subscriptionId) => {
    const reason = removalReasons.get(subscriptionId);
    return `left subscription ${subscriptionId}${reason === undefined ? '' : `: ${reason}`}`;
  });
  return left.length === 0 ? 'no subscription lists it' : left.join(', ');
}
