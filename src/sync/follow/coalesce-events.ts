/**
 * Turns events into changes of the desired state. Pure: a page gives the same changes however often it is read, so
 * replaying an event changes nothing. Events are hints; versions and schemas say what happened.
 */

import { unreachable } from '../../lib/assert.ts';
import {
  announcedVersion,
  changedDesiredState,
  type DesiredState,
  type DesiredStateChange,
  emptyDesiredState,
} from '../../model/desired-state.ts';
import { type EventId, type FeedEvent, laterEvent, type UnreadableEvent } from '../../model/event.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';

export interface CoalesceContext {
  readonly subscriptionId: string;
  readonly logNumber: number;
  /** When the page was read, in service time; also the creation time of an event that states none. */
  readonly readAt: Date;
  /** The tables already contain the effects of events created up to then, so these events only change the members. */
  readonly coveredUntil: Date | null;
  /** The number of the newest event read before the page; absent: none was read. */
  readonly readUntil?: bigint | null;
  /** Returns the desired state before the page. */
  readonly desiredStateOf: (datasetId: string) => DesiredState | null;
  readonly tableOf: (datasetId: string) => Pick<ObservedTable, 'version'> | null;
}

type AnyEvent = FeedEvent | UnreadableEvent;

/** Returns the changes that a page of the log asks for, in the order of the events' numbers, whatever the order of the page. */
export function coalesceEvents(
  events: readonly AnyEvent[],
  context: CoalesceContext,
): readonly DesiredStateChange[] {
  const desiredStates = new Map<string, DesiredState>();
  return inOrder(events).flatMap((event) => {
    const { datasetId } = event;
    if (datasetId === null) return [];
    const desired =
      desiredStates.get(datasetId) ?? context.desiredStateOf(datasetId) ?? emptyDesiredState(datasetId);
    const changes = changesOf(event, desired, context);
    desiredStates.set(
      datasetId,
      changes.reduce(
        (changed, change) => changedDesiredState(changed, context.subscriptionId, change),
        desired,
      ),
    );
    return changes;
  });
}

/** An event without a readable id only asks for a metadata refresh, so its place does not matter. */
function inOrder<T extends { readonly id: EventId | null }>(events: readonly T[]): readonly T[] {
  const numberOf = ({ id }: T): bigint => id?.number ?? 0n;
  return events.toSorted((left, right) => {
    if (numberOf(left) === numberOf(right)) return 0;
    return numberOf(left) < numberOf(right) ? -1 : 1;
  });
}

/** Returns the page's newest event, or `before` where none is newer. */
export function cursorAfter(events: readonly AnyEvent[], before: EventId | null): EventId | null {
  return events.reduce<EventId | null>((highest, event) => laterEvent(highest, event.id), before);
}

/** An event with the state that it meets. */
interface Met extends CoalesceContext {
  readonly event: FeedEvent;
  readonly createdAt: Date;
  /** The tables already contain its effects. */
  readonly isCovered: boolean;
  /** The desired state before the event. */
  readonly desired: DesiredState;
  readonly isMember: boolean;
  readonly table: Pick<ObservedTable, 'version'> | null;
}

function changesOf(
  event: AnyEvent,
  desired: DesiredState,
  context: CoalesceContext,
): readonly DesiredStateChange[] {
  const { datasetId } = desired;
  const { subscriptionId, coveredUntil, readAt } = context;
  const isMember = desired.members.has(subscriptionId);
  if (event.kind === 'unreadable') return isMember ? [{ kind: 'refresh', datasetId }] : [];
  const createdAt = event.createdAt ?? readAt;
  const isCovered = coveredUntil !== null && createdAt <= coveredUntil;
  const table = context.tableOf(datasetId);
  const met: Met = { ...context, event, createdAt, isCovered, desired, isMember, table };
  if (event.type === 'dataset.added') return isDecided(met) ? [] : added(met);
  if (event.type === 'dataset.removed') return isDecided(met) ? [] : datasetRemoved(met);
  if (!isMember || isCovered) return [];
  switch (event.type) {
    case 'dataset.updated':
      return updated(met);
    case 'dataset.schema_changed':
      return [{ kind: 'refresh', datasetId }];
    case 'dataset.resync_required':
      return [reload(met)];
    default:
      return unreachable(event.type);
  }
}

/** Returns whether this event, or a later statement of its subscription, has already decided the membership. */
function isDecided({ event, desired, subscriptionId }: Met): boolean {
  const decided = desired.members.get(subscriptionId) ?? desired.formerMembers.get(subscriptionId);
  const number = decided?.eventNumber ?? null;
  return number !== null && event.id.number <= number;
}

/**
 * Where the table exists, an addition is also a reload, because the dataset may have been restarted since. The exception is a
 * dataset that another subscription contained at that time, because its log reported everything in between. An addition
 * without a version is at least a metadata refresh.
 */
function added(met: Met): readonly DesiredStateChange[] {
  const { event, createdAt: at, isCovered, desired, isMember, table, subscriptionId } = met;
  const { datasetId, id } = event;
  const version = isCovered ? null : event.version;
  const member: DesiredStateChange = { kind: 'member', datasetId, eventNumber: id.number, at, version };
  const isNews = changedDesiredState(desired, subscriptionId, member) !== desired;
  if (!isNews || isCovered || table === null) return [member];
  const { since, isLeftLater } = elsewhere(met);
  const isContained = isLeftLater || since.some((each) => each <= at);
  if (isMember || !isContained) return [member, reload(met)];
  return version === null ? [member, { kind: 'refresh', datasetId }] : [member];
}

/**
 * The table owes a reload where every subscription that contains the dataset now took it over after this drop: no log
 * reported what happened in between.
 */
function datasetRemoved(met: Met): readonly DesiredStateChange[] {
  const { event, createdAt: at, isCovered, isMember, table } = met;
  const { datasetId, id, reason } = event;
  const dropped: DesiredStateChange = { kind: 'no-member', datasetId, eventNumber: id.number, at, reason };
  if (!isMember || isCovered || table === null) return [dropped];
  const { since, isLeftLater } = elsewhere(met);
  const isTakenOver = !isLeftLater && since.length > 0 && since.every((each) => each >= at);
  return isTakenOver ? [reload(met), dropped] : [dropped];
}

/** Since when other subscriptions contain the dataset, and whether another one dropped it after the event. */
function elsewhere({ desired: { members, formerMembers }, subscriptionId, createdAt }: Met): {
  readonly since: readonly Date[];
  readonly isLeftLater: boolean;
} {
  const isOther = ([id]: readonly [string, unknown]): boolean => id !== subscriptionId;
  return {
    since: [...members].filter(isOther).map(([, { since }]) => since),
    isLeftLater: [...formerMembers].filter(isOther).some(([, { at }]) => at > createdAt),
  };
}

/**
 * Where the table already has the announced version, the event may announce another version under the same number, unless
 * the event was read before.
 */
function updated({ event, table, readUntil = null }: Met): readonly DesiredStateChange[] {
  const { datasetId, version, id } = event;
  if (version === null) return [{ kind: 'refresh', datasetId }];
  const isRepeated = readUntil !== null && id.number <= readUntil;
  const isThere = !isRepeated && table !== null && table.version >= version;
  return [
    { kind: 'at-least', datasetId, version, eventNumber: id.number },
    ...(isThere ? [{ kind: 'refresh' as const, datasetId }] : []),
  ];
}

function reload({ event, createdAt, desired, table, logNumber, readAt }: Met): DesiredStateChange {
  const { datasetId, version, id } = event;
  return {
    kind: 'reload',
    datasetId,
    version,
    logNumber,
    eventNumber: id.number,
    createdAt,
    readAt,
    knownVersion: Math.max(table?.version ?? 0, announcedVersion(desired) ?? 0, version ?? 0),
    isWithdrawal: false,
  };
}
