/**
 * What is wanted of each dataset. Here the rules are kept by which a change makes a want grow: applied twice, or
 * after a later one, a change of an event changes nothing. Only looks are counted each time: one too many costs a
 * request, one too few would lose an event.
 */

import type Database from 'better-sqlite3';
import { unreachable } from '../../lib/assert.ts';
import type { Want, WantChange } from '../../model/want.ts';
import { whole } from './text.ts';

const SELECT_WANTS = `
  SELECT dataset_id AS datasetId, at_least_version AS atLeastVersion, looks_asked AS looksAsked,
    looks_done AS looksDone
  FROM wants`;

const SELECT_MEMBERS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, is_member AS isMember, event_number AS eventNumber
  FROM want_members`;

const SELECT_RELOADS = `
  SELECT dataset_id AS datasetId, subscription_id AS subscriptionId, event_number AS eventNumber FROM want_reloads`;

const ENSURE_WANT = 'INSERT INTO wants (dataset_id) VALUES (?) ON CONFLICT DO NOTHING';

/** A change without an event decides at once, and leaves the number of the event that decided before. */
const DECIDE_MEMBER = `
  INSERT INTO want_members AS stored (dataset_id, subscription_id, is_member, event_number)
  VALUES (@datasetId, @subscriptionId, @isMember, @eventNumber)
  ON CONFLICT DO UPDATE SET
    is_member = excluded.is_member,
    event_number = coalesce(excluded.event_number, stored.event_number)
  WHERE excluded.event_number IS NULL
    OR stored.event_number IS NULL
    OR excluded.event_number > stored.event_number`;

const RAISE_VERSION = `
  UPDATE wants SET at_least_version = max(@version, coalesce(at_least_version, @version))
  WHERE dataset_id = @datasetId
    AND NOT EXISTS (
      SELECT 1 FROM want_reloads AS reload
      WHERE reload.dataset_id = @datasetId
        AND reload.subscription_id = @subscriptionId
        AND reload.event_number > @eventNumber)`;

/** Counts as a change only where the event is newer than the one stored. */
const RAISE_RELOAD = `
  INSERT INTO want_reloads AS stored (dataset_id, subscription_id, event_number)
  VALUES (@datasetId, @subscriptionId, @eventNumber)
  ON CONFLICT DO UPDATE SET event_number = excluded.event_number
  WHERE excluded.event_number > stored.event_number`;

const REPLACE_VERSION = 'UPDATE wants SET at_least_version = @version WHERE dataset_id = @datasetId';

const ASK_LOOK = 'UPDATE wants SET looks_asked = looks_asked + 1 WHERE dataset_id = ?';

const MARK_LOOKED = `
  UPDATE wants SET looks_done = max(looks_done, min(looks_asked, @looksAsked)) WHERE dataset_id = @datasetId`;

interface WantRow {
  readonly datasetId: string;
  readonly atLeastVersion: number | null;
  readonly looksAsked: number;
  readonly looksDone: number;
}

interface OfSubscription {
  readonly datasetId: string;
  readonly subscriptionId: string;
}

export interface WantsTable {
  all(): ReadonlyMap<string, Want>;
  /** Applies one change made by the subscription. Part of a transaction of the caller's. */
  apply(subscriptionId: string, change: WantChange): void;
  markLooked(datasetId: string, looksAsked: number): void;
}

export function wantsTable(database: Database.Database): WantsTable {
  const apply = changeApplier(database);
  const markLooked = database.prepare<[{ datasetId: string; looksAsked: number }]>(MARK_LOOKED);
  return {
    all: wantsReader(database),
    apply,
    markLooked(datasetId, looksAsked) {
      markLooked.run({ datasetId, looksAsked });
    },
  };
}

function wantsReader(database: Database.Database): () => ReadonlyMap<string, Want> {
  const selectWants = database.prepare<[], WantRow>(SELECT_WANTS);
  const selectMembers = database
    .prepare<[], OfSubscription & { isMember: bigint; eventNumber: bigint | null }>(SELECT_MEMBERS)
    .safeIntegers();
  const selectReloads = database
    .prepare<[], OfSubscription & { eventNumber: bigint }>(SELECT_RELOADS)
    .safeIntegers();
  return () => {
    const wants = new Map(
      selectWants.all().map((row) => [
        row.datasetId,
        {
          ...row,
          members: new Set<string>(),
          formerMembers: new Map<string, bigint | null>(),
          reloadAfter: new Map<string, bigint>(),
        },
      ]),
    );
    for (const { datasetId, subscriptionId, isMember, eventNumber } of selectMembers.iterate()) {
      const want = wants.get(datasetId);
      if (isMember === 1n) want?.members.add(subscriptionId);
      else want?.formerMembers.set(subscriptionId, eventNumber);
    }
    for (const { datasetId, subscriptionId, eventNumber } of selectReloads.iterate()) {
      wants.get(datasetId)?.reloadAfter.set(subscriptionId, eventNumber);
    }
    return wants;
  };
}

function changeApplier(database: Database.Database): WantsTable['apply'] {
  type Change = OfSubscription & { eventNumber: bigint | null };
  type Version = { datasetId: string; version: bigint | null };
  const ensureWant = database.prepare<[string]>(ENSURE_WANT);
  const decideMember = database.prepare<[Change & { isMember: number }]>(DECIDE_MEMBER);
  const raiseVersion = database.prepare<[Change & Version]>(RAISE_VERSION);
  const raiseReload = database.prepare<[Change]>(RAISE_RELOAD);
  const replaceVersion = database.prepare<[Version]>(REPLACE_VERSION);
  const askLook = database.prepare<[string]>(ASK_LOOK);

  return (subscriptionId, change) => {
    const { datasetId } = change;
    const eventNumber = 'eventNumber' in change ? (change.eventNumber ?? null) : null;
    const made: Change = { datasetId, subscriptionId, eventNumber };
    ensureWant.run(whole(datasetId, 'datasetId'));
    switch (change.kind) {
      case 'member':
      case 'no-member':
        return void decideMember.run({ ...made, isMember: change.kind === 'member' ? 1 : 0 });
      case 'at-least':
        return void raiseVersion.run({ ...made, version: exact(change.version) });
      case 'reload':
        if (raiseReload.run(made).changes === 0) return;
        return void replaceVersion.run({ datasetId, version: exact(change.version) });
      case 'look':
        return void askLook.run(datasetId);
      default:
        return unreachable(change);
    }
  };
}

/** A number is bound as floating point, which an integer column refuses from 2^51 on; a BigInt is bound as it is. */
function exact<T extends number | null>(version: T): T extends number ? bigint : null;
function exact(version: number | null): bigint | null {
  return version === null ? null : BigInt(version);
}
