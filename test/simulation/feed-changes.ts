/** Changes to datasets of the feed, which steps combine; each returns a description of its effect. */

import type { Reason } from '../../fixtures/feed/model.ts';
import type { World } from './world.ts';

const REASONS: readonly Reason[] = ['left_coverage', 'subscription_changed', 'source_retired'];

export function remove(world: World, datasetId: string, subscriptionId?: string): string {
  const reason = world.random.pick(REASONS);
  world.feed.publisher.remove(datasetId, reason, subscriptionId === undefined ? {} : { subscriptionId });
  world.noteMove(datasetId);
  return `${datasetId} leaves ${subscriptionId ?? 'all'}, ${reason}`;
}

export function restore(world: World, datasetId: string): string {
  world.feed.publisher.restore(datasetId);
  world.noteMove(datasetId);
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
  const published = world.publish(datasetId, 'most', { version: random.integer(1, 2) });
  restore(world, datasetId);
  world.wentBack.add(datasetId);
  return `${left}; it comes back: ${published}`;
}

export function hasMembers({ members }: World): boolean {
  return members.length > 0;
}

/** A lost removal is noticed only if the versions go on. */
export function canBeginAgain({ datasetIds, lostRemovals }: World): readonly string[] {
  return datasetIds.filter((datasetId) => !lostRemovals.has(datasetId));
}

/** Where each dataset has a manifest of its own, only the log shows which datasets left and came back. */
export function mayLoseTrack({ settings, unreadMoves }: World): boolean {
  return settings.manifest === 'subscription' || unreadMoves.size === 0;
}

/** An older checkpoint would have to read their events again, which may have expired meanwhile. */
export function mayForgetMoves({ settings, movedSinceCopy }: World): boolean {
  return settings.manifest === 'subscription' || movedSinceCopy.size === 0;
}
