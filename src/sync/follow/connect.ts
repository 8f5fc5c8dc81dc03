/**
 * Prepares the following of subscriptions: lists them, checks that the mirror belongs to them, detects missing ones,
 * and finds where their logs are read on. Writes nothing into the mirror.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState, StoredProgress, StoredSubscription } from '../../destination/destination.ts';
import type { Log } from '../../lib/log.ts';
import type { DesiredStateChange, FollowStep } from '../../model/desired-state.ts';
import type { Subscription } from '../../model/records.ts';
import type { Parts } from '../parts.ts';
import {
  chosenSubscriptions,
  refuseForeignMirror,
  subscriptionsBefore,
  suspendMissing,
} from './subscriptions.ts';

export interface Connected {
  /** The chosen subscriptions. */
  readonly subscriptions: readonly Subscription[];
  /** When they were listed, in service time. */
  readonly readAt: Date;
  readonly observed: ObservedState;
}

/**
 * `has` is the observed state of the mirror.
 * @throws ConfigurationError where the mirror is of another service, or a chosen subscription never existed.
 */
export async function connect(
  parts: Parts,
  has: () => Promise<ObservedState>,
  signal: AbortSignal,
): Promise<Connected> {
  const { feed, checkpoint, choices } = parts;
  // Listed first: a key that is refused costs only this one call.
  const listed = await feed.subscriptions(signal);
  await feed.discover(signal);
  const observed = await has();
  warnOfMissingMirror(observed, parts);
  refuseForeignMirror(observed, feed.origin, listed.subscriptions, checkpoint.forgotten());
  const before = subscriptionsBefore(observed, parts);
  const subscriptions = chosenSubscriptions(listed.subscriptions, choices.subscriptions, before);
  suspendMissing(listed, subscriptions, observed, parts);
  adoptProgress(observed, listed.readAt, parts);
  return { subscriptions, readAt: listed.readAt, observed };
}

/** A followed log implies that a mirror existed, except during a first start. */
function warnOfMissingMirror({ service }: ObservedState, { checkpoint, log }: Parts): void {
  if (service !== null || checkpoint.followed().size === 0) return;
  log.warn({}, 'The mirror is not there, though logs were followed before: every table is loaded again.');
}

/** `readAt`: now, in service time. */
export function adoptProgress(
  { progress, datasets }: ObservedState,
  readAt: Date,
  { checkpoint, log }: Parts,
): void {
  if (progress === null) return;
  const followed = checkpoint.followed();
  const forgotten = new Set(checkpoint.forgotten());
  const behind = progress.subscriptions.filter(
    (stored) =>
      !forgotten.has(stored.subscriptionId) &&
      !isOfOldLog(stored, datasets) &&
      isBehind(followed.get(stored.subscriptionId), stored),
  );
  if (behind.length === 0) return;
  checkpoint.adopt(behind.map((stored) => stepFrom(stored, progress, datasets, readAt)));
  log.warn(
    { subscriptions: behind.map(({ subscriptionId }) => subscriptionId) },
    'The checkpoint is older than the mirror: positions, members and owed reloads are taken from the mirror.',
  );
}

/** Whether the mirror has followed the log further than the checkpoint. */
export function isBehind(
  followed: Pick<Followed, 'logNumber' | 'cursor'> | undefined,
  { logNumber, eventNumber }: Pick<StoredSubscription, 'logNumber' | 'eventNumber'>,
): boolean {
  if (followed === undefined) return true;
  if (followed.logNumber !== logNumber) return followed.logNumber < logNumber;
  return (followed.cursor?.number ?? -1n) < (eventNumber ?? -1n);
}

/** The tables know a later log, so a position in an earlier one is void, and the subscription is taken from the manifest. */
function isOfOldLog(
  { subscriptionId, logNumber }: StoredSubscription,
  datasets: ObservedState['datasets'],
): boolean {
  return [...datasets.values()].some(
    ({ reloads }) => (reloads.get(subscriptionId)?.logNumber ?? 0) > logNumber,
  );
}

/** The times at which the datasets joined and left are unknown, so a long past time stands for them. */
function stepFrom(
  stored: StoredSubscription,
  { members, owed }: StoredProgress,
  datasets: ObservedState['datasets'],
  readAt: Date,
): FollowStep {
  const { subscriptionId, name, logNumber, eventNumber, eventCreatedAt, statesLastEvent } = stored;
  const at = new Date(0);
  const isOwn = (one: { readonly subscriptionId: string }): boolean => one.subscriptionId === subscriptionId;
  const joined = members.filter(isOwn).map(
    ({ datasetId, addedEvent }): DesiredStateChange => ({
      kind: 'member',
      datasetId,
      eventNumber: addedEvent,
      at,
      version: null,
    }),
  );
  const dropped = members
    .filter(isOwn)
    .flatMap(({ datasetId, droppedEvent }): readonly DesiredStateChange[] =>
      droppedEvent === null
        ? []
        : [{ kind: 'no-member', datasetId, eventNumber: droppedEvent, at, reason: null }],
    );
  // The reloads that the tables satisfy are requested again where an older mirror is restored.
  const satisfied = [...datasets.values()].flatMap(({ datasetId, reloads }) => {
    const mark = reloads.get(subscriptionId);
    return mark === undefined || mark.logNumber !== logNumber ? [] : [{ datasetId, ...mark }];
  });
  const ofReloads = [...satisfied, ...owed.filter(isOwn)].map(
    ({ datasetId, logNumber: ofLog, eventNumber: asked, createdAt }): DesiredStateChange => ({
      kind: 'reload',
      datasetId,
      version: null,
      logNumber: ofLog,
      eventNumber: asked,
      createdAt: createdAt ?? at,
      readAt,
      knownVersion: null,
      isWithdrawal: false,
    }),
  );
  return {
    subscriptionId,
    subscriptionName: name,
    voids: 'everything',
    statesLastEvent,
    position: {
      logNumber,
      cursor: eventNumber === null ? null : { text: `evt_${eventNumber}`, number: eventNumber },
      cursorCreatedAt: eventCreatedAt,
      isExpiredCursorReplay: eventNumber === null,
      coveredUntil: null,
      readAt: eventNumber === null ? readAt : stored.positionAt,
    },
    // Members request the reload, because the other subscriptions dropped the dataset after it.
    changes: [...joined, ...ofReloads, ...dropped],
  };
}

const DAY_MS = 86_400_000;

/** How long the service keeps events (the interface, Limits). */
export const EVENTS_KEPT_MS = 90 * DAY_MS;

/** A catch-up warns of a position of this age. */
export const OLD_POSITION_MS = 75 * DAY_MS;

type Position = Pick<Followed, 'cursor' | 'cursorAt' | 'replayedAt'>;

/** Returns when the service drops the position unless an event moves it. Null: the log is read from its start. */
export function expiryOf({ cursor, cursorAt, replayedAt }: Position): Date | null {
  if (cursor === null || replayedAt !== null) return null;
  return new Date(cursorAt.getTime() + EVENTS_KEPT_MS);
}

/** Returns 0 where nothing can expire. The machine's clock may have been wrong when the position was stored. */
export function positionAgeMs(position: Position, now: Date): number {
  if (expiryOf(position) === null) return 0;
  return Math.max(0, now.getTime() - position.cursorAt.getTime());
}

/** `now`: in service time. */
export function warnOfOldPosition(subscriptionId: string, now: Date, { checkpoint, log }: Parts): void {
  const followed = checkpoint.followed().get(subscriptionId);
  if (followed === undefined || positionAgeMs(followed, now) < OLD_POSITION_MS) return;
  reportOldPosition(followed, log);
}

export function reportOldPosition({ subscriptionId, cursor, cursorAt }: Followed, log: Log): void {
  const fields = {
    subscription: subscriptionId,
    position: cursor?.text ?? null,
    since: cursorAt.toISOString(),
    expires: new Date(cursorAt.getTime() + EVENTS_KEPT_MS).toISOString(),
  };
  log.warn(
    fields,
    'No event has come for long: once the position in the log expires, tables that changes led on are loaded again.',
  );
}
