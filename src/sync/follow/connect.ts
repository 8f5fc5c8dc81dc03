/**
 * What comes before anything is read of a subscription: which there are, whether the mirror is theirs, which of those
 * that were there are gone, and where their logs are read on. Nothing is written into the mirror here.
 */

import type { Held } from '../../destination/destination.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { Parts } from '../parts.ts';
import { adoptProgress } from './adopt-progress.ts';
import { holdMissing, subscriptionsBefore } from './missing-subscriptions.ts';
import { refuseForeignMirror } from './ownership.ts';
import { chosenSubscriptions } from './selection.ts';

export interface Connected {
  /** Those that were chosen. */
  readonly subscriptions: readonly Subscription[];
  /** When they were listed, in service time. */
  readonly readAt: Date;
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
  const listed = await feed.subscriptions(signal);
  await feed.discover(signal);
  const held = await has();
  tellMissingMirror(held, parts);
  refuseForeignMirror(held, feed.origin, listed.subscriptions, checkpoint.forgotten());
  const before = subscriptionsBefore(held, parts);
  const subscriptions = chosenSubscriptions(listed.subscriptions, choices.subscriptions, before);
  holdMissing(listed, subscriptions, held, parts);
  adoptProgress(held, listed.readAt, parts);
  return { subscriptions, readAt: listed.readAt, held };
}

/** Where a log is followed there was a mirror, but for the first moments of a first start. */
function tellMissingMirror({ service }: Held, { checkpoint, log }: Parts): void {
  if (service !== null || checkpoint.followed().size === 0) return;
  log.warn({}, 'The mirror is not there, though logs were followed before: every table is loaded again.');
}
