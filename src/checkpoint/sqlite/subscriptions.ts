/**
 * Stores the position of each subscription in its log, forgotten subscriptions, absences, and names from the service's
 * description of itself. Event numbers are exact to 64 bits.
 */

import type Database from 'better-sqlite3';
import { type Absence, type AbsenceSubject, absenceKey } from '../../model/absence.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { EventId } from '../../model/event.ts';
import type { Followed } from '../checkpoint.ts';
import { cutOrNull, whole } from './errors.ts';

const SELECT_FOLLOWED = `
  SELECT subscription_id AS subscriptionId, name, log_number AS logNumber, cursor_text AS cursorText,
    cursor_number AS cursorNumber, cursor_created_at AS cursorCreatedAt, cursor_at AS cursorAt,
    replayed_at AS replayedAt, covered_until AS coveredUntil, states_last_event AS statesLastEvent,
    audited_at AS auditedAt
  FROM subscriptions`;

/**
 * A step that does not move the cursor leaves the time of its last move. Whether the record of an earlier log stated its last
 * event says nothing about the record of a new log.
 */
const REPLACE_FOLLOWED = `
  INSERT INTO subscriptions (subscription_id, name, log_number, cursor_text, cursor_number, cursor_created_at,
    cursor_at, replayed_at, covered_until)
  VALUES (@subscriptionId, @name, @logNumber, @cursorText, @cursorNumber, @cursorCreatedAt,
    @cursorAt, @replayedAt, @coveredUntil)
  ON CONFLICT DO UPDATE SET
    name = excluded.name,
    cursor_at = iif(log_number IS excluded.log_number AND cursor_text IS excluded.cursor_text,
      cursor_at, excluded.cursor_at),
    log_number = excluded.log_number,
    cursor_text = excluded.cursor_text,
    cursor_number = excluded.cursor_number,
    cursor_created_at = excluded.cursor_created_at,
    replayed_at = excluded.replayed_at,
    states_last_event = iif(log_number = excluded.log_number, states_last_event, 0),
    covered_until = excluded.covered_until`;

const NOTE_STATED =
  'UPDATE subscriptions SET states_last_event = 1 WHERE subscription_id = ? AND NOT states_last_event';

const NOTE_AUDITED = 'UPDATE subscriptions SET audited_at = @at WHERE subscription_id = @subscriptionId';

const DELETE_FOLLOWED = 'DELETE FROM subscriptions WHERE subscription_id = ?';

interface FollowedRow {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly logNumber: bigint;
  readonly cursorText: string | null;
  readonly cursorNumber: bigint | null;
  readonly cursorCreatedAt: string | null;
  readonly cursorAt: string;
  readonly replayedAt: string | null;
  readonly coveredUntil: string | null;
  readonly statesLastEvent: bigint;
  readonly auditedAt: string | null;
}

export function subscriptionsTable(database: Database.Database) {
  const select = database.prepare<[], FollowedRow>(SELECT_FOLLOWED).safeIntegers();
  const replace = database.prepare<[Omit<FollowedRow, 'statesLastEvent' | 'auditedAt'>]>(REPLACE_FOLLOWED);
  const noteStated = database.prepare<[string]>(NOTE_STATED);
  const noteAudited = database.prepare<[{ subscriptionId: string; at: string }]>(NOTE_AUDITED);
  const remove = database.prepare<[string]>(DELETE_FOLLOWED);
  return {
    all: (): ReadonlyMap<string, Followed> =>
      new Map(select.all().map((row) => [row.subscriptionId, fromRow(row)])),
    put: (followed: Omit<Followed, 'statesLastEvent' | 'auditedAt'>) => replace.run(toRow(followed)),
    noteStatedLastEvent: (subscriptionId: string) => noteStated.run(subscriptionId),
    noteAudited: (subscriptionId: string, at: Date) =>
      noteAudited.run({ subscriptionId, at: at.toISOString() }),
    remove: (subscriptionId: string) => remove.run(subscriptionId),
  };
}

function toRow(followed: Omit<Followed, 'statesLastEvent' | 'auditedAt'>) {
  const { subscriptionId, name, logNumber, cursor } = followed;
  return {
    subscriptionId: whole(subscriptionId, 'subscriptionId'),
    name: cutOrNull(name),
    logNumber: BigInt(logNumber),
    cursorText: cursor === null ? null : whole(cursor.text, 'event id'),
    cursorNumber: cursor?.number ?? null,
    cursorCreatedAt: followed.cursorCreatedAt?.toISOString() ?? null,
    cursorAt: followed.cursorAt.toISOString(),
    replayedAt: followed.replayedAt?.toISOString() ?? null,
    coveredUntil: followed.coveredUntil?.toISOString() ?? null,
  };
}

function fromRow(row: FollowedRow): Followed {
  const { cursorText, cursorNumber } = row;
  const cursor: EventId | null =
    cursorText === null || cursorNumber === null ? null : { text: cursorText, number: cursorNumber };
  return {
    subscriptionId: row.subscriptionId,
    name: row.name,
    logNumber: Number(row.logNumber),
    cursor,
    cursorCreatedAt: timeOf(row.cursorCreatedAt),
    cursorAt: new Date(row.cursorAt),
    replayedAt: timeOf(row.replayedAt),
    coveredUntil: timeOf(row.coveredUntil),
    statesLastEvent: row.statesLastEvent === 1n,
    auditedAt: timeOf(row.auditedAt),
  };
}

function timeOf(text: string | null): Date | null {
  return text === null ? null : new Date(text);
}

const SELECT_FORGOTTEN = 'SELECT subscription_id FROM forgotten ORDER BY subscription_id';

const INSERT = 'INSERT INTO forgotten (subscription_id) VALUES (?) ON CONFLICT DO NOTHING';

const DELETE_FORGOTTEN = 'DELETE FROM forgotten WHERE subscription_id = ?';

export function forgottenTable(database: Database.Database) {
  const select = database.prepare<[], string>(SELECT_FORGOTTEN).pluck();
  const insert = database.prepare<[string]>(INSERT);
  const remove = database.prepare<[string]>(DELETE_FORGOTTEN);
  return {
    all: () => select.all(),
    add: (subscriptionId: string) => insert.run(subscriptionId),
    remove: (subscriptionId: string) => remove.run(subscriptionId),
  };
}

const SELECT_ABSENCES = `
  SELECT kind, subscription_id AS subscriptionId, dataset_id AS datasetId, version, since FROM absences`;

const REPLACE_ABSENCE = `
  INSERT INTO absences (subject, kind, subscription_id, dataset_id, version, since)
  VALUES (@subject, @kind, @subscriptionId, @datasetId, @version, @since)
  ON CONFLICT DO UPDATE SET since = excluded.since`;

const DELETE_ABSENCE = 'DELETE FROM absences WHERE subject = ?';
const DELETE_OF_SUBSCRIPTION = 'DELETE FROM absences WHERE subscription_id = ?';
const DELETE_OF_TABLE = "DELETE FROM absences WHERE dataset_id = ? AND kind IN ('version', 'table')";

interface AbsenceRow {
  readonly kind: AbsenceSubject['kind'];
  readonly subscriptionId: string | null;
  readonly datasetId: string | null;
  readonly version: number | null;
  readonly since: string;
}

export function absencesTable(database: Database.Database) {
  const select = database.prepare<[], AbsenceRow>(SELECT_ABSENCES);
  const replace = database.prepare<[AbsenceRow & { subject: string }]>(REPLACE_ABSENCE);
  const remove = database.prepare<[string]>(DELETE_ABSENCE);
  const removeOfSubscription = database.prepare<[string]>(DELETE_OF_SUBSCRIPTION);
  const removeOfTable = database.prepare<[string]>(DELETE_OF_TABLE);
  return {
    all: () => select.all().map((row) => ({ subject: subjectOf(row), since: new Date(row.since) })),
    put: ({ subject, since }: Absence) =>
      replace.run({ ...EMPTY, ...subject, subject: absenceKey(subject), since: since.toISOString() }),
    remove: (subject: AbsenceSubject) => remove.run(absenceKey(subject)),
    /** Removes the absences of the subscription itself and of its members. */
    removeOfSubscription: (subscriptionId: string) => removeOfSubscription.run(subscriptionId),
    /** Removes the absences of the table itself and of its versions. */
    removeOfTable: (datasetId: string) => removeOfTable.run(datasetId),
  };
}

const EMPTY: Pick<AbsenceRow, 'subscriptionId' | 'datasetId' | 'version'> = {
  subscriptionId: null,
  datasetId: null,
  version: null,
};

function subjectOf({ kind, subscriptionId, datasetId, version }: AbsenceRow): AbsenceSubject {
  const ofSubscription = subscriptionId ?? '';
  const ofDataset = datasetId ?? '';
  switch (kind) {
    case 'member':
      return { kind, subscriptionId: ofSubscription, datasetId: ofDataset };
    case 'subscription':
    case 'log':
      return { kind, subscriptionId: ofSubscription };
    case 'version':
      return { kind, datasetId: ofDataset, version: version ?? 0 };
    case 'table':
      return { kind, datasetId: ofDataset };
  }
}

const SELECT_CONTRACT = `
  SELECT manifest_path AS manifestPath, newer_than_parameter AS newerThanParameter FROM contract`;

const REPLACE_CONTRACT = `
  INSERT INTO contract (singleton, manifest_path, newer_than_parameter)
  VALUES (1, @manifestPath, @newerThanParameter)
  ON CONFLICT DO UPDATE SET
    manifest_path = excluded.manifest_path,
    newer_than_parameter = excluded.newer_than_parameter`;

export function contractTable(database: Database.Database) {
  const select = database.prepare<[], RememberedContract>(SELECT_CONTRACT);
  const replace = database.prepare<[RememberedContract]>(REPLACE_CONTRACT);
  return {
    get: () => select.get() ?? { manifestPath: null, newerThanParameter: null },
    put: ({ manifestPath, newerThanParameter }: RememberedContract) =>
      replace.run({
        manifestPath: manifestPath === null ? null : whole(manifestPath, 'manifestPath'),
        newerThanParameter:
          newerThanParameter === null ? null : whole(newerThanParameter, 'newerThanParameter'),
      }),
  };
}
