/**
 * The checkpoint in memory: SQLite is too slow for hundreds of thousands of histories. Desired states are decided by
 * the same pure functions (model/desired-state.ts); `checkpoints.test.ts` plays histories on both.
 */

import type { Checkpoint, Failure, Followed, Mention, Suspension } from '../../src/checkpoint/checkpoint.ts';
import type { OperatorRequest, Requests } from '../../src/checkpoint/requests.ts';
import { type Absence, absenceKey } from '../../src/model/absence.ts';
import type { Candidate } from '../../src/model/candidate.ts';
import {
  byNumber,
  changedDesiredState,
  type DesiredState,
  emptyDesiredState,
  type FollowStep,
  withListed,
  withOwed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
  withResync,
} from '../../src/model/desired-state.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import { EMPTY_LEDGER } from '../../src/model/notification.ts';
import { NEVER_SCRUBBED } from '../../src/model/scrub.ts';

/** The stored state. Values never change, so that a copy of the maps is a copy of it all. */
export interface Stored {
  readonly followed: Map<string, Followed>;
  readonly desiredStates: Map<string, DesiredState>;
  readonly absences: Map<string, Absence>;
  readonly mentions: Map<string, Mention>;
  readonly suspensions: Map<string, Suspension>;
  readonly failures: Map<string, Failure>;
  readonly candidates: Map<string, Candidate>;
  /** By their ids, the oldest first. */
  readonly requests: Map<string, OperatorRequest>;
}

export function emptyStored(): Stored {
  return {
    followed: new Map(),
    desiredStates: new Map(),
    absences: new Map(),
    mentions: new Map(),
    suspensions: new Map(),
    failures: new Map(),
    candidates: new Map(),
    requests: new Map(),
  };
}

export function copyOf({
  followed,
  desiredStates,
  absences,
  mentions,
  suspensions,
  failures,
  candidates,
  requests,
}: Stored): Stored {
  return {
    followed: new Map(followed),
    desiredStates: new Map(desiredStates),
    absences: new Map(absences),
    mentions: new Map(mentions),
    suspensions: new Map(suspensions),
    failures: new Map(failures),
    candidates: new Map(candidates),
    requests: new Map(requests),
  };
}

/** A command waits for its answer until the history ends. */
function modelRequests({ requests }: Stored): Requests {
  return {
    async ask(request) {
      requests.set(request.requestId, request);
    },
    withdraw: async () => ({ kind: 'kept' }),
    state: async (requestId) => (requests.has(requestId) ? { kind: 'waiting' } : null),
    waitingDatasets: async () => [...new Set([...requests.values()].map(({ datasetId }) => datasetId))],
    async begin(datasetId) {
      const request = [...requests.values()].find((one) => one.datasetId === datasetId) ?? null;
      if (request !== null) requests.delete(request.requestId);
      return request;
    },
    async answer() {},
  };
}

/** `nowMs`: the number of a resync is its time. */
export function modelCheckpoint(stored: Stored, nowMs: () => number): Checkpoint {
  const { followed, desiredStates, absences, mentions, suspensions, failures, candidates } = stored;
  const update = (datasetId: string, change: (desired: DesiredState) => DesiredState): void => {
    const after = change(desiredStates.get(datasetId) ?? emptyDesiredState(datasetId));
    desiredStates.set(datasetId, { ...after, reloads: after.reloads.toSorted(byNumber) });
  };
  return {
    requests: modelRequests(stored),
    oweAgain: (datasetId, reloads) => update(datasetId, (desired) => withOwed(desired, reloads)),
    rememberedContract: () => ({ manifestPath: null, newerThanParameter: null }),
    followed: () => new Map(followed),
    desiredStates: () => new Map(desiredStates),
    desired: (datasetId) => desiredStates.get(datasetId) ?? null,
    absences: () => [...absences.values()],
    mentions: () => [...mentions.values()],
    forgotten: () => [],
    suspensions: () => [...suspensions.values()],
    candidates: () => [...candidates.values()],
    failures: () => new Map(failures),
    failure: (datasetId) => failures.get(datasetId) ?? null,
    polls: () => [],
    webhooks: () => [],
    newestDelivery: () => 0,
    hook: () => ({ reported: null, reportedAt: null, failure: null }),
    scrub: () => NEVER_SCRUBBED,
    keepScrub() {},
    damage: () => null,
    notificationLedger: () => EMPTY_LEDGER,
    keepNotificationLedger() {},
    recentSyncRuns: () => [],
    othersStored: () => 0,
    close() {},
    rememberContract() {},
    keepCandidate: (candidate) => void candidates.set(candidate.datasetId, candidate),
    removeCandidate: (datasetId) => void candidates.delete(datasetId),
    commitFollowStep: (step) => followStep(step, stored, update),
    adopt(steps, resyncs) {
      for (const step of steps) followStep(step, stored, update);
      for (const resync of resyncs) update(resync.datasetId, (desired) => withResync(desired, resync));
    },
    noteStatedLastEvent(id) {
      const before = followed.get(id);
      if (before !== undefined) followed.set(id, { ...before, statesLastEvent: true });
    },
    noteAudited(id, auditedAt) {
      const before = followed.get(id);
      if (before !== undefined) followed.set(id, { ...before, auditedAt });
    },
    notePoll() {},
    noteAbsences(absent, present) {
      for (const absence of absent) absences.set(absenceKey(absence.subject), absence);
      for (const subject of present) absences.delete(absenceKey(subject));
    },
    noteMentions(noted, over) {
      for (const mention of noted) mentions.set(mentionKey(mention), mention);
      for (const mention of over) mentions.delete(mentionKey(mention));
    },
    noteListed: (datasetId, newest) => update(datasetId, (desired) => withListed(desired, newest)),
    voidAnnounced: (datasetId, above) =>
      update(datasetId, (desired) => withoutAnnouncedAbove(desired, above)),
    noteRetired(datasetId, owed) {
      update(datasetId, (desired) => ({ ...desired, reloads: owed }));
      for (const [key, mention] of mentions) if (mention.datasetId === datasetId) mentions.delete(key);
      candidates.delete(datasetId);
    },
    markSatisfied: (datasetId, isSatisfied) =>
      update(datasetId, (desired) => withoutAnswered(desired, isSatisfied)),
    markRefreshed: (datasetId, refreshesRequested) =>
      update(datasetId, (desired) => {
        const refreshesDone = Math.max(
          desired.refreshesDone,
          Math.min(desired.refreshesRequested, refreshesRequested),
        );
        return { ...desired, refreshesDone };
      }),
    requestResync: (datasetIds) =>
      datasetIds.filter((datasetId) => {
        if ((desiredStates.get(datasetId)?.members.size ?? 0) === 0) return false;
        update(datasetId, (desired) => ({
          ...desired,
          resyncNumber: Math.max(desired.resyncNumber + 1, nowMs()),
        }));
        failures.delete(datasetId);
        return true;
      }),
    approveRetirements: () => [],
    forget: () => [],
    clearForgotten() {},
    suspend: (suspension) => void suspensions.set(scopeKey(suspension.refusal.scope), suspension),
    lift: (scope) => suspensions.delete(scopeKey(scope)),
    fail: (failure) => void failures.set(failure.datasetId, failure),
    clearFailure: (datasetId) => void failures.delete(datasetId),
    keepWebhook() {},
    forgetWebhook() {},
    rememberDelivery: () => true,
    hookReported() {},
    hookFailed() {},
    recordSyncRun() {},
  };
}

type Update = (datasetId: string, change: (desired: DesiredState) => DesiredState) => void;

function followStep(step: FollowStep, stored: Stored, update: Update): void {
  const { followed, desiredStates } = stored;
  const { subscriptionId, subscriptionName: name, position, voids = null } = step;
  const { logNumber, cursor, cursorCreatedAt, isExpiredCursorReplay, coveredUntil, readAt } = position;
  if (voids !== null) {
    const without = voids === 'numbers' ? withoutLog : withoutSubscription;
    for (const datasetId of desiredStates.keys())
      update(datasetId, (desired) => without(desired, subscriptionId));
  }
  for (const change of step.changes) {
    const { datasetId, kind } = change;
    update(datasetId, (desired) => {
      const after = changedDesiredState(desired, subscriptionId, change);
      if (after !== desired && (kind === 'member' || kind === 'no-member')) {
        stored.absences.delete(absenceKey({ kind: 'member', subscriptionId, datasetId }));
        stored.mentions.delete(mentionKey({ subscriptionId, datasetId }));
      }
      return after;
    });
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
    replayedAt: isExpiredCursorReplay ? readAt : null,
    coveredUntil,
    statesLastEvent: step.statesLastEvent === true || (isSameLog && before.statesLastEvent),
    auditedAt: before?.auditedAt ?? null,
  });
}

function mentionKey({ subscriptionId, datasetId }: Mention): string {
  return JSON.stringify([subscriptionId, datasetId]);
}

function scopeKey(scope: RefusalScope): string {
  return JSON.stringify(Object.entries(scope).sort());
}
