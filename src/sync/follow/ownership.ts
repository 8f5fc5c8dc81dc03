/** A mirror belongs to one service, and to subscriptions it has seen: another's is not touched. Pure. */

import type { Held } from '../../destination/destination.ts';
import { ConfigurationError } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';

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
  const hint =
    'Give this configuration a data directory of its own (dataDir), or correct service.baseUrl or the API key.';
  if (held.service.origin !== origin) {
    throw new ConfigurationError(
      `The mirror belongs to the service at ${held.service.origin}, not to ${origin}.`,
      { hint },
    );
  }
  const mirrored = new Set(held.service.subscriptionIds.filter((id) => !forgotten.includes(id)));
  if (mirrored.size === 0 || seen.some(({ id }) => mirrored.has(id))) return;
  throw new ConfigurationError(
    `The mirror belongs to the subscriptions ${[...mirrored].join(', ')}, and this API key sees none of them.`,
    { hint },
  );
}
