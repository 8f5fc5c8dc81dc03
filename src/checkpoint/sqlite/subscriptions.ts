/**
 * Stores the position of each subscription in its log, forgotten subscriptions, absences, mentions, and names from the
 * service's description of itself.
 */

import type Database from 'better-sqlite3';
import { type Absence, type AbsenceSubject, absenceKey } from '../../model/absence.ts';
import type { RememberedContract } from '../../model/contract.ts';
import type { Followed, Mention } from '../checkpoint.ts';
import {
  eventNumber,
  exactText,
  flag,
  id,
  integer,
  oneOf,
  orNull,
  shortText,
  table,
  time,
  whole,
} from './table.ts';

type FollowedRow = Omit<Followed, 'cursor'> & {
  readonly cursorText: string | null;
  readonly cursorNumber: bigint | null;
};

export function subscriptionsTable(database: Database.Database) {
  const subscriptions = table<FollowedRow>(database, 'subscriptions', {
    subscriptionId: id,
    name: orNull(shortText),
    logNumber: integer,
    cursorText: orNull({ ...id, write: (text) => whole(text, 'event id') }),
    cursorNumber: orNull(eventNumber),
    cursorCreatedAt: orNull(time),
    cursorAt: time,
    replayedAt: orNull(time),
    coveredUntil: orNull(time),
    statesLastEvent: flag,
    auditedAt: orNull(time),
  });
  const select = subscriptions.select();
  // A step that does not move the cursor leaves the time of its last move. Whether the record of an earlier log stated its
  // last event says nothing about the record of a new log.
  const put = subscriptions.put(
    [
      ...(['subscriptionId', 'name', 'logNumber', 'cursorText', 'cursorNumber', 'cursorCreatedAt'] as const),
      ...(['cursorAt', 'replayedAt', 'coveredUntil'] as const),
    ],
    {
      cursorAt: `iif(log_number IS excluded.log_number AND cursor_text IS excluded.cursor_text,
        cursor_at, excluded.cursor_at)`,
      statesLastEvent: 'iif(log_number = excluded.log_number, states_last_event, 0)',
    },
  );
  const noteStated = database.prepare<[string]>(
    'UPDATE subscriptions SET states_last_event = 1 WHERE subscription_id = ? AND NOT states_last_event',
  );
  const noteAudited = database.prepare<[string, string]>(
    'UPDATE subscriptions SET audited_at = ? WHERE subscription_id = ?',
  );
  const remove = database.prepare<[string]>('DELETE FROM subscriptions WHERE subscription_id = ?');
  return {
    all: (): ReadonlyMap<string, Followed> =>
      new Map(select().map((row) => [row.subscriptionId, followedFrom(row)])),
    put: ({ cursor, ...followed }: Omit<Followed, 'statesLastEvent' | 'auditedAt'>) =>
      put({ ...followed, cursorText: cursor?.text ?? null, cursorNumber: cursor?.number ?? null }),
    noteStatedLastEvent: (subscriptionId: string) => noteStated.run(subscriptionId),
    noteAudited: (subscriptionId: string, at: Date) => noteAudited.run(at.toISOString(), subscriptionId),
    remove: (subscriptionId: string) => remove.run(subscriptionId),
  };
}

function followedFrom({ cursorText: text, cursorNumber: number, ...followed }: FollowedRow): Followed {
  return { ...followed, cursor: text === null || number === null ? null : { text, number } };
}

export function forgottenTable(database: Database.Database) {
  const forgotten = table<{ readonly subscriptionId: string }>(database, 'forgotten', { subscriptionId: id });
  const select = forgotten.select('ORDER BY subscription_id');
  const put = forgotten.putAll();
  const remove = database.prepare<[string]>('DELETE FROM forgotten WHERE subscription_id = ?');
  return {
    all: () => select().map(({ subscriptionId }) => subscriptionId),
    add: (subscriptionId: string) => put({ subscriptionId }),
    remove: (subscriptionId: string) => remove.run(subscriptionId),
  };
}

interface AbsenceRow {
  /** The key of the subject. */
  readonly subject: string;
  readonly kind: AbsenceSubject['kind'];
  readonly subscriptionId: string | null;
  readonly datasetId: string | null;
  readonly version: number | null;
  readonly since: Date;
}

export function absencesTable(database: Database.Database) {
  const absences = table<AbsenceRow>(database, 'absences', {
    subject: exactText,
    kind: oneOf('member', 'subscription', 'log', 'version', 'table'),
    subscriptionId: orNull(exactText),
    datasetId: orNull(exactText),
    version: orNull(integer),
    since: time,
  });
  const select = absences.select();
  const put = absences.putAll();
  const remove = database.prepare<[string]>('DELETE FROM absences WHERE subject = ?');
  const removeOfSubscription = database.prepare<[string]>('DELETE FROM absences WHERE subscription_id = ?');
  const removeOfTable = database.prepare<[string]>(
    "DELETE FROM absences WHERE dataset_id = ? AND kind IN ('version', 'table')",
  );
  return {
    all: (): readonly Absence[] => select().map((row) => ({ subject: subjectOf(row), since: row.since })),
    put: ({ subject, since }: Absence) =>
      put({ ...NOTHING_NAMED, ...subject, subject: absenceKey(subject), since }),
    remove: (subject: AbsenceSubject) => remove.run(absenceKey(subject)),
    /** Removes the absences of the subscription itself and of its members. */
    removeOfSubscription: (subscriptionId: string) => removeOfSubscription.run(subscriptionId),
    /** Removes the absences of the table itself and of its versions. */
    removeOfTable: (datasetId: string) => removeOfTable.run(datasetId),
  };
}

const NOTHING_NAMED = { subscriptionId: null, datasetId: null, version: null };

function subjectOf(row: AbsenceRow): AbsenceSubject {
  const { kind } = row;
  const subscriptionId = row.subscriptionId ?? '';
  const datasetId = row.datasetId ?? '';
  switch (kind) {
    case 'member':
      return { kind, subscriptionId, datasetId };
    case 'subscription':
    case 'log':
      return { kind, subscriptionId };
    case 'version':
      return { kind, datasetId, version: row.version ?? 0 };
    case 'table':
      return { kind, datasetId };
  }
}

export function mentionsTable(database: Database.Database) {
  const mentions = table<Mention>(database, 'mentions', { datasetId: id, subscriptionId: id });
  const select = mentions.select('ORDER BY dataset_id, subscription_id');
  const put = mentions.putAll();
  const remove = database.prepare<[string, string]>(
    'DELETE FROM mentions WHERE dataset_id = ? AND subscription_id = ?',
  );
  const removeOfSubscription = database.prepare<[string]>('DELETE FROM mentions WHERE subscription_id = ?');
  const removeOfTable = database.prepare<[string]>('DELETE FROM mentions WHERE dataset_id = ?');
  return {
    all: (): readonly Mention[] => select(),
    put: (mention: Mention) => put(mention),
    remove: ({ datasetId, subscriptionId }: Mention) => remove.run(datasetId, subscriptionId),
    removeOfSubscription: (subscriptionId: string) => removeOfSubscription.run(subscriptionId),
    removeOfTable: (datasetId: string) => removeOfTable.run(datasetId),
  };
}

export function contractTable(database: Database.Database) {
  const contract = table<RememberedContract & { readonly singleton: number }>(database, 'contract', {
    singleton: integer,
    manifestPath: orNull(id),
    newerThanParameter: orNull(id),
  });
  const select = contract.select();
  const put = contract.putAll();
  return {
    get(): RememberedContract {
      const [{ manifestPath, newerThanParameter } = NOTHING_REMEMBERED] = select();
      return { manifestPath, newerThanParameter };
    },
    put: (remembered: RememberedContract) => put({ singleton: 1, ...remembered }),
  };
}

const NOTHING_REMEMBERED: RememberedContract = { manifestPath: null, newerThanParameter: null };
