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
import { cutOrNull, whole } from './errors.ts';

const SELECT_DESIRED_STATES = `
  SELECT dataset_id AS datasetId, refreshes_requested AS refreshesRequested, refreshes_done AS refreshesDone,
    resync_number AS resyncNumber, retirement_approved AS retirementApproved
  FROM desired_states`;

const SELECT_MEMBERS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, is_member AS isMember,
    event_number AS eventNumber, decided_at AS decidedAt, announced, reason
  FROM desired_members`;

const SELECT_RELOADS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, log_number AS logNumber,
    event_number AS eventNumber, created_at AS createdAt, read_at AS readAt, known_version AS knownVersion,
    listed_version AS listedVersion, is_withdrawal AS isWithdrawal
  FROM desired_reloads`;

/** The number of the newest resync is left alone: an operator's command in another process raises it. */
const PUT_DESIRED_STATE = `
  INSERT INTO desired_states (dataset_id, refreshes_requested, retirement_approved)
  VALUES (@datasetId, @refreshesRequested, @retirementApproved)
  ON CONFLICT DO UPDATE SET
    refreshes_requested = excluded.refreshes_requested, retirement_approved = excluded.retirement_approved`;

const DELETE_MEMBERS = 'DELETE FROM desired_members WHERE dataset_id = ?';

const INSERT_MEMBER = `
  INSERT INTO desired_members (dataset_id, subscription_id, is_member, event_number, decided_at, announced, reason)
  VALUES (@datasetId, @subscriptionId, @isMember, @eventNumber, @decidedAt, @announced, @reason)`;

const DELETE_RELOADS = 'DELETE FROM desired_reloads WHERE dataset_id = ?';

const INSERT_RELOAD = `
  INSERT INTO desired_reloads (dataset_id, subscription_id, log_number, event_number, created_at, read_at, known_version,
    listed_version, is_withdrawal)
  VALUES (@datasetId, @subscriptionId, @logNumber, @eventNumber, @createdAt, @readAt, @knownVersion,
    @listedVersion, @isWithdrawal)`;

const MARK_REFRESHED = `
  UPDATE desired_states SET refreshes_done = max(refreshes_done, min(refreshes_requested, @requested)) WHERE dataset_id = @datasetId`;

const HAS_MEMBERS = `EXISTS (
    SELECT 1 FROM desired_members WHERE desired_members.dataset_id = desired_states.dataset_id AND is_member)`;

const ASK_RESYNC = `
  UPDATE desired_states SET resync_number = max(resync_number + 1, @number) WHERE dataset_id = @datasetId AND ${HAS_MEMBERS}`;

const APPROVE_RETIREMENTS = `
  UPDATE desired_states SET retirement_approved = 1 WHERE NOT ${HAS_MEMBERS} RETURNING dataset_id`;

const APPROVE_RETIREMENT = `
  UPDATE desired_states SET retirement_approved = 1 WHERE dataset_id = ? AND NOT ${HAS_MEMBERS}`;

const SELECT_OF_SUBSCRIPTION = `
  SELECT dataset_id FROM desired_members WHERE subscription_id = @id
  UNION SELECT dataset_id FROM desired_reloads WHERE subscription_id = @id ORDER BY dataset_id`;

interface DesiredStateRow {
  readonly datasetId: string;
  readonly refreshesRequested: number;
  readonly refreshesDone: number;
  readonly resyncNumber: number;
  readonly retirementApproved: number;
}

interface OfSubscription {
  readonly datasetId: string;
  readonly subscriptionId: string;
}

type MemberRow = OfSubscription & {
  readonly isMember: bigint;
  readonly eventNumber: bigint | null;
  readonly decidedAt: string;
  readonly announced: bigint | null;
  readonly reason: string | null;
};

type ReloadRow = OfSubscription & {
  readonly logNumber: bigint;
  readonly eventNumber: bigint;
  readonly createdAt: string;
  readonly readAt: string;
  readonly knownVersion: bigint | null;
  readonly listedVersion: bigint | null;
  readonly isWithdrawal: bigint;
};

export function desiredStateTable(database: Database.Database) {
  const readAll = desiredStateReader(database, '');
  const readOne = desiredStateReader(database, ' WHERE dataset_id = ?');
  const put = desiredStateWriter(database);
  const markRefreshed = database.prepare<[{ datasetId: string; requested: number }]>(MARK_REFRESHED);
  const requestResync = database.prepare<[{ datasetId: string; number: bigint }]>(ASK_RESYNC);
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
    all: () => readAll(),
    one,
    update,
    idsOf,
    markRefreshed: (datasetId: string, requested: number) => markRefreshed.run({ datasetId, requested }),
    /** Requests a resync with at least this number. Returns false where no subscription contains the dataset. */
    requestResync: (datasetId: string, number: number) =>
      requestResync.run({ datasetId, number: BigInt(number) }).changes > 0,
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

/** Reads the desired states that `where` selects. The returned function takes the parameters of `where`. */
function desiredStateReader(
  database: Database.Database,
  where: string,
): (...parameters: readonly string[]) => ReadonlyMap<string, DesiredState> {
  const selectDesiredStates = database.prepare<string[], DesiredStateRow>(`${SELECT_DESIRED_STATES}${where}`);
  const selectMembers = database.prepare<string[], MemberRow>(`${SELECT_MEMBERS}${where}`).safeIntegers();
  const selectReloads = database.prepare<string[], ReloadRow>(`${SELECT_RELOADS}${where}`).safeIntegers();
  return (...parameters) => {
    const desiredStates = new Map(
      selectDesiredStates.all(...parameters).map((row) => [row.datasetId, desiredStateFrom(row)]),
    );
    for (const row of selectMembers.iterate(...parameters)) {
      const desired = desiredStates.get(row.datasetId);
      if (row.isMember === 1n) desired?.members.set(row.subscriptionId, memberFrom(row));
      else desired?.formerMembers.set(row.subscriptionId, formerMemberFrom(row));
    }
    for (const row of selectReloads.iterate(...parameters)) {
      desiredStates.get(row.datasetId)?.reloads.push(reloadFrom(row));
    }
    for (const desired of desiredStates.values()) desired.reloads.sort(byNumber);
    return desiredStates;
  };
}

/** Returns the desired state without members and reloads. */
function desiredStateFrom(row: DesiredStateRow) {
  return {
    ...row,
    retirementApproved: row.retirementApproved === 1,
    members: new Map<string, Member>(),
    formerMembers: new Map<string, FormerMember>(),
    reloads: [] as Reload[],
  };
}

function memberFrom({ eventNumber, decidedAt, announced }: MemberRow): Member {
  return {
    eventNumber,
    since: new Date(decidedAt),
    announced: announced === null ? null : Number(announced),
  };
}

function formerMemberFrom({ eventNumber, decidedAt, reason }: MemberRow): FormerMember {
  return { eventNumber, at: new Date(decidedAt), reason };
}

function reloadFrom(row: ReloadRow): Reload {
  return {
    subscriptionId: row.subscriptionId,
    logNumber: Number(row.logNumber),
    eventNumber: row.eventNumber,
    createdAt: new Date(row.createdAt),
    readAt: new Date(row.readAt),
    knownVersion: row.knownVersion === null ? null : Number(row.knownVersion),
    listedVersion: row.listedVersion === null ? null : Number(row.listedVersion),
    isWithdrawal: row.isWithdrawal === 1n,
  };
}

/** Writes the parts that differ. */
function desiredStateWriter(
  database: Database.Database,
): (before: DesiredState, after: DesiredState) => void {
  const putDesiredState =
    database.prepare<[Omit<DesiredStateRow, 'refreshesDone' | 'resyncNumber'>]>(PUT_DESIRED_STATE);
  const deleteMembers = database.prepare<[string]>(DELETE_MEMBERS);
  const insertMember = database.prepare<[MemberRow]>(INSERT_MEMBER);
  const deleteReloads = database.prepare<[string]>(DELETE_RELOADS);
  const insertReload = database.prepare<[ReloadRow]>(INSERT_RELOAD);
  return (before, after) => {
    const { datasetId, refreshesRequested, retirementApproved } = after;
    putDesiredState.run({ datasetId, refreshesRequested, retirementApproved: retirementApproved ? 1 : 0 });
    if (after.members !== before.members || after.formerMembers !== before.formerMembers) {
      deleteMembers.run(datasetId);
      for (const row of memberRows(after)) insertMember.run(row);
    }
    if (after.reloads !== before.reloads) {
      deleteReloads.run(datasetId);
      for (const reload of after.reloads) insertReload.run(reloadRow(datasetId, reload));
    }
  };
}

function memberRows({ datasetId, members, formerMembers }: DesiredState): readonly MemberRow[] {
  const common = (subscriptionId: string) => ({
    datasetId,
    subscriptionId: whole(subscriptionId, 'subscriptionId'),
  });
  return [
    ...[...members].map(([id, { eventNumber, since, announced }]) => ({
      ...common(id),
      isMember: 1n,
      eventNumber,
      decidedAt: since.toISOString(),
      announced: exact(announced),
      reason: null,
    })),
    ...[...formerMembers].map(([id, { eventNumber, at, reason }]) => ({
      ...common(id),
      isMember: 0n,
      eventNumber,
      decidedAt: at.toISOString(),
      announced: null,
      reason: cutOrNull(reason),
    })),
  ];
}

function reloadRow(datasetId: string, reload: Reload): ReloadRow {
  return {
    datasetId,
    subscriptionId: reload.subscriptionId,
    logNumber: BigInt(reload.logNumber),
    eventNumber: reload.eventNumber,
    createdAt: reload.createdAt.toISOString(),
    readAt: reload.readAt.toISOString(),
    knownVersion: exact(reload.knownVersion),
    listedVersion: exact(reload.listedVersion),
    isWithdrawal: reload.isWithdrawal ? 1n : 0n,
  };
}

/** SQLite gets a number as floating point, which an integer column refuses from 2^51 on, and a BigInt as it is. */
function exact(version: number | null): bigint | null {
  return version === null ? null : BigInt(version);
}
