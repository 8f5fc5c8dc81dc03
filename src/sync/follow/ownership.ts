/** A mirror belongs to one service, and to subscriptions it has seen: another's is not touched. Pure. */

import type { Held } from '../../destination/destination.ts';
import { ConfigurationError } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';

type Service = NonNullable<Held['service']>;

const OWN_DIRECTORY = 'give this configuration a data directory of its own (dataDir)';

/**
 * `forgotten`: the subscriptions that a person has given up, which the mirror may name still.
 * @throws ConfigurationError when the mirror is of another service or of other subscriptions altogether.
 */
export function refuseForeignMirror(
  held: Held,
  origin: string,
  seen: readonly Subscription[],
  forgotten: readonly string[],
): void {
  if (held.service === null) return;
  if (held.service.origin !== origin) {
    throw new ConfigurationError(
      `The mirror belongs to the service at ${held.service.origin}, not to ${origin}.`,
      {
        hint: `If the service has moved there: feed-sync resume --service-moved. Else ${OWN_DIRECTORY}, or correct service.baseUrl.`,
      },
    );
  }
  if (seenBefore(held.service, forgotten).length > 0) {
    refuseForeignSubscriptions(held.service, seen, forgotten);
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
