/**
 * What is wanted of each dataset, by the service and by people. What subscriptions change is in want-changes.ts; what
 * is done of what was asked for is counted here and never leads what was asked for.
 */

import type Database from 'better-sqlite3';
import type { Want } from '../../model/want.ts';
import { type ApplyChange, changeApplier } from './want-changes.ts';

const SELECT_WANTS = `
  SELECT dataset_id AS datasetId, at_least_version AS atLeastVersion, looks_asked AS looksAsked,
    looks_done AS looksDone, resyncs_asked AS resyncsAsked, resyncs_done AS resyncsDone,
    retirement_approved AS retirementApproved
  FROM wants`;

const SELECT_MEMBERS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, is_member AS isMember,
    event_number AS eventNumber, reason
  FROM want_members`;

const SELECT_RELOADS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, event_number AS eventNumber, asked_at AS askedAt
  FROM want_reloads`;

const MARK_LOOKED = `
  UPDATE wants SET looks_done = max(looks_done, min(looks_asked, @asked)) WHERE dataset_id = @datasetId`;

const HAS_MEMBERS = `EXISTS (
    SELECT 1 FROM want_members WHERE want_members.dataset_id = wants.dataset_id AND is_member)`;

const ASK_RESYNC = `
  UPDATE wants SET resyncs_asked = resyncs_asked + 1 WHERE dataset_id = ? AND ${HAS_MEMBERS}`;

const MARK_RESYNCED = `
  UPDATE wants SET resyncs_done = max(resyncs_done, min(resyncs_asked, @asked)) WHERE dataset_id = @datasetId`;

const APPROVE_RETIREMENTS = `
  UPDATE wants SET retirement_approved = 1 WHERE NOT ${HAS_MEMBERS} RETURNING dataset_id`;

const APPROVE_RETIREMENT = `
  UPDATE wants SET retirement_approved = 1 WHERE dataset_id = ? AND NOT ${HAS_MEMBERS}`;

const SELECT_HELD_BY = `
  SELECT dataset_id FROM want_members WHERE subscription_id = ? AND is_member ORDER BY dataset_id`;

/** Who announced a version is not known: those that are left say it again, or the lists of versions do. */
const FORGET_VERSION = `
  UPDATE wants SET at_least_version = NULL, looks_asked = looks_asked + 1 WHERE dataset_id = ?`;

const FORGET_MEMBERS = 'DELETE FROM want_members WHERE subscription_id = ?';

const FORGET_RELOADS = 'DELETE FROM want_reloads WHERE subscription_id = ?';

interface WantRow {
  readonly datasetId: string;
  readonly atLeastVersion: number | null;
  readonly looksAsked: number;
  readonly looksDone: number;
  readonly resyncsAsked: number;
  readonly resyncsDone: number;
  readonly retirementApproved: number;
}

interface OfSubscription {
  readonly datasetId: string;
  readonly subscriptionId: string;
}

type MemberRow = OfSubscription & { isMember: bigint; eventNumber: bigint | null; reason: string | null };
type ReloadRow = OfSubscription & { eventNumber: bigint; askedAt: string };
type Done = { datasetId: string; asked: number };

export interface WantsTable {
  all(): ReadonlyMap<string, Want>;
  one(datasetId: string): Want | null;
  readonly apply: ApplyChange;
  markLooked(datasetId: string, looksAsked: number): void;
  /** False where no subscription holds the dataset. */
  askResync(datasetId: string): boolean;
  markResynced(datasetId: string, resyncsAsked: number): void;
  /** Of all datasets that no subscription holds. Gives their ids, in order. */
  approveRetirements(): readonly string[];
  /**
   * Everything that the subscription wanted; the retirement of what only it held is approved. Gives the ids of the
   * datasets that it held, in order.
   */
  forget(subscriptionId: string): readonly string[];
}

export function wantsTable(database: Database.Database): WantsTable {
  const readOne = wantsReader(database, ' WHERE dataset_id = ?');
  const markLooked = database.prepare<[Done]>(MARK_LOOKED);
  const askResync = database.prepare<[string]>(ASK_RESYNC);
  const markResynced = database.prepare<[Done]>(MARK_RESYNCED);
  const approveRetirements = database.prepare<[], string>(APPROVE_RETIREMENTS).pluck();
  const approveRetirement = database.prepare<[string]>(APPROVE_RETIREMENT);
  const selectHeldBy = database.prepare<[string], string>(SELECT_HELD_BY).pluck();
  const forgetVersion = database.prepare<[string]>(FORGET_VERSION);
  const forgetMembers = database.prepare<[string]>(FORGET_MEMBERS);
  const forgetReloads = database.prepare<[string]>(FORGET_RELOADS);
  return {
    all: wantsReader(database, ''),
    one: (datasetId) => readOne(datasetId).get(datasetId) ?? null,
    apply: changeApplier(database),
    markLooked(datasetId, asked) {
      markLooked.run({ datasetId, asked });
    },
    askResync: (datasetId) => askResync.run(datasetId).changes > 0,
    markResynced(datasetId, asked) {
      markResynced.run({ datasetId, asked });
    },
    approveRetirements: () => approveRetirements.all().sort(),
    forget(subscriptionId) {
      const held = selectHeldBy.all(subscriptionId);
      forgetMembers.run(subscriptionId);
      forgetReloads.run(subscriptionId);
      for (const datasetId of held) {
        approveRetirement.run(datasetId);
        forgetVersion.run(datasetId);
      }
      return held;
    },
  };
}

/** Reads those that `where` leaves, whose parameters the returned function takes. */
function wantsReader(
  database: Database.Database,
  where: string,
): (...parameters: readonly string[]) => ReadonlyMap<string, Want> {
  const selectWants = database.prepare<string[], WantRow>(`${SELECT_WANTS}${where}`);
  const selectMembers = database.prepare<string[], MemberRow>(`${SELECT_MEMBERS}${where}`).safeIntegers();
  const selectReloads = database.prepare<string[], ReloadRow>(`${SELECT_RELOADS}${where}`).safeIntegers();
  return (...parameters) => {
    const wants = new Map(selectWants.all(...parameters).map((row) => [row.datasetId, emptyWant(row)]));
    for (const row of selectMembers.iterate(...parameters)) {
      const { datasetId, subscriptionId, isMember, eventNumber, reason } = row;
      const want = wants.get(datasetId);
      if (isMember === 1n) want?.members.add(subscriptionId);
      else want?.formerMembers.set(subscriptionId, eventNumber);
      if (reason !== null) want?.removalReasons.set(subscriptionId, reason);
    }
    for (const row of selectReloads.iterate(...parameters)) {
      const { datasetId, subscriptionId, eventNumber, askedAt } = row;
      wants.get(datasetId)?.reloadAfter.set(subscriptionId, eventNumber);
      wants.get(datasetId)?.reloadAskedAt.set(subscriptionId, new Date(askedAt));
    }
    return wants;
  };
}

/** The want but for what the subscriptions say. */
function emptyWant(row: WantRow) {
  return {
    ...row,
    retirementApproved: row.retirementApproved === 1,
    members: new Set<string>(),
    formerMembers: new Map<string, bigint | null>(),
    removalReasons: new Map<string, string>(),
    reloadAfter: new Map<string, bigint>(),
    reloadAskedAt: new Map<string, Date>(),
  };
}
