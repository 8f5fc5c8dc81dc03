/**
 * What is wanted of each dataset, by the service and by operators. How wants grow is decided in model/want-changes.ts;
 * here they are read and written. What is done of what was asked for never leads what was asked for.
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
  SELECT dataset_id AS datasetId, looks_asked AS refreshesRequested, looks_done AS refreshesDone,
    resync_number AS resyncNumber, retirement_approved AS retirementApproved
  FROM wants`;

const SELECT_MEMBERS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, is_member AS isMember,
    event_number AS eventNumber, decided_at AS decidedAt, announced, reason
  FROM want_members`;

const SELECT_RELOADS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, log_number AS logNumber,
    event_number AS eventNumber, created_at AS createdAt, read_at AS readAt, known_version AS knownVersion,
    listed_version AS listedVersion, is_withdrawal AS isWithdrawal
  FROM want_reloads`;

/** What an operator asks for in another process is added to by that process alone. */
const PUT_DESIRED_STATE = `
  INSERT INTO wants (dataset_id, looks_asked, retirement_approved) VALUES (@datasetId, @refreshesRequested, @retirementApproved)
  ON CONFLICT DO UPDATE SET looks_asked = excluded.looks_asked, retirement_approved = excluded.retirement_approved`;

const DELETE_MEMBERS = 'DELETE FROM want_members WHERE dataset_id = ?';

const INSERT_MEMBER = `
  INSERT INTO want_members (dataset_id, subscription_id, is_member, event_number, decided_at, announced, reason)
  VALUES (@datasetId, @subscriptionId, @isMember, @eventNumber, @decidedAt, @announced, @reason)`;

const DELETE_RELOADS = 'DELETE FROM want_reloads WHERE dataset_id = ?';

const INSERT_RELOAD = `
  INSERT INTO want_reloads (dataset_id, subscription_id, log_number, event_number, created_at, read_at, known_version,
    listed_version, is_withdrawal)
  VALUES (@datasetId, @subscriptionId, @logNumber, @eventNumber, @createdAt, @readAt, @knownVersion,
    @listedVersion, @isWithdrawal)`;

const MARK_LOOKED = `
  UPDATE wants SET looks_done = max(looks_done, min(looks_asked, @asked)) WHERE dataset_id = @datasetId`;

const HAS_MEMBERS = `EXISTS (
    SELECT 1 FROM want_members WHERE want_members.dataset_id = wants.dataset_id AND is_member)`;

const ASK_RESYNC = `
  UPDATE wants SET resync_number = max(resync_number + 1, @number) WHERE dataset_id = @datasetId AND ${HAS_MEMBERS}`;

const APPROVE_RETIREMENTS = `
  UPDATE wants SET retirement_approved = 1 WHERE NOT ${HAS_MEMBERS} RETURNING dataset_id`;

const APPROVE_RETIREMENT = `
  UPDATE wants SET retirement_approved = 1 WHERE dataset_id = ? AND NOT ${HAS_MEMBERS}`;

const SELECT_OF_SUBSCRIPTION = `
  SELECT dataset_id FROM want_members WHERE subscription_id = @id
  UNION SELECT dataset_id FROM want_reloads WHERE subscription_id = @id ORDER BY dataset_id`;

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

type Done = { datasetId: string; asked: number };

export interface DesiredStateTable {
  all(): ReadonlyMap<string, DesiredState>;
  one(datasetId: string): DesiredState | null;
  /** Stores what `change` makes of what is wanted of the dataset. Part of a transaction of the caller's. */
  update(
    datasetId: string,
    change: (desired: DesiredState) => DesiredState,
  ): { readonly before: DesiredState; readonly after: DesiredState };
  markLooked(datasetId: string, refreshesRequested: number): void;
  /** `number`: at least this one. False where no subscription contains the dataset. */
  askResync(datasetId: string, number: number): boolean;
  /** Of all datasets that no subscription contains. Gives their ids, in order. */
  approveRetirements(): readonly string[];
  /** The datasets that the subscription has said anything of, in order. */
  idsOf(subscriptionId: string): readonly string[];
  /**
   * Everything that the subscription wanted; the retirement of what only it contained is approved. Gives the ids of the
   * datasets that it contained, in order.
   */
  forget(subscriptionId: string): readonly string[];
  /** Of what the subscription asked for before it was forgotten, what is answered. */
  clearForgotten(subscriptionId: string, isSatisfied: (reload: Reload, datasetId: string) => boolean): void;
}

export function desiredStateTable(database: Database.Database): DesiredStateTable {
  const readAll = desiredStateReader(database, '');
  const readOne = desiredStateReader(database, ' WHERE dataset_id = ?');
  const put = desiredStateWriter(database);
  const markLooked = database.prepare<[Done]>(MARK_LOOKED);
  const askResync = database.prepare<[{ datasetId: string; number: bigint }]>(ASK_RESYNC);
  const approveRetirements = database.prepare<[], string>(APPROVE_RETIREMENTS).pluck();
  const approveRetirement = database.prepare<[string]>(APPROVE_RETIREMENT);
  const selectOfSubscription = database.prepare<[{ id: string }], string>(SELECT_OF_SUBSCRIPTION).pluck();
  const one = (datasetId: string): DesiredState | null => readOne(datasetId).get(datasetId) ?? null;
  const idsOf = (subscriptionId: string): readonly string[] =>
    selectOfSubscription.all({ id: subscriptionId });
  const update: DesiredStateTable['update'] = (datasetId, change) => {
    const before = one(datasetId) ?? emptyDesiredState(whole(datasetId, 'datasetId'));
    const after = change(before);
    if (after !== before) put(before, after);
    return { before, after };
  };
  return {
    all: readAll,
    one,
    update,
    markLooked(datasetId, asked) {
      markLooked.run({ datasetId, asked });
    },
    askResync: (datasetId, number) => askResync.run({ datasetId, number: BigInt(number) }).changes > 0,
    approveRetirements: () => approveRetirements.all().sort(),
    idsOf,
    forget(subscriptionId) {
      const contained: string[] = [];
      for (const datasetId of idsOf(subscriptionId)) {
        const { before } = update(datasetId, (desired) => forgotten(desired, subscriptionId));
        if (!before.members.has(subscriptionId)) continue;
        contained.push(datasetId);
        approveRetirement.run(datasetId);
      }
      return contained;
    },
    clearForgotten(subscriptionId, isSatisfied) {
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
 * What the subscription may have said of a dataset that others contain is looked up again; and the reloads that it asked for
 * are owed by the table still, as where it drops the dataset itself.
 */
function forgotten(desired: DesiredState, subscriptionId: string): DesiredState {
  const without = withoutSubscription(desired, subscriptionId);
  if (without.members.size === 0) return without;
  const refreshesRequested = desired.refreshesRequested + (desired.members.has(subscriptionId) ? 1 : 0);
  return { ...without, reloads: desired.reloads, refreshesRequested };
}

/** Reads those that `where` leaves, whose parameters the returned function takes. */
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

/** The want but for what the subscriptions say. */
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

/** Writes what differs. */
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

/** A number is bound as floating point, which an integer column refuses from 2^51 on; a BigInt is bound as it is. */
function exact(version: number | null): bigint | null {
  return version === null ? null : BigInt(version);
}
