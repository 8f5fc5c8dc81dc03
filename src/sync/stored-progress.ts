/**
 * What is stored with the mirror of how far the service was followed: position, members and owed reloads of each
 * subscription. A checkpoint that is lost starts from there (follow/adopt-progress.ts).
 */

import type { Followed } from '../checkpoint/checkpoint.ts';
import type { Held, StoredProgress, StoredSubscription } from '../destination/destination.ts';
import type { Want } from '../model/desired-state.ts';
import { knownDatasets } from './dataset-states.ts';
import type { Parts } from './parts.ts';
import { needOf, pendingReloads } from './plan/need.ts';
import type { Known } from './plan/plan.ts';

/**
 * Null where a table lacks what only the logs have told: that would be forgotten with the checkpoint. What is held or has
 * failed is found again by an audit. `with-commits`: and where a table is missing, which is surely loaded soon.
 */
export function progressToStore(
  held: Held,
  parts: Parts,
  when: 'with-commits' | 'alone',
): StoredProgress | null {
  const lacks = (known: Known): boolean => lacksWhatWasTold(known, when === 'with-commits');
  return knownDatasets(parts, held).some(lacks) ? null : progressOf(held, parts);
}

function lacksWhatWasTold({ want, held, hold, failure }: Known, isTableNeeded: boolean): boolean {
  if (hold !== null || failure !== null || want.members.size === 0) return false;
  if (held === null) return isTableNeeded;
  const need = needOf(held, want);
  return need === 'version' || need === 'look' || need === 'resync';
}

function progressOf(held: Held, { checkpoint }: Parts): StoredProgress {
  const wants = [...checkpoint.wants().values()];
  return {
    subscriptions: [...checkpoint.followed().values()].map(subscriptionOf),
    members: wants.flatMap((want) => membersOf(want, held.datasets.has(want.datasetId))),
    owed: wants.flatMap((want) => {
      const table = held.datasets.get(want.datasetId);
      if (table === undefined) return [];
      return pendingReloads(table, want).map(({ subscriptionId, logNumber, eventNumber, createdAt }) => ({
        datasetId: want.datasetId,
        subscriptionId,
        logNumber,
        eventNumber,
        createdAt,
      }));
    }),
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

/** Who dropped a dataset matters as long as its table is there. */
function membersOf({ datasetId, members, formerMembers }: Want, isTable: boolean): StoredProgress['members'] {
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

/** Whether what is stored says the same. */
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
