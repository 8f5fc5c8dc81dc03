/**
 * Subscriptions that were there and are gone: the service no longer lists them, or the configuration no longer selects
 * them. Neither is a reason to retire what they contain: they are held, and their datasets stay, until an operator has
 * them looked for again or gives them up. One that a list lacks is believed to be gone once a second one confirms it.
 */

import type { Held } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import type { Refusal } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';
import { standingHolds, storeHold } from '../holds.ts';
import type { Parts } from '../parts.ts';
import { noteAbsences } from './absences.ts';

/** The code of the hold of such a subscription. The service has no such code. */
export const SUBSCRIPTION_MISSING = 'subscription_missing';

/**
 * The subscriptions that were there, by id, with their names as far as they are known: those that are followed and
 * those that the destination names, without those that a person has given up.
 */
export function subscriptionsBefore(
  held: Held,
  { checkpoint }: Pick<Parts, 'checkpoint'>,
): ReadonlyMap<string, string | null> {
  const named = (held.service?.subscriptionIds ?? []).map((id) => [id, null] as const);
  const followed = [...checkpoint.followed().values()].map(
    ({ subscriptionId, name }) => [subscriptionId, name] as const,
  );
  const before = new Map<string, string | null>([...named, ...followed]);
  for (const id of checkpoint.forgotten()) before.delete(id);
  return before;
}

/**
 * Holds every subscription that was there and is not `chosen` now. `seen`: what the service lists, chosen or not. One
 * that the service refused before it was gone is missing from now on, so that a person may give it up. One that is
 * held as missing stays so, also when it is back.
 */
export function holdMissing(
  { subscriptions: seen, readAt }: SubscriptionList,
  chosen: readonly Subscription[],
  held: Held,
  parts: Parts,
): void {
  const holds = standingHolds(parts);
  const seenIds = new Set(seen.map(({ id }) => id));
  const chosenIds = new Set(chosen.map(({ id }) => id));
  const isHeldAsMissing = (id: string): boolean => holds.ofSubscription(id)?.refusal.status === null;
  const before = [...subscriptionsBefore(held, parts).keys()];
  const watched = before.filter((id) => !isHeldAsMissing(id));
  const subjectOf = (subscriptionId: string) => ({ kind: 'subscription', subscriptionId }) as const;
  const unlisted = watched.filter((id) => !seenIds.has(id));
  const gone = new Set(
    noteAbsences(
      unlisted.map(subjectOf),
      before.filter((id) => seenIds.has(id)).map(subjectOf),
      readAt,
      parts,
    ).map((subject) => ('subscriptionId' in subject ? subject.subscriptionId : '')),
  );
  for (const id of watched) {
    if (gone.has(id)) storeHold(parts, missing(id, 'The service no longer lists it.'));
    else if (seenIds.has(id) && !chosenIds.has(id)) {
      storeHold(parts, missing(id, 'The setting subscriptions no longer selects it.'));
    }
  }
}

function missing(subscriptionId: string, message: string): Refusal {
  return {
    scope: { kind: 'subscription', subscriptionId },
    operation: 'list subscriptions',
    status: null,
    code: SUBSCRIPTION_MISSING,
    message,
    links: new Map(),
  };
}
