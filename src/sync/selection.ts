/** Which subscriptions and datasets the user chose. Pure. */

import { isMatch } from 'matcher';
import { ConfigurationError } from '../model/errors.ts';
import type { Subscription } from '../model/subscription.ts';

/** @throws ConfigurationError naming a chosen subscription that the key cannot see, and those that it can. */
export function chosenSubscriptions(
  seen: readonly Subscription[],
  chosen: readonly string[] | null,
): readonly Subscription[] {
  if (chosen === null) return seen;
  const isNamed = (subscription: Subscription, by: string): boolean =>
    subscription.id === by || subscription.name === by;
  const unknown = chosen.filter((by) => !seen.some((subscription) => isNamed(subscription, by)));
  if (unknown.length > 0) {
    const visible = seen.map(({ id, name }) => (name === null ? id : `${id} (${name})`)).join(', ');
    throw new ConfigurationError(
      `subscriptions names ${unknown.join(', ')}, which this API key cannot see.`,
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
