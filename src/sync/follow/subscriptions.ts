/** Selects the subscriptions and datasets that the user chose. Pure. */

import { isMatch } from 'matcher';
import type { ObservedState } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import { ConfigurationError, type Refusal } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import { SELECT_SUBSCRIPTIONS } from '../incidents.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions, storeSuspension } from '../suspensions.ts';
import { noteAbsences } from './audit.ts';

/**
 * Returns the chosen subscriptions among `seen`. `before` are the known subscriptions, by id with their names: a chosen
 * one of these that is not seen any more is missing, which is no fault of the configuration.
 * @throws ConfigurationError naming a chosen subscription that the key has never shown, and the ones that the key
 * shows.
 */
export function chosenSubscriptions(
  seen: readonly Subscription[],
  chosen: readonly string[] | null,
  before: ReadonlyMap<string, string | null>,
): readonly Subscription[] {
  if (chosen === null) return seen;
  const isNamed = (subscription: Pick<Subscription, 'id' | 'name'>, by: string): boolean =>
    subscription.id === by || subscription.name === by;
  const known = [...seen, ...[...before].map(([id, name]) => ({ id, name }))];
  const unknown = chosen.filter((by) => !known.some((subscription) => isNamed(subscription, by)));
  if (unknown.length > 0) {
    const visible = seen
      .map(({ id, name }) => (name === null || name === id ? id : `${id} (${name})`))
      .join(', ');
    throw new ConfigurationError(
      `The setting subscriptions names ${unknown.join(', ')}, which this API key cannot see.`,
      {
        hint: `It sees: ${visible === '' ? 'none' : visible}. Name one of these, or leave the setting out for all.`,
      },
    );
  }
  return seen.filter((subscription) => chosen.some((by) => isNamed(subscription, by)));
}

export function isChosenDataset(
  datasetId: string,
  include: readonly string[],
  exclude: readonly string[],
): boolean {
  const matches = (globs: readonly string[]): boolean =>
    globs.some((glob) => isMatch(datasetId, glob, { caseSensitive: true }));
  return (include.length === 0 || matches(include)) && !matches(exclude);
}

/** The code of the suspension of a missing subscription. The service has no such code. */
export const SUBSCRIPTION_MISSING = 'subscription_missing';

/**
 * Returns the known subscriptions by id, with their names as far as known: the followed ones and the ones that the
 * destination names, except those that an operator gave up.
 */
export function subscriptionsBefore(
  observed: ObservedState,
  { checkpoint }: Pick<Parts, 'checkpoint'>,
): ReadonlyMap<string, string | null> {
  const named = (observed.service?.subscriptionIds ?? []).map((id) => [id, null] as const);
  const followed = [...checkpoint.followed().values()].map(
    ({ subscriptionId, name }) => [subscriptionId, name] as const,
  );
  const before = new Map<string, string | null>([...named, ...followed]);
  for (const id of checkpoint.forgotten()) before.delete(id);
  return before;
}

/**
 * Suspends every known subscription that is not `chosen` now. `seen`: the subscriptions that the service lists, chosen
 * or not. A subscription that the service refused before it disappeared is missing from now on, so that an operator may
 * give it up. A subscription that is suspended as missing stays suspended, also when it is back.
 */
export function suspendMissing(
  { subscriptions: seen, readAt }: SubscriptionList,
  chosen: readonly Subscription[],
  observed: ObservedState,
  parts: Parts,
): void {
  const suspensions = currentSuspensions(parts);
  const seenIds = new Set(seen.map(({ id }) => id));
  const chosenIds = new Set(chosen.map(({ id }) => id));
  const isSuspendedAsMissing = (id: string): boolean =>
    suspensions.ofSubscription(id)?.refusal.status === null;
  const before = [...subscriptionsBefore(observed, parts).keys()];
  const watched = before.filter((id) => !isSuspendedAsMissing(id));
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
    if (gone.has(id)) {
      storeSuspension(parts, missing(id, 'list subscriptions', 'The service no longer lists it.'));
    } else if (seenIds.has(id) && !chosenIds.has(id)) {
      const message = 'The setting subscriptions no longer selects it.';
      storeSuspension(parts, missing(id, SELECT_SUBSCRIPTIONS, message));
    }
  }
}

function missing(subscriptionId: string, operation: string, message: string): Refusal {
  return {
    scope: { kind: 'subscription', subscriptionId },
    operation,
    status: null,
    code: SUBSCRIPTION_MISSING,
    message,
    links: new Map(),
  };
}

type Service = NonNullable<ObservedState['service']>;

const OWN_DIRECTORY = 'give this configuration a data directory of its own (dataDir)';

/**
 * `forgotten`: the subscriptions that an operator gave up, which the mirror may still name.
 * @throws ConfigurationError when the mirror is of another service or of other subscriptions altogether.
 */
export function refuseForeignMirror(
  observed: ObservedState,
  origin: string,
  seen: readonly Subscription[],
  forgotten: readonly string[],
): void {
  if (observed.service === null) return;
  if (observed.service.origin !== origin) {
    throw new ConfigurationError(
      `The mirror belongs to the service at ${observed.service.origin}, not to ${origin}.`,
      {
        hint: `If the service has moved there: feed-sync resume --service-moved. Else ${OWN_DIRECTORY}, or correct service.baseUrl.`,
      },
    );
  }
  if (seenBefore(observed.service, forgotten).length > 0) {
    refuseForeignSubscriptions(observed.service, seen, forgotten);
  }
}

/**
 * Returns the subscriptions of the mirror that the service lists.
 * @throws ConfigurationError where there are none.
 */
export function refuseForeignSubscriptions(
  service: Service,
  seen: readonly Subscription[],
  forgotten: readonly string[],
): readonly string[] {
  const mirrored = seenBefore(service, forgotten);
  const common = mirrored.filter((mirroredId) => seen.some(({ id }) => id === mirroredId));
  if (common.length > 0) return common;
  const known = mirrored.length === 0 ? 'no subscription' : `the subscriptions ${mirrored.join(', ')}`;
  throw new ConfigurationError(`The mirror belongs to ${known}, and this API key sees none of them.`, {
    hint: `To mirror other subscriptions, ${OWN_DIRECTORY}; else correct service.baseUrl or the API key.`,
  });
}

function seenBefore({ subscriptionIds }: Service, forgotten: readonly string[]): readonly string[] {
  return [...new Set(subscriptionIds)].filter((id) => !forgotten.includes(id));
}
