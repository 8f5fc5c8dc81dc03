/**
 * Reads and writes the desired state of each dataset. model/desired-state.ts decides how a desired state changes. Invariant:
 * no more refreshes are done than were requested.
 */

import type Database from 'better-sqlite3';
import {
  byNumber,
  type DesiredState,
  emptyDesiredState,
  type FormerMember,
  type Member,
  type Reload,
  withoutSubscription,
} from '../../model/desired-state.ts';
import { eventNumber, exactText, flag, id, integer, orNull, shortText, table, time, whole } from './table.ts';

const MARK_REFRESHED = `
  UPDATE desired_states SET refreshes_done = max(refreshes_done, min(refreshes_requested, @requested)) WHERE dataset_id = @datasetId`;

const HAS_MEMBERS = `EXISTS (
    SELECT 1 FROM desired_members WHERE desired_members.dataset_id = desired_states.dataset_id AND is_member)`;

/** `moves`: 1 or 0 decides whether the table is moved; null leaves that as an earlier request has decided it. */
const REQUEST_RESYNC = `
  UPDATE desired_states SET resync_number = max(resync_number + 1, @number), move_number = CASE @moves
    WHEN 1 THEN max(resync_number + 1, @number) WHEN 0 THEN 0 ELSE move_number END
  WHERE dataset_id = @datasetId AND ${HAS_MEMBERS}`;

const APPROVE_RETIREMENTS = `
  UPDATE desired_states SET retirement_approved = 1 WHERE NOT ${HAS_MEMBERS} RETURNING dataset_id`;

const APPROVE_RETIREMENT = `
  UPDATE desired_states SET retirement_approved = 1 WHERE dataset_id = ? AND NOT ${HAS_MEMBERS}`;

const SELECT_OF_SUBSCRIPTION = `
  SELECT dataset_id FROM desired_members WHERE subscription_id = @id
  UNION SELECT dataset_id FROM desired_reloads WHERE subscription_id = @id ORDER BY dataset_id`;

/** A row of `desired_members`: a member, or a former member. */
interface MemberRow {
  readonly datasetId: string;
  readonly subscriptionId: string;
  readonly isMember: boolean;
  readonly eventNumber: bigint | null;
  readonly decidedAt: Date;
  readonly announced: number | null;
  readonly reason: string | null;
}

function tablesOf(database: Database.Database) {
  return {
    states: table<Omit<DesiredState, 'members' | 'formerMembers' | 'reloads'>>(database, 'desired_states', {
      datasetId: exactText,
      refreshesRequested: integer,
      refreshesDone: integer,
      resyncNumber: integer,
      retirementApproved: flag,
      moveNumber: integer,
    }),
    members: table<MemberRow>(database, 'desired_members', {
      datasetId: exactText,
      subscriptionId: id,
      isMember: flag,
      eventNumber: orNull(eventNumber),
      decidedAt: time,
      announced: orNull(integer),
      reason: orNull(shortText),
    }),
    reloads: table<Reload & { readonly datasetId: string }>(database, 'desired_reloads', {
      datasetId: exactText,
      subscriptionId: exactText,
      logNumber: integer,
      eventNumber,
      createdAt: time,
      readAt: time,
      knownVersion: orNull(integer),
      listedVersion: orNull(integer),
      isWithdrawal: flag,
    }),
  };
}

type Tables = ReturnType<typeof tablesOf>;

export function desiredStateTable(database: Database.Database) {
  const tables = tablesOf(database);
  const all = desiredStateReader(tables, '');
  const readOne = desiredStateReader(tables, 'WHERE dataset_id = ?');
  const put = desiredStateWriter(database, tables);
  const markRefreshed = database.prepare<[{ datasetId: string; requested: number }]>(MARK_REFRESHED);
  const requestResync =
    database.prepare<[{ datasetId: string; number: bigint; moves: 0 | 1 | null }]>(REQUEST_RESYNC);
  const approveRetirements = database.prepare<[], string>(APPROVE_RETIREMENTS).pluck();
  const approveRetirement = database.prepare<[string]>(APPROVE_RETIREMENT);
  const selectOfSubscription = database.prepare<[{ id: string }], string>(SELECT_OF_SUBSCRIPTION).pluck();
  const one = (datasetId: string): DesiredState | null => readOne(datasetId).get(datasetId) ?? null;
  /** Returns the datasets that the subscription contains, contained or asked to reload, in order. */
  const idsOf = (subscriptionId: string): readonly string[] =>
    selectOfSubscription.all({ id: subscriptionId });
  /** Stores the result of `change`. The caller has opened a transaction. */
  const update = (datasetId: string, change: (desired: DesiredState) => DesiredState) => {
    const before = one(datasetId) ?? emptyDesiredState(whole(datasetId, 'datasetId'));
    const after = change(before);
    if (after !== before) put(before, after);
    return { before, after };
  };
  return {
    all: () => all(),
    one,
    update,
    idsOf,
    markRefreshed: (datasetId: string, requested: number) => markRefreshed.run({ datasetId, requested }),
    /** Requests a resync with at least this number. Returns false where no subscription contains the dataset. */
    requestResync: (datasetId: string, number: number, moves: boolean | null) =>
      requestResync.run({ datasetId, number: BigInt(number), moves: moves === null ? null : moves ? 1 : 0 })
        .changes > 0,
    /** Approves the retirement of every dataset that no subscription contains. Returns the datasets, in order. */
    approveRetirements: () => approveRetirements.all().sort(),
    /**
     * Removes what the subscription has asked for, and approves the retirement of the datasets that no other one contains.
     * Returns the datasets that the subscription contained, in order.
     */
    forget(subscriptionId: string) {
      const contained: string[] = [];
      for (const datasetId of idsOf(subscriptionId)) {
        const { before } = update(datasetId, (desired) => forgotten(desired, subscriptionId));
        if (!before.members.has(subscriptionId)) continue;
        contained.push(datasetId);
        approveRetirement.run(datasetId);
      }
      return contained;
    },
    /** Removes the satisfied reloads of a forgotten subscription. */
    clearForgotten(subscriptionId: string, isSatisfied: (reload: Reload, datasetId: string) => boolean) {
      for (const datasetId of idsOf(subscriptionId)) {
        const isOver = (reload: Reload): boolean =>
          reload.subscriptionId === subscriptionId && isSatisfied(reload, datasetId);
        update(datasetId, (desired) =>
          desired.reloads.some(isOver)
            ? { ...desired, reloads: desired.reloads.filter((reload) => !isOver(reload)) }
            : desired,
        );
      }
    },
  };
}

/**
 * Requests a refresh of a dataset that other subscriptions contain, because the forgotten one may have announced a version. The
 * table still owes the reloads of the forgotten subscription, as it does where a subscription drops the dataset.
 */
function forgotten(desired: DesiredState, subscriptionId: string): DesiredState {
  const without = withoutSubscription(desired, subscriptionId);
  if (without.members.size === 0) return without;
  const refreshesRequested = desired.refreshesRequested + (desired.members.has(subscriptionId) ? 1 : 0);
  return { ...without, reloads: desired.reloads, refreshesRequested };
}

/** Reads the desired states that `clause` selects. The returned function takes the parameters of the clause. */
function desiredStateReader({ states, members, reloads }: Tables, clause: string) {
  const selectStates = states.select(clause);
  const selectMembers = members.select(clause);
  const selectReloads = reloads.select(clause);
  return (...parameters: readonly string[]): ReadonlyMap<string, DesiredState> => {
    const desiredStates = new Map(
      selectStates(...parameters).map((row) => [
        row.datasetId,
        {
          ...row,
          members: new Map<string, Member>(),
          formerMembers: new Map<string, FormerMember>(),
          reloads: [] as Reload[],
        },
      ]),
    );
    for (const row of selectMembers(...parameters)) {
      const { subscriptionId, decidedAt, announced, reason } = row;
      const desired = desiredStates.get(row.datasetId);
      const decision = { eventNumber: row.eventNumber };
      if (row.isMember) desired?.members.set(subscriptionId, { ...decision, since: decidedAt, announced });
      else desired?.formerMembers.set(subscriptionId, { ...decision, at: decidedAt, reason });
    }
    for (const { datasetId, ...reload } of selectReloads(...parameters)) {
      desiredStates.get(datasetId)?.reloads.push(reload);
    }
    for (const desired of desiredStates.values()) desired.reloads.sort(byNumber);
    return desiredStates;
  };
}

/**
 * Writes the parts that differ. The number of the newest resync is left alone: an operator's command in another process raises
 * it.
 */
function desiredStateWriter(database: Database.Database, { states, members, reloads }: Tables) {
  const putState = states.put([
    'datasetId',
    'refreshesRequested',
    'retirementApproved',
    'resyncNumber',
    'moveNumber',
  ]);
  const deleteMembers = database.prepare<[string]>('DELETE FROM desired_members WHERE dataset_id = ?');
  const putMember = members.putAll();
  const deleteReloads = database.prepare<[string]>('DELETE FROM desired_reloads WHERE dataset_id = ?');
  const putReload = reloads.putAll();
  return (before: DesiredState, after: DesiredState): void => {
    const { datasetId } = after;
    putState(after);
    if (after.members !== before.members || after.formerMembers !== before.formerMembers) {
      deleteMembers.run(datasetId);
      memberRows(after).forEach(putMember);
    }
    if (after.reloads !== before.reloads) {
      deleteReloads.run(datasetId);
      for (const reload of after.reloads) putReload({ datasetId, ...reload });
    }
  };
}

function memberRows({ datasetId, members, formerMembers }: DesiredState): readonly MemberRow[] {
  return [
    ...[...members].map(([subscriptionId, { since, ...member }]) => ({
      ...{ datasetId, subscriptionId, isMember: true, decidedAt: since, reason: null },
      ...member,
    })),
    ...[...formerMembers].map(([subscriptionId, { at, ...former }]) => ({
      ...{ datasetId, subscriptionId, isMember: false, decidedAt: at, announced: null },
      ...former,
    })),
  ];
}
