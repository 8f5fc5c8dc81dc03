/** The operations of the port on an open connection. Each that stores is one transaction and one durable effect. */

import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/durable.ts';
import type { FollowStep } from '../../model/want.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import type { Connection } from './connection.ts';
import { type ContractTable, contractTable } from './contract.ts';
import { type DeliveriesTable, deliveriesTable } from './deliveries.ts';
import { type FailuresTable, failuresTable } from './failures.ts';
import { type ForgottenTable, forgottenTable } from './forgotten.ts';
import { type HoldsTable, holdsTable } from './holds.ts';
import { type HookTable, hookTable } from './hook.ts';
import { type JournalTable, journalTable } from './journal.ts';
import { type SubscriptionsTable, subscriptionsTable } from './subscriptions.ts';
import { whole } from './text.ts';
import { type WantsTable, wantsTable } from './wants.ts';
import { type WebhooksTable, webhooksTable } from './webhooks.ts';

export interface Tables {
  readonly contract: ContractTable;
  readonly subscriptions: SubscriptionsTable;
  readonly wants: WantsTable;
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
    ...operationsOfTheProgram(connection, tables, clock),
    ...operationsOfPeople(connection, tables),
  };
}

type OfPeople = 'askResync' | 'approveRetirements' | 'forget' | 'lift' | 'keepWebhook';

function operationsOfTheProgram(
  { transaction }: Connection,
  tables: Tables,
  clock: Clock,
): Omit<Checkpoint, keyof CheckpointReader | OfPeople> {
  return {
    rememberContract(contract) {
      durable('checkpoint.remember-contract', () => transaction(() => tables.contract.put(contract)));
    },
    commitFollowStep(step) {
      const now = clock.now();
      durable('checkpoint.follow-step', () => transaction(() => applyStep(tables, step, now)));
    },
    markLooked(datasetId, looksAsked) {
      durable('checkpoint.mark-looked', () =>
        transaction(() => tables.wants.markLooked(datasetId, looksAsked)),
      );
    },
    markResynced(datasetId, resyncsAsked) {
      durable('checkpoint.mark-resynced', () =>
        transaction(() => tables.wants.markResynced(datasetId, resyncsAsked)),
      );
    },
    clearForgotten(subscriptionIds) {
      durable('checkpoint.clear-forgotten', () =>
        transaction(() => subscriptionIds.forEach((id) => void tables.forgotten.remove(id))),
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

function operationsOfPeople({ transaction }: Connection, tables: Tables): Pick<Checkpoint, OfPeople> {
  return {
    askResync: (datasetIds) =>
      durable('checkpoint.ask-resync', () => transaction(() => askResync(tables, datasetIds))),
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
function applyStep(tables: Tables, step: FollowStep, now: Date): void {
  const { subscriptionName: name, cursor, isQuiet } = step;
  const subscriptionId = whole(step.subscriptionId, 'subscriptionId');
  for (const change of step.changes) {
    const effect = tables.wants.apply(subscriptionId, change, now);
    if (effect === 'returned') tables.holds.remove({ kind: 'dataset', datasetId: change.datasetId });
  }
  tables.subscriptions.put({
    subscriptionId,
    name,
    cursor,
    cursorAt: now,
    quietReadAt: isQuiet ? now : null,
  });
  tables.forgotten.remove(subscriptionId);
}

function askResync(tables: Tables, datasetIds: readonly string[]): readonly string[] {
  const asked = [...new Set(datasetIds)].filter((id) => tables.wants.askResync(id));
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
  tables.forgotten.add(whole(subscriptionId, 'subscriptionId'));
  return tables.wants.forget(subscriptionId);
}
