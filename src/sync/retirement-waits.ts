/** What the retirement of a table waits for, in words and as a result, and who can end that. Pure. */

import { printable } from '../lib/printable.ts';
import type { AwaitedSubscription } from './plan/retirement.ts';
import type { Waiting } from './result.ts';
import { waysOut } from './ways-out.ts';

/** Subscriptions that are named for one reason before the rest is counted. */
const MAX_NAMED = 5;

type Reason = AwaitedSubscription['reason'];

/** In the order in which they are told. */
const WORDS: Readonly<Record<Reason, { readonly one: string; readonly several: string }>> = {
  suspended: { one: 'which is suspended', several: 'which are suspended' },
  'log-unread': {
    one: 'whose log was not read to its end since the dataset left',
    several: 'whose logs were not read to their ends since the dataset left',
  },
  'log-in-doubt': { one: 'whose log may have begun anew', several: 'whose logs may have begun anew' },
  'record-names-dataset': {
    one: 'whose record still names the dataset',
    several: 'whose records still name the dataset',
  },
};
const REASONS: readonly Reason[] = ['suspended', 'log-unread', 'log-in-doubt', 'record-names-dataset'];

/** `awaited` must not be empty. */
export function retirementWaits(awaited: readonly AwaitedSubscription[]): Waiting {
  const why = `no subscription contains it any more; its retirement waits ${tellAwaited(awaited)}`;
  return { kind: 'waiting', why, until: null, awaited };
}

/** `for subscription sub_2, which is suspended, and for subscription sub_3, whose log …`. `awaited` must not be empty. */
export function tellAwaited(
  awaited: readonly Pick<AwaitedSubscription, 'subscriptionId' | 'reason'>[],
): string {
  const clauses = REASONS.flatMap((reason) => {
    const ids = awaited.filter((one) => one.reason === reason).map(({ subscriptionId }) => subscriptionId);
    if (ids.length === 0) return [];
    const words = WORDS[reason];
    return ids.length === 1
      ? [`for subscription ${named(ids)}, ${words.one}`]
      : [`for subscriptions ${named(ids)}, ${words.several}`];
  });
  return clauses.join(', and ');
}

/** Whether running again helps only after an operator has acted. */
export function awaitsOperator({ awaited }: Pick<Waiting, 'awaited'>): boolean {
  return awaited.length > 0 && awaited.every(({ reason }) => reason === 'suspended');
}

/** What an operator can do about the subscriptions that are suspended: a clause and a command each. */
export function waysToEnd(awaited: readonly AwaitedSubscription[]): readonly string[] {
  return awaited.flatMap((one) => (one.reason === 'suspended' ? waysOut(one.suspension.refusal) : []));
}

function named(ids: readonly string[]): string {
  const shown = ids.slice(0, MAX_NAMED).map(printable).join(', ');
  return ids.length > MAX_NAMED ? `${shown} and ${ids.length - MAX_NAMED} more` : shown;
}
