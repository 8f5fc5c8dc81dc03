/**
 * A checkpoint that was lost, or an older one that was restored, starts from the positions, members and owed reloads that are
 * stored with the mirror: what the tables owe nothing of is not loaded again.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { Held } from '../../destination/destination.ts';
import type { StoredProgress, StoredSubscription } from '../../destination/stored-progress.ts';
import type { FollowStep, WantChange } from '../../model/want.ts';
import type { Parts } from '../parts.ts';

/** `readAt`: now, in service time. */
export function adoptProgress({ progress, datasets }: Held, readAt: Date, { checkpoint, log }: Parts): void {
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
function isOfOldLog({ subscriptionId, logNumber }: StoredSubscription, datasets: Held['datasets']): boolean {
  return [...datasets.values()].some(
    ({ reloads }) => (reloads.get(subscriptionId)?.logNumber ?? 0) > logNumber,
  );
}

/** When the datasets joined and left is not known: long ago. */
function stepFrom(
  stored: StoredSubscription,
  { members, owed }: StoredProgress,
  datasets: Held['datasets'],
  readAt: Date,
): FollowStep {
  const { subscriptionId, name, logNumber, eventNumber, eventCreatedAt, statesLastEvent } = stored;
  const at = new Date(0);
  const isOwn = (one: { readonly subscriptionId: string }): boolean => one.subscriptionId === subscriptionId;
  const joined = members.filter(isOwn).map(
    ({ datasetId, addedEvent }): WantChange => ({
      kind: 'member',
      datasetId,
      eventNumber: addedEvent,
      at,
      version: null,
    }),
  );
  const dropped = members
    .filter(isOwn)
    .flatMap(({ datasetId, droppedEvent }): readonly WantChange[] =>
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
    ({ datasetId, logNumber: ofLog, eventNumber: asked, createdAt }): WantChange => ({
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
      isQuiet: eventNumber === null,
      coveredUntil: null,
      readAt: eventNumber === null ? readAt : stored.positionAt,
    },
    // A reload is asked for by a member: those that dropped the dataset since did so after it.
    changes: [...joined, ...ofReloads, ...dropped],
  };
}
