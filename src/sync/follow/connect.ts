/**
 * What comes before anything is read of a subscription: which there are, whether the mirror is theirs, which of those
 * that were there are gone, and where their logs are read on. Nothing is written into the mirror here.
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
  /** Those that were chosen. */
  readonly subscriptions: readonly Subscription[];
  /** When they were listed, in service time. */
  readonly readAt: Date;
  readonly observed: ObservedState;
}

/**
 * `has` tells what the mirror has.
 * @throws ConfigurationError where the mirror is of another service, or a chosen subscription was never there.
 */
export async function connect(
  parts: Parts,
  has: () => Promise<ObservedState>,
  signal: AbortSignal,
): Promise<Connected> {
  const { feed, checkpoint, choices } = parts;
  // Listed first: a key that is refused costs this one call.
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

/** Where a log is followed there was a mirror, but for the first moments of a first start. */
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

/** The tables know of a later log: a position in an earlier one is void, and the subscription is taken from the manifest. */
function isOfOldLog(
  { subscriptionId, logNumber }: StoredSubscription,
  datasets: ObservedState['datasets'],
): boolean {
  return [...datasets.values()].some(
    ({ reloads }) => (reloads.get(subscriptionId)?.logNumber ?? 0) > logNumber,
  );
}

/** When the datasets joined and left is not known: long ago. */
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
  // What the tables satisfy is asked for again where an older mirror is restored.
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
    // A reload is asked for by a member: those that dropped the dataset since did so after it.
    changes: [...joined, ...ofReloads, ...dropped],
  };
}

const DAY_MS = 86_400_000;

/** How long the service keeps events (the interface, Limits). */
export const EVENTS_KEPT_MS = 90 * DAY_MS;

/** A catch-up tells of a position of this age. */
export const OLD_POSITION_MS = 75 * DAY_MS;

type Position = Pick<Followed, 'cursor' | 'cursorAt' | 'replayedAt'>;

/** When the service keeps the position no more, unless an event moves it. Null: the log is read from its start. */
export function expiryOf({ cursor, cursorAt, replayedAt }: Position): Date | null {
  if (cursor === null || replayedAt !== null) return null;
  return new Date(cursorAt.getTime() + EVENTS_KEPT_MS);
}

/** 0 where nothing can expire. The clock of the machine may have been wrong when the position was stored. */
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
