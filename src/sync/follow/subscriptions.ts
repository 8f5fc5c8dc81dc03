/**
 * Prepares the following of subscriptions: lists them, selects those that the user chose, checks that the mirror belongs to them,
 * suspends missing ones, and finds where their logs are read on. Writes nothing into the mirror.
 */

import { isMatch } from 'matcher';
import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState, StoredProgress, StoredSubscription } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import type { Log } from '../../lib/log.ts';
import type { DesiredStateChange, FollowStep } from '../../model/desired-state.ts';
import { ConfigurationError, type Refusal } from '../../model/errors.ts';
import type { Subscription } from '../../model/records.ts';
import { SELECT_SUBSCRIPTIONS } from '../incidents.ts';
import type { Parts } from '../parts.ts';
import { unknownResyncs } from '../resyncs.ts';
import { currentSuspensions, storeSuspension } from '../suspensions.ts';
import { noteAbsences } from './audit.ts';

/**
 * Returns the chosen subscriptions among `seen`. `before` are the known subscriptions, by id with their names: a chosen
 * one of these that is not seen any more is missing, which is no fault of the configuration.
 * @throws ConfigurationError naming a chosen subscription that the key has never shown, and the ones that the key
 * shows.
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

/** Returns the known datasets that ids or globs name, each once, in order of id, and the names that name none. */
export function namedDatasets(
  names: readonly string[],
  known: readonly string[],
): { readonly datasetIds: readonly string[]; readonly unknown: readonly string[] } {
  const isNamed = (id: string, by: string): boolean => id === by || isMatch(id, by, { caseSensitive: true });
  return {
    datasetIds: [...new Set(known)].filter((id) => names.some((by) => isNamed(id, by))).sort(),
    unknown: names.filter((by) => by === '' || !known.some((id) => isNamed(id, by))),
  };
}

/** The code of the suspension of a missing subscription. The service has no such code. */
export const SUBSCRIPTION_MISSING = 'subscription_missing';

/**
 * Returns the known subscriptions by id, with their names as far as known: the followed ones and the ones that the
 * destination names, except those that an operator gave up.
 */
function subscriptionsBefore(
  observed: ObservedState,
  { checkpoint }: Pick<Parts, 'checkpoint'>,
): ReadonlyMap<string, string | null> {
  const named = (observed.service?.subscriptionIds ?? []).map((id) => [id, null] as const);
  const followed = [...checkpoint.followed().values()].map(
    ({ subscriptionId, name }) => [subscriptionId, name] as const,
  );
  const before = new Map<string, string | null>([...named, ...followed]);
  for (const id of checkpoint.forgotten()) before.delete(id);
  return before;
}

/**
 * Suspends every known subscription that is not `chosen` now. `seen`: the subscriptions that the service lists, chosen
 * or not. A subscription that the service refused before it disappeared is missing from now on, so that an operator may
 * give it up. A subscription that is suspended as missing stays suspended, also when it is back.
 */
function suspendMissing(
  { subscriptions: seen, readAt }: SubscriptionList,
  chosen: readonly Subscription[],
  observed: ObservedState,
  parts: Parts,
): void {
  const suspensions = currentSuspensions(parts);
  const seenIds = new Set(seen.map(({ id }) => id));
  const chosenIds = new Set(chosen.map(({ id }) => id));
  const isSuspendedAsMissing = (id: string): boolean =>
    suspensions.ofSubscription(id)?.refusal.status === null;
  const before = [...subscriptionsBefore(observed, parts).keys()];
  const watched = before.filter((id) => !isSuspendedAsMissing(id));
  const subjectOf = (subscriptionId: string) => ({ kind: 'subscription', subscriptionId }) as const;
  const unlisted = watched.filter((id) => !seenIds.has(id));
  const gone = new Set(
    noteAbsences(
      unlisted.map(subjectOf),
      before.filter((id) => seenIds.has(id)).map(subjectOf),
      readAt,
      parts,
    ).map((subject) => ('subscriptionId' in subject ? subject.subscriptionId : '')),
  );
  for (const id of watched) {
    if (gone.has(id)) {
      storeSuspension(parts, missing(id, 'list subscriptions', 'The service no longer lists it.'));
    } else if (seenIds.has(id) && !chosenIds.has(id)) {
      const message = 'The setting subscriptions no longer selects it.';
      storeSuspension(parts, missing(id, SELECT_SUBSCRIPTIONS, message));
    }
  }
}

function missing(subscriptionId: string, operation: string, message: string): Refusal {
  return {
    scope: { kind: 'subscription', subscriptionId },
    operation,
    status: null,
    code: SUBSCRIPTION_MISSING,
    message,
    links: new Map(),
  };
}

type Service = NonNullable<ObservedState['service']>;

const OWN_DIRECTORY = 'give this configuration a data directory of its own (dataDir)';

/**
 * Refuses a mirror of another service. `forgotten`: the subscriptions that an operator gave up, which the mirror may still name.
 * @throws ConfigurationError when the mirror is of another service or of other subscriptions altogether.
 */
export function refuseForeignMirror(
  observed: ObservedState,
  origin: string,
  seen: readonly Subscription[],
  forgotten: readonly string[],
): void {
  if (observed.service === null) return;
  if (observed.service.origin !== origin) {
    throw new ConfigurationError(
      `The mirror belongs to the service at ${observed.service.origin}, not to ${origin}.`,
      {
        hint: `If the service has moved there: feed-sync resume --service-moved. Else ${OWN_DIRECTORY}, or correct service.baseUrl.`,
      },
    );
  }
  if (seenBefore(observed.service, forgotten).length > 0) {
    refuseForeignSubscriptions(observed.service, seen, forgotten);
  }
}

/**
 * Returns the subscriptions of the mirror that the service lists.
 * @throws ConfigurationError where there are none.
 */
export function refuseForeignSubscriptions(
  service: Service,
  seen: readonly Subscription[],
  forgotten: readonly string[],
): readonly string[] {
  const mirrored = seenBefore(service, forgotten);
  const common = mirrored.filter((mirroredId) => seen.some(({ id }) => id === mirroredId));
  if (common.length > 0) return common;
  const known = mirrored.length === 0 ? 'no subscription' : `the subscriptions ${mirrored.join(', ')}`;
  throw new ConfigurationError(`The mirror belongs to ${known}, and this API key sees none of them.`, {
    hint: `To mirror other subscriptions, ${OWN_DIRECTORY}; else correct service.baseUrl or the API key.`,
  });
}

function seenBefore({ subscriptionIds }: Service, forgotten: readonly string[]): readonly string[] {
  return [...new Set(subscriptionIds)].filter((id) => !forgotten.includes(id));
}

export interface Connected {
  /** The chosen subscriptions. */
  readonly subscriptions: readonly Subscription[];
  /** When they were listed, in service time. */
  readonly readAt: Date;
  readonly observed: ObservedState;
}

/**
 * Connects the subscriptions with the mirror. `has` is the observed state of the mirror.
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
  log.warn({}, 'The mirror is missing, though logs were followed before: every table is loaded again.');
}

/** Adopts the progress that is stored with the mirror. `readAt`: now, in service time. */
export function adoptProgress(observed: ObservedState, readAt: Date, { checkpoint, log }: Parts): void {
  const { progress, datasets } = observed;
  if (progress === null) return;
  const followed = checkpoint.followed();
  const forgotten = new Set(checkpoint.forgotten());
  const behind = progress.subscriptions.filter(
    (stored) =>
      !forgotten.has(stored.subscriptionId) &&
      !isOfOldLog(stored, datasets) &&
      isBehind(followed.get(stored.subscriptionId), stored),
  );
  if (behind.length > 0) {
    checkpoint.adopt(
      behind.map((stored) => stepFrom(stored, progress, datasets, readAt)),
      [],
    );
    log.warn(
      { subscriptions: behind.map(({ subscriptionId }) => subscriptionId) },
      'The checkpoint is older than the mirror: positions, members and owed reloads are taken from the mirror.',
    );
  }
  const resyncs = unknownResyncs(observed, checkpoint);
  if (resyncs.length > 0) checkpoint.adopt([], resyncs);
}

/** Returns whether the mirror has followed the log further than the checkpoint. */
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

/** Warns of a position that is about to expire. `now`: in service time. */
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
    'No event has come for a long time: once the position in the log expires, tables that changes led on are loaded again.',
  );
}
