/** Which subscriptions and datasets the user chose. Pure. */

import { isMatch } from 'matcher';
import { ConfigurationError } from '../../model/errors.ts';
import type { Subscription } from '../../model/subscription.ts';

/**
 * Those of `seen` that are chosen. `before` are the subscriptions that were there, by id with their names: a chosen one
 * of these that is seen no more is missing, which is no fault of the configuration.
 * @throws ConfigurationError naming a chosen subscription that the key has never shown, and those that it does.
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
