/**
 * The progress that is stored with the mirror: position, members and owed reloads of each subscription. A lost
 * checkpoint is rebuilt from it (follow/subscriptions.ts).
 */

import type { Followed } from '../checkpoint/checkpoint.ts';
import type { ObservedState, StoredProgress, StoredSubscription } from '../destination/destination.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { isPinned } from '../model/write-jobs.ts';
import { datasetStates } from './dataset-states.ts';
import type { Parts } from './parts.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import { needOf, pendingReloads } from './plan/need.ts';
import { owedResyncs } from './resyncs.ts';

/**
 * Returns the progress to store, or null where a table lacks changes that only the logs reported, because they would be forgotten with the
 * checkpoint. An audit finds suspended, pinned and failed datasets again. `with-commits`: a missing table is no obstacle, because it is
 * surely loaded soon.
 */
export function progressToStore(
  observed: ObservedState,
  parts: Parts,
  when: 'with-commits' | 'alone',
): StoredProgress | null {
  const lacks = (known: DatasetState): boolean => lacksWhatWasAnnounced(known, when === 'with-commits');
  return datasetStates(parts, observed).some(lacks) ? null : progressOf(observed, parts);
}

function lacksWhatWasAnnounced(
  { desired, observed, suspension, failure }: DatasetState,
  isTableNeeded: boolean,
): boolean {
  if (isPinned(observed) || suspension !== null || failure !== null || desired.members.size === 0)
    return false;
  if (observed === null) return isTableNeeded;
  const need = needOf(observed, desired);
  return need === 'version' || need === 'refresh' || need === 'resync';
}

function progressOf(observed: ObservedState, { checkpoint }: Parts): StoredProgress {
  const desiredStates = [...checkpoint.desiredStates().values()];
  const ofLogs = desiredStates.flatMap((desired) => {
    const table = observed.datasets.get(desired.datasetId);
    if (table === undefined) return [];
    return pendingReloads(table, desired).map(({ subscriptionId, logNumber, eventNumber, createdAt }) => ({
      datasetId: desired.datasetId,
      subscriptionId,
      logNumber,
      eventNumber,
      createdAt,
    }));
  });
  return {
    subscriptions: [...checkpoint.followed().values()].map(subscriptionOf),
    members: desiredStates.flatMap((desired) => membersOf(desired, observed.datasets.has(desired.datasetId))),
    owed: [...ofLogs, ...owedResyncs(desiredStates, observed)],
  };
}

function subscriptionOf(followed: Followed): StoredSubscription {
  const { subscriptionId, name, logNumber, cursor, cursorCreatedAt, cursorAt, statesLastEvent } = followed;
  return {
    subscriptionId,
    name,
    logNumber,
    eventNumber: cursor?.number ?? null,
    eventCreatedAt: cursorCreatedAt,
    positionAt: cursorAt,
    statesLastEvent,
  };
}

/** A drop matters as long as the table of the dataset exists. */
function membersOf(
  { datasetId, members, formerMembers }: DesiredState,
  isTable: boolean,
): StoredProgress['members'] {
  return [
    ...[...members].map(([subscriptionId, { eventNumber }]) => ({
      subscriptionId,
      datasetId,
      addedEvent: eventNumber,
      droppedEvent: null,
    })),
    ...(isTable ? [...formerMembers] : []).map(([subscriptionId, { eventNumber }]) => ({
      subscriptionId,
      datasetId,
      addedEvent: null,
      droppedEvent: eventNumber ?? 0n,
    })),
  ];
}

/** Returns whether both contain the same. */
export function isSameProgress(left: StoredProgress | null, right: StoredProgress): boolean {
  return left !== null && textOf(left) === textOf(right);
}

function textOf({ subscriptions, members, owed }: StoredProgress): string {
  const rows = [
    ...subscriptions.map((one) => [
      one.subscriptionId,
      one.name,
      one.logNumber,
      one.eventNumber,
      one.eventCreatedAt?.getTime(),
      one.positionAt.getTime(),
      one.statesLastEvent,
    ]),
    ...members.map((one) => [one.subscriptionId, one.datasetId, one.addedEvent, one.droppedEvent]),
    ...owed.map((one) => [
      one.datasetId,
      one.subscriptionId,
      one.logNumber,
      one.eventNumber,
      one.createdAt?.getTime(),
    ]),
  ];
  return rows
    .map((row) => row.map(String).join('\n'))
    .sort()
    .join('\n\n');
}
