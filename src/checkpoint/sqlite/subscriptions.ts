/** The subscriptions that are followed, and where in its log each stands. Event numbers are exact to 64 bits. */

import type Database from 'better-sqlite3';
import type { EventId } from '../../model/event.ts';
import type { Followed } from '../checkpoint.ts';
import { cutOrNull, whole } from './text.ts';

const SELECT = `
  SELECT subscription_id AS subscriptionId, name, log_number AS logNumber, cursor_text AS cursorText,
    cursor_number AS cursorNumber, cursor_created_at AS cursorCreatedAt, cursor_at AS cursorAt,
    quiet_read_at AS quietReadAt, covered_until AS coveredUntil, states_last_event AS statesLastEvent,
    audited_at AS auditedAt
  FROM subscriptions`;

/**
 * The moment is that of the last move: a step that leaves the cursor where it is leaves the moment too. What the record of an
 * earlier log has named says nothing of that of a new one.
 */
const REPLACE = `
  INSERT INTO subscriptions (subscription_id, name, log_number, cursor_text, cursor_number, cursor_created_at,
    cursor_at, quiet_read_at, covered_until)
  VALUES (@subscriptionId, @name, @logNumber, @cursorText, @cursorNumber, @cursorCreatedAt,
    @cursorAt, @quietReadAt, @coveredUntil)
  ON CONFLICT DO UPDATE SET
    name = excluded.name,
    cursor_at = iif(log_number IS excluded.log_number AND cursor_text IS excluded.cursor_text,
      cursor_at, excluded.cursor_at),
    log_number = excluded.log_number,
    cursor_text = excluded.cursor_text,
    cursor_number = excluded.cursor_number,
    cursor_created_at = excluded.cursor_created_at,
    quiet_read_at = excluded.quiet_read_at,
    states_last_event = iif(log_number = excluded.log_number, states_last_event, 0),
    covered_until = excluded.covered_until`;

const NOTE_STATED =
  'UPDATE subscriptions SET states_last_event = 1 WHERE subscription_id = ? AND NOT states_last_event';

const NOTE_AUDITED = 'UPDATE subscriptions SET audited_at = @at WHERE subscription_id = @subscriptionId';

const DELETE = 'DELETE FROM subscriptions WHERE subscription_id = ?';

interface Row {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly logNumber: bigint;
  readonly cursorText: string | null;
  readonly cursorNumber: bigint | null;
  readonly cursorCreatedAt: string | null;
  readonly cursorAt: string;
  readonly quietReadAt: string | null;
  readonly coveredUntil: string | null;
  readonly statesLastEvent: bigint;
  readonly auditedAt: string | null;
}

export interface SubscriptionsTable {
  all(): ReadonlyMap<string, Followed>;
  put(followed: Omit<Followed, 'statesLastEvent' | 'auditedAt'>): void;
  noteStatedLastEvent(subscriptionId: string): void;
  noteAudited(subscriptionId: string, at: Date): void;
  remove(subscriptionId: string): void;
}

export function subscriptionsTable(database: Database.Database): SubscriptionsTable {
  const select = database.prepare<[], Row>(SELECT).safeIntegers();
  const replace = database.prepare<[Omit<Row, 'statesLastEvent' | 'auditedAt'>]>(REPLACE);
  const noteStated = database.prepare<[string]>(NOTE_STATED);
  const noteAudited = database.prepare<[{ subscriptionId: string; at: string }]>(NOTE_AUDITED);
  const remove = database.prepare<[string]>(DELETE);
  return {
    all: () => new Map(select.all().map((row) => [row.subscriptionId, fromRow(row)])),
    put({ subscriptionId, name, logNumber, cursor, cursorCreatedAt, cursorAt, quietReadAt, coveredUntil }) {
      replace.run({
        subscriptionId: whole(subscriptionId, 'subscriptionId'),
        name: cutOrNull(name),
        logNumber: BigInt(logNumber),
        cursorText: cursor === null ? null : whole(cursor.text, 'event id'),
        cursorNumber: cursor?.number ?? null,
        cursorCreatedAt: cursorCreatedAt?.toISOString() ?? null,
        cursorAt: cursorAt.toISOString(),
        quietReadAt: quietReadAt?.toISOString() ?? null,
        coveredUntil: coveredUntil?.toISOString() ?? null,
      });
    },
    noteStatedLastEvent(subscriptionId) {
      noteStated.run(subscriptionId);
    },
    noteAudited(subscriptionId, at) {
      noteAudited.run({ subscriptionId, at: at.toISOString() });
    },
    remove(subscriptionId) {
      remove.run(subscriptionId);
    },
  };
}

function fromRow(row: Row): Followed {
  const { cursorText, cursorNumber } = row;
  const cursor: EventId | null =
    cursorText === null || cursorNumber === null ? null : { text: cursorText, number: cursorNumber };
  return {
    subscriptionId: row.subscriptionId,
    name: row.name,
    logNumber: Number(row.logNumber),
    cursor,
    cursorCreatedAt: momentOf(row.cursorCreatedAt),
    cursorAt: new Date(row.cursorAt),
    quietReadAt: momentOf(row.quietReadAt),
    coveredUntil: momentOf(row.coveredUntil),
    statesLastEvent: row.statesLastEvent === 1n,
    auditedAt: momentOf(row.auditedAt),
  };
}

function momentOf(text: string | null): Date | null {
  return text === null ? null : new Date(text);
}
