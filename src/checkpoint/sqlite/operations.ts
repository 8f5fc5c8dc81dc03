/** The operations of the port on an open connection. Each operation that stores is one transaction and one durable effect. */

import Database from 'better-sqlite3';
import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/files.ts';
import {
  changedDesiredState,
  type FollowStep,
  type Resync,
  withListed,
  withOwed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
  withResync,
} from '../../model/desired-state.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import type { Requests } from '../requests.ts';
import { desiredStateTable } from './desired-states.ts';
import { type Place, withStorageErrors } from './errors.ts';
import { pollsTable } from './polls.ts';
import { hookTable, notificationsTable } from './post-commit.ts';
import { requestsTable } from './requests.ts';
import {
  absencesTable,
  contractTable,
  forgottenTable,
  mentionsTable,
  subscriptionsTable,
} from './subscriptions.ts';
import { candidatesTable, failuresTable, suspensionTable } from './suspensions.ts';
import { scrubTable, syncRunTable } from './sync-runs.ts';
import { whole } from './table.ts';
import { deliveriesTable, webhooksTable } from './webhooks.ts';

export type Tables = ReturnType<typeof tablesOf>;

/** Prepares every statement once. @throws the SqliteError of a file that lacks a table. */
/** Prepares the statements of every table. @throws SqliteError where the file lacks a table or a column. */
export function tablesOf(database: Database.Database) {
  return {
    contract: contractTable(database),
    subscriptions: subscriptionsTable(database),
    polls: pollsTable(database),
    desiredStates: desiredStateTable(database),
    absences: absencesTable(database),
    mentions: mentionsTable(database),
    forgotten: forgottenTable(database),
    suspensions: suspensionTable(database),
    failures: failuresTable(database),
    webhooks: webhooksTable(database),
    deliveries: deliveriesTable(database),
    candidates: candidatesTable(database),
    hook: hookTable(database),
    notifications: notificationsTable(database),
    scrub: scrubTable(database),
    syncRuns: syncRunTable(database),
    requests: requestsTable(database),
  };
}

/** Returns the reading operations. Each operation reads one point in time. The port's `close` calls `close`. */
export function readingOperations(
  database: Database.Database,
  place: Place,
  close: () => void = () => database.close(),
  tables: Tables = tablesOf(database),
): CheckpointReader {
  const read = <T>(effect: () => T): T =>
    withStorageErrors(place, () => database.transaction(effect).deferred());
  return {
    rememberedContract: () => read(tables.contract.get),
    followed: () => read(tables.subscriptions.all),
    polls: () => read(tables.polls.all),
    desiredStates: () => read(tables.desiredStates.all),
    desired: (datasetId) => read(() => tables.desiredStates.one(datasetId)),
    absences: () => read(tables.absences.all),
    mentions: () => read(tables.mentions.all),
    forgotten: () => read(tables.forgotten.all),
    suspensions: () => read(tables.suspensions.all),
    candidates: () => read(tables.candidates.all),
    failures: () => read(tables.failures.all),
    failure: (datasetId) => read(() => tables.failures.one(datasetId)),
    webhooks: () => read(tables.webhooks.all),
    newestDelivery: () => read(tables.deliveries.newest),
    hook: () => read(tables.hook.get),
    notificationLedger: () => read(tables.notifications.get),
    scrub: () => read(tables.scrub.get),
    recentSyncRuns: (limit) => read(() => tables.syncRuns.newest(limit)),
    othersStored: () =>
      withStorageErrors(place, () => Number(database.pragma('data_version', { simple: true }))),
    close: () => withStorageErrors(place, close),
  };
}

/** Runs `effect` in one write transaction, which is the durable effect `name` and stores nothing where `effect` throws. */
type Transaction = <T>(name: string, effect: () => T) => T;

export function allOperations(
  database: Database.Database,
  place: Place,
  clock: Clock,
  close: () => void,
  tables: Tables,
): Checkpoint {
  const transaction: Transaction = (name, effect) =>
    durable(name, () => withStorageErrors(place, () => database.transaction(effect).immediate()));
  return {
    ...readingOperations(database, place, close, tables),
    ...desiredStateOperations(transaction, tables),
    noteAudited(subscriptionId, at) {
      transaction('checkpoint.note-audited', () => tables.subscriptions.noteAudited(subscriptionId, at));
      beginLogAnew(database);
    },
    ...operatorOperations(transaction, tables, clock),
    requests: requestOperations(transaction, place, tables),
    rememberContract: (contract) =>
      transaction('checkpoint.remember-contract', () => tables.contract.put(contract)),
    clearForgotten: (subscriptionIds, isSatisfied) =>
      transaction('checkpoint.clear-forgotten', () => {
        for (const subscriptionId of subscriptionIds) {
          tables.forgotten.remove(subscriptionId);
          tables.desiredStates.clearForgotten(subscriptionId, isSatisfied);
        }
      }),
    suspend: (suspension) => transaction('checkpoint.suspend', () => tables.suspensions.put(suspension)),
    keepCandidate: (candidate) =>
      transaction('checkpoint.keep-candidate', () => tables.candidates.put(candidate)),
    removeCandidate: (datasetId) =>
      transaction('checkpoint.remove-candidate', () => tables.candidates.remove(datasetId)),
    fail: (failure) => transaction('checkpoint.fail', () => tables.failures.put(failure)),
    clearFailure: (datasetId) =>
      transaction('checkpoint.clear-failure', () => tables.failures.remove(datasetId)),
    rememberDelivery: (deliveryId, at) =>
      transaction('checkpoint.remember-delivery', () => tables.deliveries.add(deliveryId, at)),
    hookReported: (position, at) =>
      transaction('checkpoint.hook-reported', () => tables.hook.reported(position, at)),
    hookFailed: (message, at) => transaction('checkpoint.hook-failed', () => tables.hook.failed(message, at)),
    keepNotificationLedger: (ledger) =>
      transaction('checkpoint.keep-notifications', () => tables.notifications.put(ledger)),
    keepScrub: (record) => transaction('checkpoint.keep-scrub', () => tables.scrub.put(record)),
    damage: () => withStorageErrors(place, () => damageOf(database)),
    recordSyncRun: (run) => transaction('checkpoint.sync-run', () => tables.syncRuns.append(run)),
  };
}

/** Another connection reads the pages from the file, and not from the memory of this one. */
function damageOf(database: Database.Database): string | null {
  const another = new Database(database.name, { fileMustExist: true, readonly: true });
  try {
    const finding = String(another.pragma('quick_check(1)', { simple: true }));
    return finding === 'ok' ? null : finding;
  } catch (error) {
    if (!(error instanceof Database.SqliteError) || !['SQLITE_CORRUPT', 'SQLITE_NOTADB'].includes(error.code))
      throw error;
    return error.message;
  } finally {
    another.close();
  }
}

/**
 * Copies the write-ahead log into the file, so that the next transaction writes the log from its beginning. By itself SQLite does
 * so at a thousand pages, and a quiet day writes one for each poll. Where SQLite cannot, the content is stored all the same.
 */
function beginLogAnew(database: Database.Database): void {
  try {
    database.pragma('wal_checkpoint(PASSIVE)');
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error;
  }
}

/** The operations on desired states and positions. */
function desiredStateOperations(transaction: Transaction, tables: Tables) {
  const { desiredStates, subscriptions, absences } = tables;
  const noteReading = (effect: () => void): void => transaction('checkpoint.note-absences', effect);
  return {
    commitFollowStep: (step) => transaction('checkpoint.follow-step', () => applyStep(tables, step)),
    adopt: (steps, resyncs) =>
      transaction('checkpoint.adopt', () => {
        for (const step of steps) applyStep(tables, step);
        for (const resync of resyncs) adoptResync(tables, resync);
      }),
    noteStatedLastEvent: (subscriptionId) =>
      transaction('checkpoint.note-stated', () => subscriptions.noteStatedLastEvent(subscriptionId)),
    notePoll: (subscriptionId, at, end) =>
      transaction('checkpoint.note-poll', () => tables.polls.ended(subscriptionId, at, end)),
    noteAbsences(absent, present) {
      if (absent.length + present.length === 0) return;
      noteReading(() => {
        for (const absence of absent) absences.put(absence);
        for (const subject of present) absences.remove(subject);
      });
    },
    noteMentions(mentions, over) {
      if (mentions.length + over.length === 0) return;
      noteReading(() => {
        for (const mention of mentions) tables.mentions.put(mention);
        for (const mention of over) tables.mentions.remove(mention);
      });
    },
    noteListed: (datasetId, newest) =>
      transaction('checkpoint.note-listed', () =>
        desiredStates.update(datasetId, (desired) => withListed(desired, newest)),
      ),
    voidAnnounced: (datasetId, above) =>
      transaction('checkpoint.void-announced', () =>
        desiredStates.update(datasetId, (desired) => withoutAnnouncedAbove(desired, above)),
      ),
    noteRetired: (datasetId, owed) =>
      transaction('checkpoint.note-retired', () => {
        desiredStates.update(datasetId, (desired) =>
          desired.reloads.length + owed.length === 0 ? desired : { ...desired, reloads: owed },
        );
        absences.removeOfTable(datasetId);
        tables.mentions.removeOfTable(datasetId);
        tables.candidates.remove(datasetId);
      }),
    oweAgain: (datasetId, reloads) =>
      transaction('checkpoint.owe-again', () =>
        desiredStates.update(datasetId, (desired) => withOwed(desired, reloads)),
      ),
    markSatisfied: (datasetId, isSatisfied) =>
      transaction('checkpoint.mark-satisfied', () =>
        desiredStates.update(datasetId, (desired) => withoutAnswered(desired, isSatisfied)),
      ),
    markRefreshed: (datasetId, refreshesRequested) =>
      transaction('checkpoint.mark-refreshed', () =>
        desiredStates.markRefreshed(datasetId, refreshesRequested),
      ),
  } satisfies Partial<Checkpoint>;
}

/** The operations that commands of operators use. */
function operatorOperations(transaction: Transaction, tables: Tables, clock: Clock) {
  return {
    requestResync: (datasetIds, moves = null) =>
      transaction('checkpoint.request-resync', () => requestResync(tables, datasetIds, clock.now(), moves)),
    approveRetirements: () => transaction('checkpoint.approve-retirements', () => approveRetirements(tables)),
    forget: (...subscriptionIds) =>
      transaction('checkpoint.forget', () => subscriptionIds.flatMap((id) => forget(tables, id))),
    lift: (scope) => transaction('checkpoint.lift', () => tables.suspensions.remove(scope)),
    keepWebhook: (webhook) => transaction('checkpoint.keep-webhook', () => tables.webhooks.put(webhook)),
    forgetWebhook: (webhookId) =>
      transaction('checkpoint.forget-webhook', () => tables.webhooks.remove(webhookId)),
  } satisfies Partial<Checkpoint>;
}

/** Asynchronous, because the requests may be in a database server instead. */
function requestOperations(transaction: Transaction, place: Place, { requests }: Tables): Requests {
  const read = <T>(effect: () => T): T => withStorageErrors(place, effect);
  const settle = <T>(effect: () => T): T => transaction('checkpoint.settle-request', effect);
  return {
    ask: async (request, at) => transaction('checkpoint.ask', () => requests.ask(request, at)),
    withdraw: async (requestId) => settle(() => requests.withdraw(requestId)),
    state: async (requestId) => read(() => requests.state(requestId)),
    waitingDatasets: async (now) => read(() => requests.waitingDatasets(now)),
    async begin(datasetId, now) {
      // Most datasets have none: nothing is written for them.
      if (!read(() => requests.waitingDatasets(now)).includes(datasetId)) return null;
      return transaction('checkpoint.begin-request', () => requests.begin(datasetId, now));
    },
    answer: async (requestId, answer) => settle(() => requests.answer(requestId, answer)),
  };
}

/** A subscription that is followed again is no longer forgotten, and a dataset that returned is no longer suspended. */
function applyStep(tables: Tables, step: FollowStep): void {
  const { subscriptionName: name, position, voids = null } = step;
  const { logNumber, cursor, cursorCreatedAt, isExpiredCursorReplay, coveredUntil, readAt } = position;
  const subscriptionId = whole(step.subscriptionId, 'subscriptionId');
  if (voids !== null) {
    const without = voids === 'numbers' ? withoutLog : withoutSubscription;
    for (const id of tables.desiredStates.idsOf(subscriptionId)) {
      tables.desiredStates.update(id, (desired) => without(desired, subscriptionId));
    }
  }
  for (const change of step.changes) {
    const { datasetId } = change;
    const { before, after } = tables.desiredStates.update(datasetId, (desired) =>
      changedDesiredState(desired, subscriptionId, change),
    );
    const hasReturned = before.formerMembers.has(subscriptionId) && after.members.has(subscriptionId);
    if (hasReturned) tables.suspensions.remove({ kind: 'dataset', datasetId });
    // Notes from before the dataset joined or left say nothing about the time after.
    const isOfMember = change.kind === 'member' || change.kind === 'no-member';
    if (!isOfMember || after === before) continue;
    tables.absences.remove({ kind: 'member', subscriptionId, datasetId });
    tables.mentions.remove({ subscriptionId, datasetId });
  }
  tables.subscriptions.put({
    subscriptionId,
    name,
    logNumber,
    cursor,
    cursorCreatedAt,
    cursorAt: readAt,
    replayedAt: isExpiredCursorReplay ? readAt : null,
    coveredUntil,
  });
  if (step.statesLastEvent === true) tables.subscriptions.noteStatedLastEvent(subscriptionId);
  tables.forgotten.remove(subscriptionId);
}

/** The time in milliseconds is greater than any number that the mirror satisfies, also where the checkpoint was lost. */
function requestResync(
  tables: Tables,
  datasetIds: readonly string[],
  now: Date,
  moves: boolean | null,
): readonly string[] {
  const requested = [...new Set(datasetIds)].filter((id) =>
    tables.desiredStates.requestResync(id, now.getTime(), moves),
  );
  for (const id of requested) tables.failures.remove(id);
  return requested;
}

function adoptResync({ desiredStates, failures }: Tables, resync: Resync): void {
  const { datasetId } = resync;
  const { before, after } = desiredStates.update(datasetId, (desired) => withResync(desired, resync));
  if (after !== before) failures.remove(datasetId);
}

function approveRetirements(tables: Tables): readonly string[] {
  tables.suspensions.remove({ kind: 'retirement' });
  return tables.desiredStates.approveRetirements();
}

function forget(tables: Tables, subscriptionId: string): readonly string[] {
  tables.subscriptions.remove(subscriptionId);
  tables.polls.remove(subscriptionId);
  tables.suspensions.remove({ kind: 'subscription', subscriptionId });
  tables.absences.removeOfSubscription(subscriptionId);
  tables.mentions.removeOfSubscription(subscriptionId);
  tables.forgotten.add(whole(subscriptionId, 'subscriptionId'));
  return tables.desiredStates.forget(subscriptionId);
}
