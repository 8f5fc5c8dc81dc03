/**
 * What comes before anything is read of a subscription: which there are, whether the mirror is theirs, and which of
 * those that were there are gone. Nothing is written into the mirror here.
 */

import type { Held } from '../../destination/destination.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { Parts } from '../parts.ts';
import { holdMissing, subscriptionsBefore } from './missing-subscriptions.ts';
import { refuseForeignMirror } from './ownership.ts';
import { chosenSubscriptions } from './selection.ts';

export interface Connected {
  /** Those that were chosen. */
  readonly subscriptions: readonly Subscription[];
  readonly held: Held;
}

/**
 * `has` tells what the mirror has.
 * @throws ConfigurationError where the mirror is of another service, or a chosen subscription was never there.
 */
export async function connect(
  parts: Parts,
  has: () => Promise<Held>,
  signal: AbortSignal,
): Promise<Connected> {
  const { feed, checkpoint, choices } = parts;
  // Listed first: a key that is refused costs this one call.
  const seen = await feed.subscriptions(signal);
  await feed.discover(signal);
  const held = await has();
  tellMissingMirror(held, parts);
  refuseForeignMirror(held, feed.origin, seen, checkpoint.forgotten());
  const subscriptions = chosenSubscriptions(seen, choices.subscriptions, subscriptionsBefore(held, parts));
  holdMissing(seen, subscriptions, held, parts);
  return { subscriptions, held };
}

/** Where a log is followed there was a mirror, but for the first moments of a first start. */
function tellMissingMirror({ service }: Held, { checkpoint, log }: Parts): void {
  if (service !== null || checkpoint.followed().size === 0) return;
  log.warn({}, 'The mirror is not there, though logs were followed before: every table is loaded again.');
}
