/** The operations of the port on an open connection. Each that stores is one transaction and one durable effect. */

import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/files.ts';
import {
  changedWant,
  type FollowStep,
  withListed,
  withoutAnnouncedAbove,
  withoutAnswered,
  withoutLog,
  withoutSubscription,
} from '../../model/desired-state.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import { type WantsTable, wantsTable } from './desired-states.ts';
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
import { type FailuresTable, failuresTable, type HoldsTable, holdsTable } from './suspensions.ts';
import {
  type DeliveriesTable,
  deliveriesTable,
  type HookTable,
  hookTable,
  type JournalTable,
  journalTable,
  type WebhooksTable,
  webhooksTable,
} from './sync-runs.ts';

interface Tables {
  readonly contract: ContractTable;
  readonly subscriptions: SubscriptionsTable;
  readonly wants: WantsTable;
  readonly absences: AbsencesTable;
  readonly forgotten: ForgottenTable;
  readonly holds: HoldsTable;
  readonly failures: FailuresTable;
  readonly webhooks: WebhooksTable;
  readonly deliveries: DeliveriesTable;
  readonly hook: HookTable;
  readonly journal: JournalTable;
}

/** Prepares every statement once. @throws the SqliteError of a file that lacks a table. */
export function tablesOf({ database }: Connection): Tables {
  return {
    contract: contractTable(database),
    subscriptions: subscriptionsTable(database),
    wants: wantsTable(database),
    absences: absencesTable(database),
    forgotten: forgottenTable(database),
    holds: holdsTable(database),
    failures: failuresTable(database),
    webhooks: webhooksTable(database),
    deliveries: deliveriesTable(database),
    hook: hookTable(database),
    journal: journalTable(database),
  };
}

export function readingOperations(connection: Connection, tables: Tables): CheckpointReader {
  return {
    rememberedContract: () => connection.read(() => tables.contract.get()),
    followed: () => connection.read(() => tables.subscriptions.all()),
    wants: () => connection.read(() => tables.wants.all()),
    want: (datasetId) => connection.read(() => tables.wants.one(datasetId)),
    absences: () => connection.read(() => tables.absences.all()),
    forgotten: () => connection.read(() => tables.forgotten.all()),
    holds: () => connection.read(() => tables.holds.all()),
    failures: () => connection.read(() => tables.failures.all()),
    failure: (datasetId) => connection.read(() => tables.failures.one(datasetId)),
    webhooks: () => connection.read(() => tables.webhooks.all()),
    hook: () => connection.read(() => tables.hook.get()),
    recentJournal: (limit) => connection.read(() => tables.journal.newest(limit)),
    othersStored: () => connection.othersStored(),
    close: () => connection.close(),
  };
}

export function allOperations(connection: Connection, tables: Tables, clock: Clock): Checkpoint {
  return {
    ...readingOperations(connection, tables),
    ...operationsOnWants(connection, tables),
    ...operationsOfTheProgram(connection, tables),
    ...operationsOfPeople(connection, tables, clock),
  };
}

type OfPeople = 'askResync' | 'approveRetirements' | 'forget' | 'lift' | 'keepWebhook';

type OnWants =
  | 'commitFollowStep'
  | 'adopt'
  | 'noteStatedLastEvent'
  | 'noteAudited'
  | 'noteAbsences'
  | 'noteListed'
  | 'voidAnnounced'
  | 'dropReloads'
  | 'markAnswered'
  | 'markLooked';

/** What is wanted, and what becomes known of it. */
function operationsOnWants({ transaction }: Connection, tables: Tables): Pick<Checkpoint, OnWants> {
  const { wants, subscriptions, absences } = tables;
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
        transaction(() => wants.update(datasetId, (want) => withListed(want, newest))),
      );
    },
    voidAnnounced(datasetId, above) {
      durable('checkpoint.void-announced', () =>
        transaction(() => wants.update(datasetId, (want) => withoutAnnouncedAbove(want, above))),
      );
    },
    dropReloads(datasetId) {
      durable('checkpoint.drop-reloads', () =>
        transaction(() => {
          wants.update(datasetId, (want) => (want.reloads.length === 0 ? want : { ...want, reloads: [] }));
          absences.removeOfTable(datasetId);
        }),
      );
    },
    markAnswered(datasetId, isSatisfied) {
      durable('checkpoint.mark-answered', () =>
        transaction(() => wants.update(datasetId, (want) => withoutAnswered(want, isSatisfied))),
      );
    },
    markLooked(datasetId, looksAsked) {
      durable('checkpoint.mark-looked', () => transaction(() => wants.markLooked(datasetId, looksAsked)));
    },
  };
}

function operationsOfTheProgram(
  { transaction }: Connection,
  tables: Tables,
): Omit<Checkpoint, keyof CheckpointReader | OfPeople | OnWants> {
  return {
    rememberContract(contract) {
      durable('checkpoint.remember-contract', () => transaction(() => tables.contract.put(contract)));
    },
    clearForgotten(subscriptionIds, isSatisfied) {
      durable('checkpoint.clear-forgotten', () =>
        transaction(() => {
          for (const subscriptionId of subscriptionIds) {
            tables.forgotten.remove(subscriptionId);
            tables.wants.clearForgotten(subscriptionId, isSatisfied);
          }
        }),
      );
    },
    hold(hold) {
      durable('checkpoint.hold', () => transaction(() => tables.holds.put(hold)));
    },
    fail(failure) {
      durable('checkpoint.fail', () => transaction(() => tables.failures.put(failure)));
    },
    clearFailure(datasetId) {
      durable('checkpoint.clear-failure', () => transaction(() => tables.failures.remove(datasetId)));
    },
    rememberDelivery: (deliveryId, at) =>
      durable('checkpoint.remember-delivery', () => transaction(() => tables.deliveries.add(deliveryId, at))),
    hookTold(position, at) {
      durable('checkpoint.hook-told', () => transaction(() => tables.hook.told(position, at)));
    },
    hookFailed(message, at) {
      durable('checkpoint.hook-failed', () => transaction(() => tables.hook.failed(message, at)));
    },
    journal(entry) {
      durable('checkpoint.journal', () => transaction(() => tables.journal.append(entry)));
    },
  };
}

function operationsOfPeople(
  { transaction }: Connection,
  tables: Tables,
  clock: Clock,
): Pick<Checkpoint, OfPeople> {
  return {
    askResync: (datasetIds) =>
      durable('checkpoint.ask-resync', () => transaction(() => askResync(tables, datasetIds, clock.now()))),
    approveRetirements: () =>
      durable('checkpoint.approve-retirements', () => transaction(() => approveRetirements(tables))),
    forget: (...subscriptionIds) =>
      durable('checkpoint.forget', () =>
        transaction(() => subscriptionIds.flatMap((id) => forget(tables, id))),
      ),
    lift: (scope) => durable('checkpoint.lift', () => transaction(() => tables.holds.remove(scope))),
    keepWebhook: (webhook) =>
      durable('checkpoint.keep-webhook', () => transaction(() => tables.webhooks.put(webhook))),
  };
}

/** A subscription that is followed again is forgotten no more, and a dataset that has returned is refused no more. */
function applyStep(tables: Tables, step: FollowStep): void {
  const { subscriptionName: name, position, voids = null } = step;
  const { logNumber, cursor, cursorCreatedAt, isQuiet, coveredUntil, readAt } = position;
  const subscriptionId = whole(step.subscriptionId, 'subscriptionId');
  if (voids !== null) {
    const without = voids === 'numbers' ? withoutLog : withoutSubscription;
    for (const id of tables.wants.idsOf(subscriptionId)) {
      tables.wants.update(id, (want) => without(want, subscriptionId));
    }
  }
  for (const change of step.changes) {
    const { datasetId } = change;
    const { before, after } = tables.wants.update(datasetId, (want) =>
      changedWant(want, subscriptionId, change),
    );
    const hasReturned = before.formerMembers.has(subscriptionId) && after.members.has(subscriptionId);
    if (hasReturned) tables.holds.remove({ kind: 'dataset', datasetId });
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
    quietReadAt: isQuiet ? readAt : null,
    coveredUntil,
  });
  if (step.statesLastEvent === true) tables.subscriptions.noteStatedLastEvent(subscriptionId);
  tables.forgotten.remove(subscriptionId);
}

/** Milliseconds make a number that grows also where the checkpoint was lost and the mirror satisfies earlier ones. */
function askResync(tables: Tables, datasetIds: readonly string[], now: Date): readonly string[] {
  const asked = [...new Set(datasetIds)].filter((id) => tables.wants.askResync(id, now.getTime()));
  for (const id of asked) tables.failures.remove(id);
  return asked;
}

function approveRetirements(tables: Tables): readonly string[] {
  tables.holds.remove({ kind: 'retirement' });
  return tables.wants.approveRetirements();
}

function forget(tables: Tables, subscriptionId: string): readonly string[] {
  tables.subscriptions.remove(subscriptionId);
  tables.holds.remove({ kind: 'subscription', subscriptionId });
  tables.absences.removeOfSubscription(subscriptionId);
  tables.forgotten.add(whole(subscriptionId, 'subscriptionId'));
  return tables.wants.forget(subscriptionId);
}
