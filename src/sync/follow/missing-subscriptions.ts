/**
 * Subscriptions that were there and are gone: the service no longer lists them, or the configuration no longer selects
 * them. Neither is a reason to retire what they hold: they are held, and their datasets stay, until a person has
 * them looked for again or gives them up.
 */

import type { Held } from '../../destination/destination.ts';
import type { Refusal } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';
import { standingHolds, storeHold } from '../holds.ts';
import type { Parts } from '../parts.ts';

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
  seen: readonly Subscription[],
  chosen: readonly Subscription[],
  held: Held,
  parts: Parts,
): void {
  const holds = standingHolds(parts);
  for (const refusal of missing(seen, chosen, subscriptionsBefore(held, parts))) {
    const standing = holds.ofSubscription(refusal.scope.subscriptionId);
    const isHeldAsMissing = standing?.refusal.status === null;
    if (!isHeldAsMissing) storeHold(parts, refusal);
  }
}

type Missing = Refusal & {
  readonly scope: { readonly kind: 'subscription'; readonly subscriptionId: string };
};

function missing(
  seen: readonly Subscription[],
  chosen: readonly Subscription[],
  before: ReadonlyMap<string, string | null>,
): readonly Missing[] {
  const seenIds = new Set(seen.map(({ id }) => id));
  const chosenIds = new Set(chosen.map(({ id }) => id));
  const gone = [...before.keys()].filter((subscriptionId) => !chosenIds.has(subscriptionId));
  return gone.map((subscriptionId) => ({
    scope: { kind: 'subscription', subscriptionId },
    operation: 'list subscriptions',
    status: null,
    code: SUBSCRIPTION_MISSING,
    message: seenIds.has(subscriptionId)
      ? 'The setting subscriptions no longer selects it.'
      : 'The service no longer lists it.',
    links: new Map(),
  }));
}
