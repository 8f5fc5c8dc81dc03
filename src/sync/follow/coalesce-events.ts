/**
 * Turns events into changes of the desired state. Pure: a page gives the same changes however often it is read, so
 * replaying an event changes nothing. Events are hints; versions and schemas tell what happened.
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

function changesOf(
  event: AnyEvent,
  desired: DesiredState,
  context: CoalesceContext,
): readonly DesiredStateChange[] {
  const { subscriptionId, coveredUntil, readAt } = context;
  const isMember = desired.members.has(subscriptionId);
  if (event.kind === 'unreadable') return isMember ? [{ kind: 'refresh', datasetId: desired.datasetId }] : [];
  const createdAt = event.createdAt ?? readAt;
  const isCovered = coveredUntil !== null && createdAt <= coveredUntil;
  if (event.type === 'dataset.added') return added(event, createdAt, isCovered, desired, context);
  if (event.type === 'dataset.removed') return removed(event, createdAt, isCovered, desired, context);
  if (!isMember || isCovered) return [];
  switch (event.type) {
    case 'dataset.updated':
      return updated(event, context);
    case 'dataset.schema_changed':
      return [{ kind: 'refresh', datasetId: event.datasetId }];
    case 'dataset.resync_required':
      return [reload(event, createdAt, desired, context)];
    default:
      return unreachable(event.type);
  }
}

/** Whether this event, or a later statement of its subscription, has already decided the membership. */
function isReflected({ id }: FeedEvent, desired: DesiredState, { subscriptionId }: CoalesceContext): boolean {
  const decided = desired.members.get(subscriptionId) ?? desired.formerMembers.get(subscriptionId);
  const number = decided?.eventNumber ?? null;
  return number !== null && id.number <= number;
}

/**
 * Where the table exists, an addition is also a reload, because the dataset may have been restarted since. The
 * exception is a dataset that another subscription contained at that time, because its log reported everything in
 * between. An addition without a version is at least a metadata refresh.
 */
function added(
  event: FeedEvent,
  createdAt: Date,
  isCovered: boolean,
  desired: DesiredState,
  context: CoalesceContext,
): readonly DesiredStateChange[] {
  const { datasetId, id, version } = event;
  const { subscriptionId } = context;
  if (isReflected(event, desired, context)) return [];
  const member: DesiredStateChange = {
    kind: 'member',
    datasetId,
    eventNumber: id.number,
    at: createdAt,
    version: isCovered ? null : version,
  };
  const isNews = changedDesiredState(desired, subscriptionId, member) !== desired;
  const isTable = context.tableOf(datasetId) !== null;
  if (!isNews || isCovered || !isTable) return [member];
  const wasMember = desired.members.has(subscriptionId);
  if (wasMember || !isContainedElsewhere(desired, subscriptionId, createdAt)) {
    return [member, reload(event, createdAt, desired, context)];
  }
  return version === null ? [member, { kind: 'refresh', datasetId }] : [member];
}

/**
 * The table owes a reload where every subscription that contains the dataset now took it over after this drop: no log
 * reported what happened in between.
 */
function removed(
  event: FeedEvent,
  createdAt: Date,
  isCovered: boolean,
  desired: DesiredState,
  context: CoalesceContext,
): readonly DesiredStateChange[] {
  const { datasetId, id, reason } = event;
  if (isReflected(event, desired, context)) return [];
  const dropped: DesiredStateChange = {
    kind: 'no-member',
    datasetId,
    eventNumber: id.number,
    at: createdAt,
    reason,
  };
  const wasMember = desired.members.has(context.subscriptionId);
  const isTable = context.tableOf(datasetId) !== null;
  if (!wasMember || isCovered || !isTable) return [dropped];
  const isGap = isTakenOverLater(desired, context.subscriptionId, createdAt);
  return isGap ? [reload(event, createdAt, desired, context), dropped] : [dropped];
}

/** Whether other subscriptions contain the dataset, and each of them only since the drop. */
function isTakenOverLater(
  { members, formerMembers }: DesiredState,
  subscriptionId: string,
  at: Date,
): boolean {
  const others = [...members].filter(([id]) => id !== subscriptionId);
  const wasMember = [...formerMembers].some(([id, former]) => id !== subscriptionId && former.at > at);
  return others.length > 0 && !wasMember && others.every(([, { since }]) => since >= at);
}

/** Whether another subscription contained the dataset at that time. */
function isContainedElsewhere(
  { members, formerMembers }: DesiredState,
  subscriptionId: string,
  at: Date,
): boolean {
  const isMember = [...members].some(([id, { since }]) => id !== subscriptionId && since <= at);
  const wasMember = [...formerMembers].some(([id, former]) => id !== subscriptionId && former.at > at);
  return isMember || wasMember;
}

/**
 * Where the table already has the announced version, the event may announce another version under the same number,
 * unless the event was read before.
 */
function updated(
  { datasetId, version, id }: FeedEvent,
  { tableOf, readUntil = null }: CoalesceContext,
): readonly DesiredStateChange[] {
  if (version === null) return [{ kind: 'refresh', datasetId }];
  const table = tableOf(datasetId);
  const isRepeated = readUntil !== null && id.number <= readUntil;
  const isThere = !isRepeated && table !== null && table.version >= version;
  return [
    { kind: 'at-least', datasetId, version, eventNumber: id.number },
    ...(isThere ? [{ kind: 'refresh' as const, datasetId }] : []),
  ];
}

function reload(
  { datasetId, version, id }: FeedEvent,
  createdAt: Date,
  desired: DesiredState,
  { logNumber, readAt, tableOf }: CoalesceContext,
): DesiredStateChange {
  const known = [tableOf(datasetId)?.version ?? 0, announcedVersion(desired) ?? 0, version ?? 0];
  return {
    kind: 'reload',
    datasetId,
    version,
    logNumber,
    eventNumber: id.number,
    createdAt,
    readAt,
    knownVersion: Math.max(...known),
    isWithdrawal: false,
  };
}
