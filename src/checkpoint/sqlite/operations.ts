/** The operations of the port on an open connection. Each that stores is one transaction and one durable effect. */

import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/durable.ts';
import type { FollowStep } from '../../model/want.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import type { Connection } from './connection.ts';
import { type ContractTable, contractTable } from './contract.ts';
import { type FailuresTable, failuresTable } from './failures.ts';
import { type HoldsTable, holdsTable } from './holds.ts';
import { type JournalTable, journalTable } from './journal.ts';
import { type SubscriptionsTable, subscriptionsTable } from './subscriptions.ts';
import { whole } from './text.ts';
import { type WantsTable, wantsTable } from './wants.ts';

export interface Tables {
  readonly contract: ContractTable;
  readonly subscriptions: SubscriptionsTable;
  readonly wants: WantsTable;
  readonly holds: HoldsTable;
  readonly failures: FailuresTable;
  readonly journal: JournalTable;
}

/** Prepares every statement once. @throws the SqliteError of a file that lacks a table. */
export function tablesOf({ database }: Connection): Tables {
  return {
    contract: contractTable(database),
    subscriptions: subscriptionsTable(database),
    wants: wantsTable(database),
    holds: holdsTable(database),
    failures: failuresTable(database),
    journal: journalTable(database),
  };
}

export function readingOperations(connection: Connection, tables: Tables): CheckpointReader {
  return {
    rememberedContract: () => connection.read(() => tables.contract.get()),
    followed: () => connection.read(() => tables.subscriptions.all()),
    wants: () => connection.read(() => tables.wants.all()),
    holds: () => connection.read(() => tables.holds.all()),
    failures: () => connection.read(() => tables.failures.all()),
    recentJournal: (limit) => connection.read(() => tables.journal.newest(limit)),
    close: () => connection.close(),
  };
}

export function allOperations(connection: Connection, tables: Tables, clock: Clock): Checkpoint {
  const { transaction } = connection;
  return {
    ...readingOperations(connection, tables),
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
    hold(hold) {
      durable('checkpoint.hold', () => transaction(() => tables.holds.put(hold)));
    },
    lift: (scope) => durable('checkpoint.lift', () => transaction(() => tables.holds.remove(scope))),
    fail(failure) {
      durable('checkpoint.fail', () => transaction(() => tables.failures.put(failure)));
    },
    clearFailure(datasetId) {
      durable('checkpoint.clear-failure', () => transaction(() => tables.failures.remove(datasetId)));
    },
    journal(entry) {
      durable('checkpoint.journal', () => transaction(() => tables.journal.append(entry)));
    },
  };
}

function applyStep(tables: Tables, step: FollowStep, cursorAt: Date): void {
  const { subscriptionId, subscriptionName: name, cursor } = step;
  const subscription = whole(subscriptionId, 'subscriptionId');
  for (const change of step.changes) tables.wants.apply(subscription, change);
  tables.subscriptions.put({ subscriptionId, name, cursor, cursorAt });
}
