/** The subscriptions that are followed, and where in its log each stands. Event numbers are exact to 64 bits. */

import type Database from 'better-sqlite3';
import type { EventId } from '../../model/event.ts';
import type { Followed } from '../checkpoint.ts';
import { cutOrNull, whole } from './text.ts';

const SELECT = `
  SELECT subscription_id AS subscriptionId, name, cursor_text AS cursorText, cursor_number AS cursorNumber,
    cursor_at AS cursorAt, quiet_read_at AS quietReadAt
  FROM subscriptions`;

/** The moment is that of the last move: a step that leaves the cursor where it is leaves the moment too. */
const REPLACE = `
  INSERT INTO subscriptions (subscription_id, name, cursor_text, cursor_number, cursor_at, quiet_read_at)
  VALUES (@subscriptionId, @name, @cursorText, @cursorNumber, @cursorAt, @quietReadAt)
  ON CONFLICT DO UPDATE SET
    name = excluded.name,
    cursor_text = excluded.cursor_text,
    cursor_number = excluded.cursor_number,
    cursor_at = iif(cursor_text IS excluded.cursor_text, cursor_at, excluded.cursor_at),
    quiet_read_at = excluded.quiet_read_at`;

const DELETE = 'DELETE FROM subscriptions WHERE subscription_id = ?';

interface Row {
  readonly subscriptionId: string;
  readonly name: string | null;
  readonly cursorText: string | null;
  readonly cursorNumber: bigint | null;
  readonly cursorAt: string;
  readonly quietReadAt: string | null;
}

export interface SubscriptionsTable {
  all(): ReadonlyMap<string, Followed>;
  put(followed: Followed): void;
  remove(subscriptionId: string): void;
}

export function subscriptionsTable(database: Database.Database): SubscriptionsTable {
  const select = database.prepare<[], Row>(SELECT).safeIntegers();
  const replace = database.prepare<[Row]>(REPLACE);
  const remove = database.prepare<[string]>(DELETE);
  return {
    all: () => new Map(select.all().map((row) => [row.subscriptionId, fromRow(row)])),
    put({ subscriptionId, name, cursor, cursorAt, quietReadAt }) {
      replace.run({
        subscriptionId: whole(subscriptionId, 'subscriptionId'),
        name: cutOrNull(name),
        cursorText: cursor === null ? null : whole(cursor.text, 'event id'),
        cursorNumber: cursor?.number ?? null,
        cursorAt: cursorAt.toISOString(),
        quietReadAt: quietReadAt?.toISOString() ?? null,
      });
    },
    remove(subscriptionId) {
      remove.run(subscriptionId);
    },
  };
}

function fromRow({ subscriptionId, name, cursorText, cursorNumber, cursorAt, quietReadAt }: Row): Followed {
  const cursor: EventId | null =
    cursorText === null || cursorNumber === null ? null : { text: cursorText, number: cursorNumber };
  return {
    subscriptionId,
    name,
    cursor,
    cursorAt: new Date(cursorAt),
    quietReadAt: quietReadAt === null ? null : new Date(quietReadAt),
  };
}
