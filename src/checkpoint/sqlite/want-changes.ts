/**
 * How wants grow. Here the rules are kept by which a change of a subscription makes them grow: applied twice, or
 * after a later one, a change of an event changes nothing. Only looks are counted each time: one too many costs a
 * request, one too few would lose an event.
 */

import type Database from 'better-sqlite3';
import { unreachable } from '../../lib/assert.ts';
import type { WantChange } from '../../model/want.ts';
import { cutOrNull, whole } from './text.ts';

const ENSURE_WANT = 'INSERT INTO wants (dataset_id) VALUES (?) ON CONFLICT DO NOTHING';

const SELECT_IS_MEMBER =
  'SELECT is_member FROM want_members WHERE dataset_id = @datasetId AND subscription_id = @subscriptionId';

/**
 * A change without an event decides at once. Where it makes a member it leaves the number of the event that decided
 * before; where it makes none it leaves no number, because no event said so. Dropped twice, a dataset keeps the reason
 * that was given.
 */
const DECIDE_MEMBER = `
  INSERT INTO want_members AS stored (dataset_id, subscription_id, is_member, event_number, reason)
  VALUES (@datasetId, @subscriptionId, @isMember, @eventNumber, @reason)
  ON CONFLICT DO UPDATE SET
    is_member = excluded.is_member,
    event_number = iif(excluded.is_member, coalesce(excluded.event_number, stored.event_number), excluded.event_number),
    reason = iif(excluded.is_member, NULL, coalesce(excluded.reason, stored.reason))
  WHERE excluded.event_number IS NULL
    OR stored.event_number IS NULL
    OR excluded.event_number > stored.event_number`;

/** What was announced of a dataset that nobody holds any more says nothing of the one that may come in its place. */
const DROP_VERSION = `
  UPDATE wants SET at_least_version = NULL
  WHERE dataset_id = @datasetId
    AND NOT EXISTS (SELECT 1 FROM want_members WHERE dataset_id = @datasetId AND is_member)`;

const WITHDRAW_APPROVAL = 'UPDATE wants SET retirement_approved = 0 WHERE dataset_id = @datasetId';

const RAISE_VERSION = `
  UPDATE wants SET at_least_version = max(@version, coalesce(at_least_version, @version))
  WHERE dataset_id = @datasetId
    AND NOT EXISTS (
      SELECT 1 FROM want_reloads AS reload
      WHERE reload.dataset_id = @datasetId
        AND reload.subscription_id = @subscriptionId
        AND reload.event_number > @eventNumber)
    AND NOT EXISTS (
      SELECT 1 FROM want_members AS removal
      WHERE removal.dataset_id = @datasetId
        AND removal.subscription_id = @subscriptionId
        AND NOT removal.is_member
        AND @eventNumber IS NOT NULL
        AND (removal.event_number IS NULL OR removal.event_number > @eventNumber))`;

/** Counts as a change only where the event is newer than the one stored. */
const RAISE_RELOAD = `
  INSERT INTO want_reloads AS stored (dataset_id, subscription_id, event_number, asked_at)
  VALUES (@datasetId, @subscriptionId, @eventNumber, @askedAt)
  ON CONFLICT DO UPDATE SET event_number = excluded.event_number, asked_at = excluded.asked_at
  WHERE excluded.event_number > stored.event_number`;

const REPLACE_VERSION = 'UPDATE wants SET at_least_version = @version WHERE dataset_id = @datasetId';

const ASK_LOOK = 'UPDATE wants SET looks_asked = looks_asked + 1 WHERE dataset_id = ?';

/** What a change did that concerns more than the want. */
export type Effect =
  | 'none'
  /** The subscription dropped the dataset once and holds it again. */
  | 'returned';

/** Applies one change made by the subscription and read at `now`. Part of a transaction of the caller's. */
export type ApplyChange = (subscriptionId: string, change: WantChange, now: Date) => Effect;

interface Made {
  readonly datasetId: string;
  readonly subscriptionId: string;
  readonly eventNumber: bigint | null;
}

export function changeApplier(database: Database.Database): ApplyChange {
  type Version = { datasetId: string; version: bigint | null };
  const ensureWant = database.prepare<[string]>(ENSURE_WANT);
  const decideMember = memberDecider(database);
  const raiseVersion = database.prepare<[Made & Version]>(RAISE_VERSION);
  const raiseReload = database.prepare<[Made & { askedAt: string }]>(RAISE_RELOAD);
  const replaceVersion = database.prepare<[Version]>(REPLACE_VERSION);
  const askLook = database.prepare<[string]>(ASK_LOOK);

  return (subscriptionId, change, now) => {
    const { datasetId } = change;
    const eventNumber = 'eventNumber' in change ? (change.eventNumber ?? null) : null;
    const made: Made = { datasetId, subscriptionId, eventNumber };
    ensureWant.run(whole(datasetId, 'datasetId'));
    switch (change.kind) {
      case 'member':
        return decideMember(made, true, null);
      case 'no-member':
        return decideMember(made, false, change.reason ?? null);
      case 'at-least':
        raiseVersion.run({ ...made, version: exact(change.version) });
        return 'none';
      case 'announced':
        replaceVersion.run({ datasetId, version: exact(change.version) });
        return 'none';
      case 'reload':
        if (raiseReload.run({ ...made, askedAt: now.toISOString() }).changes > 0) {
          replaceVersion.run({ datasetId, version: exact(change.version) });
        }
        return 'none';
      case 'look':
        askLook.run(datasetId);
        return 'none';
      default:
        return unreachable(change);
    }
  };
}

function memberDecider(database: Database.Database) {
  const selectIsMember = database.prepare<[Omit<Made, 'eventNumber'>], number>(SELECT_IS_MEMBER).pluck();
  const decide = database.prepare<[Made & { isMember: number; reason: string | null }]>(DECIDE_MEMBER);
  const dropVersion = database.prepare<[Pick<Made, 'datasetId'>]>(DROP_VERSION);
  const withdrawApproval = database.prepare<[Pick<Made, 'datasetId'>]>(WITHDRAW_APPROVAL);
  return (made: Made, isMember: boolean, reason: string | null): Effect => {
    const { datasetId, subscriptionId } = made;
    const before = selectIsMember.get({ datasetId, subscriptionId });
    const decided =
      decide.run({ ...made, isMember: isMember ? 1 : 0, reason: cutOrNull(reason) }).changes > 0;
    if (decided && !isMember) dropVersion.run({ datasetId });
    if (!decided || !isMember) return 'none';
    withdrawApproval.run({ datasetId });
    return before === 0 ? 'returned' : 'none';
  };
}

/** A number is bound as floating point, which an integer column refuses from 2^51 on; a BigInt is bound as it is. */
function exact<T extends number | null>(version: T): T extends number ? bigint : null;
function exact(version: number | null): bigint | null {
  return version === null ? null : BigInt(version);
}
