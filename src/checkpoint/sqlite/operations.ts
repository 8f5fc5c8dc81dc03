/** The operations of the port on an open connection. Each that stores is one transaction and one durable effect. */

import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/files.ts';
import {
  changedDesiredState,
  type FollowStep,
  withListed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
} from '../../model/desired-state.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import { type DesiredStateTable, desiredStateTable } from './desired-states.ts';
import { whole } from './errors.ts';
import type { Connection } from './open.ts';
import {
  type AbsencesTable,
  absencesTable,
  type ContractTable,
  contractTable,
  type ForgottenTable,
  forgottenTable,
  type SubscriptionsTable,
  subscriptionsTable,
} from './subscriptions.ts';
import { type FailuresTable, failuresTable, type SuspensionTable, suspensionTable } from './suspensions.ts';
import {
  type DeliveriesTable,
  deliveriesTable,
  type HookTable,
  hookTable,
  type SyncRunTable,
  syncRunTable,
  type WebhooksTable,
  webhooksTable,
} from './sync-runs.ts';

interface Tables {
  readonly contract: ContractTable;
  readonly subscriptions: SubscriptionsTable;
  readonly desiredStates: DesiredStateTable;
  readonly absences: AbsencesTable;
  readonly forgotten: ForgottenTable;
  readonly suspensions: SuspensionTable;
  readonly failures: FailuresTable;
  readonly webhooks: WebhooksTable;
  readonly deliveries: DeliveriesTable;
  readonly hook: HookTable;
  readonly syncRuns: SyncRunTable;
}

/** Prepares every statement once. @throws the SqliteError of a file that lacks a table. */
export function tablesOf({ database }: Connection): Tables {
  return {
    contract: contractTable(database),
    subscriptions: subscriptionsTable(database),
    desiredStates: desiredStateTable(database),
    absences: absencesTable(database),
    forgotten: forgottenTable(database),
    suspensions: suspensionTable(database),
    failures: failuresTable(database),
    webhooks: webhooksTable(database),
    deliveries: deliveriesTable(database),
    hook: hookTable(database),
    syncRuns: syncRunTable(database),
  };
}

export function readingOperations(connection: Connection, tables: Tables): CheckpointReader {
  return {
    rememberedContract: () => connection.read(() => tables.contract.get()),
    followed: () => connection.read(() => tables.subscriptions.all()),
    desiredStates: () => connection.read(() => tables.desiredStates.all()),
    desired: (datasetId) => connection.read(() => tables.desiredStates.one(datasetId)),
    absences: () => connection.read(() => tables.absences.all()),
    forgotten: () => connection.read(() => tables.forgotten.all()),
    suspensions: () => connection.read(() => tables.suspensions.all()),
    failures: () => connection.read(() => tables.failures.all()),
    failure: (datasetId) => connection.read(() => tables.failures.one(datasetId)),
    webhooks: () => connection.read(() => tables.webhooks.all()),
    hook: () => connection.read(() => tables.hook.get()),
    recentSyncRuns: (limit) => connection.read(() => tables.syncRuns.newest(limit)),
    othersStored: () => connection.othersStored(),
    close: () => connection.close(),
  };
}

export function allOperations(connection: Connection, tables: Tables, clock: Clock): Checkpoint {
  return {
    ...readingOperations(connection, tables),
    ...desiredStateOperations(connection, tables),
    ...operationsOfTheProgram(connection, tables),
    ...operatorOperations(connection, tables, clock),
  };
}

type OperatorOperations = 'askResync' | 'approveRetirements' | 'forget' | 'lift' | 'keepWebhook';

type DesiredStateOperations =
  | 'commitFollowStep'
  | 'adopt'
  | 'noteStatedLastEvent'
  | 'noteAudited'
  | 'noteAbsences'
  | 'noteListed'
  | 'voidAnnounced'
  | 'noteRetired'
  | 'markAnswered'
  | 'markLooked';

/** What is wanted, and what becomes known of it. */
function desiredStateOperations(
  { transaction }: Connection,
  tables: Tables,
): Pick<Checkpoint, DesiredStateOperations> {
  const { desiredStates, subscriptions, absences } = tables;
  return {
    commitFollowStep(step) {
      durable('checkpoint.follow-step', () => transaction(() => applyStep(tables, step)));
    },
    adopt(steps) {
      durable('checkpoint.adopt', () =>
        transaction(() => steps.forEach((step) => void applyStep(tables, step))),
      );
    },
    noteStatedLastEvent(subscriptionId) {
      durable('checkpoint.note-stated', () =>
        transaction(() => subscriptions.noteStatedLastEvent(subscriptionId)),
      );
    },
    noteAudited(subscriptionId, at) {
      durable('checkpoint.note-audited', () =>
        transaction(() => subscriptions.noteAudited(subscriptionId, at)),
      );
    },
    noteAbsences(absent, present) {
      if (absent.length + present.length === 0) return;
      durable('checkpoint.note-absences', () =>
        transaction(() => {
          for (const absence of absent) absences.put(absence);
          for (const subject of present) absences.remove(subject);
        }),
      );
    },
    noteListed(datasetId, newest) {
      durable('checkpoint.note-listed', () =>
        transaction(() => desiredStates.update(datasetId, (desired) => withListed(desired, newest))),
      );
    },
    voidAnnounced(datasetId, above) {
      durable('checkpoint.void-announced', () =>
        transaction(() =>
          desiredStates.update(datasetId, (desired) => withoutAnnouncedAbove(desired, above)),
        ),
      );
    },
    noteRetired(datasetId, owed) {
      durable('checkpoint.note-retired', () =>
        transaction(() => {
          desiredStates.update(datasetId, (desired) =>
            desired.reloads.length + owed.length === 0 ? desired : { ...desired, reloads: owed },
          );
          absences.removeOfTable(datasetId);
        }),
      );
    },
    markAnswered(datasetId, isSatisfied) {
      durable('checkpoint.mark-answered', () =>
        transaction(() =>
          desiredStates.update(datasetId, (desired) => withoutAnswered(desired, isSatisfied)),
        ),
      );
    },
    markLooked(datasetId, refreshesRequested) {
      durable('checkpoint.mark-looked', () =>
        transaction(() => desiredStates.markLooked(datasetId, refreshesRequested)),
      );
    },
  };
}

function operationsOfTheProgram(
  { transaction }: Connection,
  tables: Tables,
): Omit<Checkpoint, keyof CheckpointReader | OperatorOperations | DesiredStateOperations> {
  return {
    rememberContract(contract) {
      durable('checkpoint.remember-contract', () => transaction(() => tables.contract.put(contract)));
    },
    clearForgotten(subscriptionIds, isSatisfied) {
      durable('checkpoint.clear-forgotten', () =>
        transaction(() => {
          for (const subscriptionId of subscriptionIds) {
            tables.forgotten.remove(subscriptionId);
            tables.desiredStates.clearForgotten(subscriptionId, isSatisfied);
          }
        }),
      );
    },
    suspension(suspension) {
      durable('checkpoint.hold', () => transaction(() => tables.suspensions.put(suspension)));
    },
    fail(failure) {
      durable('checkpoint.fail', () => transaction(() => tables.failures.put(failure)));
    },
    clearFailure(datasetId) {
      durable('checkpoint.clear-failure', () => transaction(() => tables.failures.remove(datasetId)));
    },
    rememberDelivery: (deliveryId, at) =>
      durable('checkpoint.remember-delivery', () => transaction(() => tables.deliveries.add(deliveryId, at))),
    hookReported(position, at) {
      durable('checkpoint.hook-told', () => transaction(() => tables.hook.reported(position, at)));
    },
    hookFailed(message, at) {
      durable('checkpoint.hook-failed', () => transaction(() => tables.hook.failed(message, at)));
    },
    syncRuns(entry) {
      durable('checkpoint.journal', () => transaction(() => tables.syncRuns.append(entry)));
    },
  };
}

function operatorOperations(
  { transaction }: Connection,
  tables: Tables,
  clock: Clock,
): Pick<Checkpoint, OperatorOperations> {
  return {
    askResync: (datasetIds) =>
      durable('checkpoint.ask-resync', () => transaction(() => askResync(tables, datasetIds, clock.now()))),
    approveRetirements: () =>
      durable('checkpoint.approve-retirements', () => transaction(() => approveRetirements(tables))),
    forget: (...subscriptionIds) =>
      durable('checkpoint.forget', () =>
        transaction(() => subscriptionIds.flatMap((id) => forget(tables, id))),
      ),
    lift: (scope) => durable('checkpoint.lift', () => transaction(() => tables.suspensions.remove(scope))),
    keepWebhook: (webhook) =>
      durable('checkpoint.keep-webhook', () => transaction(() => tables.webhooks.put(webhook))),
  };
}

/** A subscription that is followed again is forgotten no more, and a dataset that has returned is refused no more. */
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
    // An absence that was noted before the dataset joined or left says nothing of what comes after.
    const isOfMember = change.kind === 'member' || change.kind === 'no-member';
    if (isOfMember && after !== before) tables.absences.remove({ kind: 'member', subscriptionId, datasetId });
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

/** Milliseconds make a number that grows also where the checkpoint was lost and the mirror satisfies earlier ones. */
function askResync(tables: Tables, datasetIds: readonly string[], now: Date): readonly string[] {
  const asked = [...new Set(datasetIds)].filter((id) => tables.desiredStates.askResync(id, now.getTime()));
  for (const id of asked) tables.failures.remove(id);
  return asked;
}

function approveRetirements(tables: Tables): readonly string[] {
  tables.suspensions.remove({ kind: 'retirement' });
  return tables.desiredStates.approveRetirements();
}

function forget(tables: Tables, subscriptionId: string): readonly string[] {
  tables.subscriptions.remove(subscriptionId);
  tables.suspensions.remove({ kind: 'subscription', subscriptionId });
  tables.absences.removeOfSubscription(subscriptionId);
  tables.forgotten.add(whole(subscriptionId, 'subscriptionId'));
  return tables.desiredStates.forget(subscriptionId);
}
