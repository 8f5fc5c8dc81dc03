/**
 * The checkpoint in memory: SQLite is too slow for hundreds of thousands of histories. What is decided about wants is decided by
 * the same pure functions (model/want-changes.ts); `checkpoints.test.ts` plays histories on both.
 */

import type { Checkpoint, Failure, Followed, Hold } from '../../src/checkpoint/checkpoint.ts';
import { type Absence, absenceKey } from '../../src/model/absence.ts';
import {
  byNumber,
  changedWant,
  emptyWant,
  type FollowStep,
  type Want,
  withListed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
} from '../../src/model/desired-state.ts';
import type { RefusalScope } from '../../src/model/errors.ts';

/** What is stored. Values never change, so that a copy of the maps is a copy of it all. */
export interface Stored {
  readonly followed: Map<string, Followed>;
  readonly wants: Map<string, Want>;
  readonly absences: Map<string, Absence>;
  readonly holds: Map<string, Hold>;
  readonly failures: Map<string, Failure>;
}

export function emptyStored(): Stored {
  return {
    followed: new Map(),
    wants: new Map(),
    absences: new Map(),
    holds: new Map(),
    failures: new Map(),
  };
}

export function copyOf({ followed, wants, absences, holds, failures }: Stored): Stored {
  return {
    followed: new Map(followed),
    wants: new Map(wants),
    absences: new Map(absences),
    holds: new Map(holds),
    failures: new Map(failures),
  };
}

export function modelCheckpoint(stored: Stored): Checkpoint {
  const { followed, wants, absences, holds, failures } = stored;
  const update = (datasetId: string, change: (want: Want) => Want): void => {
    const after = change(wants.get(datasetId) ?? emptyWant(datasetId));
    wants.set(datasetId, { ...after, reloads: after.reloads.toSorted(byNumber) });
  };
  return {
    rememberedContract: () => ({ manifestPath: null, newerThanParameter: null }),
    followed: () => new Map(followed),
    wants: () => new Map(wants),
    want: (datasetId) => wants.get(datasetId) ?? null,
    absences: () => [...absences.values()],
    forgotten: () => [],
    holds: () => [...holds.values()],
    failures: () => new Map(failures),
    failure: (datasetId) => failures.get(datasetId) ?? null,
    webhooks: () => [],
    hook: () => ({ told: null, toldAt: null, failure: null }),
    recentJournal: () => [],
    othersStored: () => 0,
    close() {},
    rememberContract() {},
    commitFollowStep: (step) => followStep(step, stored, update),
    adopt: (steps) => steps.forEach((step) => void followStep(step, stored, update)),
    noteStatedLastEvent(id) {
      const before = followed.get(id);
      if (before !== undefined) followed.set(id, { ...before, statesLastEvent: true });
    },
    noteAudited(id, auditedAt) {
      const before = followed.get(id);
      if (before !== undefined) followed.set(id, { ...before, auditedAt });
    },
    noteAbsences(absent, present) {
      for (const absence of absent) absences.set(absenceKey(absence.subject), absence);
      for (const subject of present) absences.delete(absenceKey(subject));
    },
    noteListed: (datasetId, newest) => update(datasetId, (want) => withListed(want, newest)),
    voidAnnounced: (datasetId, above) => update(datasetId, (want) => withoutAnnouncedAbove(want, above)),
    dropReloads: (datasetId) => update(datasetId, (want) => ({ ...want, reloads: [] })),
    markAnswered: (datasetId, isSatisfied) => update(datasetId, (want) => withoutAnswered(want, isSatisfied)),
    markLooked: (datasetId, looksAsked) =>
      update(datasetId, (want) => {
        const looksDone = Math.max(want.looksDone, Math.min(want.looksAsked, looksAsked));
        return { ...want, looksDone };
      }),
    askResync: () => [],
    approveRetirements: () => [],
    forget: () => [],
    clearForgotten() {},
    hold: (hold) => void holds.set(scopeKey(hold.refusal.scope), hold),
    lift: (scope) => holds.delete(scopeKey(scope)),
    fail: (failure) => void failures.set(failure.datasetId, failure),
    clearFailure: (datasetId) => void failures.delete(datasetId),
    keepWebhook() {},
    rememberDelivery: () => true,
    hookTold() {},
    hookFailed() {},
    journal() {},
  };
}

type Update = (datasetId: string, change: (want: Want) => Want) => void;

function followStep(step: FollowStep, { followed, wants }: Stored, update: Update): void {
  const { subscriptionId, subscriptionName: name, position, voids = null } = step;
  const { logNumber, cursor, cursorCreatedAt, isQuiet, coveredUntil, readAt } = position;
  if (voids !== null) {
    const without = voids === 'numbers' ? withoutLog : withoutSubscription;
    for (const datasetId of wants.keys()) update(datasetId, (want) => without(want, subscriptionId));
  }
  for (const change of step.changes) {
    update(change.datasetId, (want) => changedWant(want, subscriptionId, change));
  }
  const before = followed.get(subscriptionId);
  const isSameLog = before?.logNumber === logNumber;
  const isMoved = before === undefined || !isSameLog || before.cursor?.text !== cursor?.text;
  followed.set(subscriptionId, {
    subscriptionId,
    name,
    logNumber,
    cursor,
    cursorCreatedAt,
    cursorAt: isMoved ? readAt : before.cursorAt,
    quietReadAt: isQuiet ? readAt : null,
    coveredUntil,
    statesLastEvent: step.statesLastEvent === true || (isSameLog && before.statesLastEvent),
    auditedAt: before?.auditedAt ?? null,
  });
}

function scopeKey(scope: RefusalScope): string {
  return JSON.stringify(Object.entries(scope).sort());
}
