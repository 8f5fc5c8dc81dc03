/** What happens to datasets of the feed, for steps to put together; each says what it did. */

import type { Reason } from '../../fixtures/feed/model.ts';
import type { World } from './world.ts';

const REASONS: readonly Reason[] = ['left_coverage', 'subscription_changed', 'source_retired'];

export function remove(world: World, datasetId: string, subscriptionId?: string): string {
  const reason = world.random.pick(REASONS);
  world.feed.publisher.remove(datasetId, reason, subscriptionId === undefined ? {} : { subscriptionId });
  world.unreadRemovals.add(datasetId);
  world.noteLeavers();
  return `${datasetId} leaves ${subscriptionId ?? 'all'}, ${reason}`;
}

export function restore({ feed }: World, datasetId: string): string {
  feed.publisher.restore(datasetId);
  return `${datasetId} is in all`;
}

/** The version of some dataset is issued anew with other rows. */
export function reissueAny(world: World): string {
  const datasetId = world.anyMember();
  return world.resync(datasetId, world.contentOfNext(datasetId, 'most'));
}

/** Some dataset leaves, is forgotten, and comes back with a first version. */
export function beginAnyAgain(world: World): string {
  const { feed, random } = world;
  const datasetId = random.pick(canBeginAgain(world));
  const left = remove(world, datasetId);
  feed.publisher.dropHistory(datasetId);
  world.line(datasetId).startAgain(random);
  const published = world.publish(datasetId, 'the same', { version: random.integer(1, 2) });
  feed.publisher.restore(datasetId);
  world.wentBack.add(datasetId);
  world.hasBegunAgain = true;
  return `${left}; it comes back: ${published}`;
}

export function hasMembers({ members }: World): boolean {
  return members.length > 0;
}

/**
 * A removal that was lost can be told from none only where the versions go on; and where track was lost of what was
 * announced, nothing tells that it was announced of versions that are gone.
 */
export function canBeginAgain({ datasetIds, lostRemovals, hasLostTrack }: World): readonly string[] {
  if (hasLostTrack) return [];
  return datasetIds.filter((datasetId) => !lostRemovals.has(datasetId));
}

/**
 * Not while something was announced of versions that are gone; nor, where no manifest tells how far it goes, while a
 * removal is unread: nothing else would tell of it then.
 */
export function mayLoseTrack({ hasBegunAgain, settings, unreadRemovals }: World): boolean {
  return !hasBegunAgain && (settings.manifestLastEventId || unreadRemovals.size === 0);
}

/** Where track was lost and no manifest tells how far it goes, one that stays in another subscription would wait for ever. */
export function mayLeaveOne({ hasLostTrack, settings }: World): boolean {
  return settings.manifestLastEventId || !hasLostTrack;
}
