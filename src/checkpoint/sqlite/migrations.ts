/**
 * The format of the file, as the ordered list of steps that led to it. A step that was released is never edited: a
 * further step follows it, with a recorded dump of the format it starts from (a test asks for it).
 *
 * Moments are text in ISO 8601, so that a person can read the file with any SQLite shell.
 */

import type Database from 'better-sqlite3';
import { durable } from '../../lib/files.ts';

/** Marks a file as ours (`fsyn`), so that somebody else's is never touched. */
const APPLICATION_ID = 0x6673796e;

const FORMAT_1 = `
  PRAGMA application_id = ${APPLICATION_ID};

  CREATE TABLE contract (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    manifest_path TEXT,
    newer_than_parameter TEXT
  ) STRICT;

  CREATE TABLE subscriptions (
    subscription_id TEXT PRIMARY KEY,
    name TEXT,
    cursor_text TEXT,
    cursor_number INTEGER,
    cursor_at TEXT NOT NULL,
    CHECK ((cursor_text IS NULL) = (cursor_number IS NULL))
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE wants (
    dataset_id TEXT PRIMARY KEY,
    at_least_version INTEGER,
    looks_asked INTEGER NOT NULL DEFAULT 0,
    looks_done INTEGER NOT NULL DEFAULT 0 CHECK (looks_done <= looks_asked)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE want_members (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    is_member INTEGER NOT NULL CHECK (is_member IN (0, 1)),
    event_number INTEGER,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE want_reloads (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    event_number INTEGER NOT NULL,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE holds (
    scope_kind TEXT NOT NULL CHECK (scope_kind IN ('workspace', 'subscription', 'dataset')),
    scope_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT,
    message TEXT NOT NULL,
    links TEXT NOT NULL,
    held_at TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    PRIMARY KEY (scope_kind, scope_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE failures (
    dataset_id TEXT PRIMARY KEY,
    error TEXT NOT NULL,
    message TEXT NOT NULL,
    hint TEXT,
    content TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT NOT NULL,
    retry_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE journal (
    line INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    dataset_id TEXT,
    detail TEXT NOT NULL
  ) STRICT;
`;

/**
 * What a person asks for, why a dataset was dropped, when a reload was asked for. A reload from before counts as asked
 * for long ago. SQLite cannot take a NOT NULL or a CHECK back, so the table of holds is made anew.
 */
const FORMAT_2 = `
  ALTER TABLE subscriptions ADD COLUMN quiet_read_at TEXT;

  ALTER TABLE wants ADD COLUMN resyncs_asked INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE wants ADD COLUMN resyncs_done INTEGER NOT NULL DEFAULT 0 CHECK (resyncs_done <= resyncs_asked);
  ALTER TABLE wants ADD COLUMN retirement_approved INTEGER NOT NULL DEFAULT 0 CHECK (retirement_approved IN (0, 1));

  ALTER TABLE want_members ADD COLUMN reason TEXT;

  ALTER TABLE want_reloads ADD COLUMN asked_at TEXT NOT NULL DEFAULT '1970-01-01T00:00:00.000Z';

  CREATE TABLE forgotten (subscription_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

  ALTER TABLE holds RENAME TO holds_of_format_1;
  CREATE TABLE holds (
    scope_kind TEXT NOT NULL CHECK (scope_kind IN ('workspace', 'subscription', 'dataset', 'retirement')),
    scope_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    status INTEGER,
    code TEXT,
    message TEXT NOT NULL,
    links TEXT NOT NULL,
    held_at TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    PRIMARY KEY (scope_kind, scope_id)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO holds SELECT * FROM holds_of_format_1;
  DROP TABLE holds_of_format_1;
`;

/** The webhooks that were added from here, and the ids of what they delivered. */
const FORMAT_3 = `
  CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE deliveries (
    line INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    arrived_at TEXT NOT NULL
  ) STRICT;
`;

/** What the command that is run after commits was told of the mirror's history, and how its last run failed. */
const FORMAT_4 = `
  CREATE TABLE hook (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    told_lines INTEGER NOT NULL,
    told_last TEXT NOT NULL,
    told_at TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT,
    message TEXT
  ) STRICT;
`;

/**
 * What a subscription announced is kept for that subscription: what was announced before is taken for announced by every
 * one that contains the dataset. Of a reload is kept what decides which manifest answers it: of one from before it is not
 * known which versions were known. Of a resync, the moment at which it was asked for.
 */
const FORMAT_5 = `
  ALTER TABLE subscriptions ADD COLUMN log_number INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE subscriptions ADD COLUMN cursor_created_at TEXT;
  ALTER TABLE subscriptions ADD COLUMN covered_until TEXT;
  ALTER TABLE subscriptions ADD COLUMN states_last_event INTEGER NOT NULL DEFAULT 0 CHECK (states_last_event IN (0, 1));
  ALTER TABLE subscriptions ADD COLUMN audited_at TEXT;

  ALTER TABLE want_members RENAME TO want_members_of_format_4;
  CREATE TABLE want_members (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    is_member INTEGER NOT NULL CHECK (is_member IN (0, 1)),
    event_number INTEGER,
    decided_at TEXT NOT NULL,
    announced INTEGER,
    reason TEXT,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO want_members
    SELECT dataset_id, subscription_id, is_member, event_number, '1970-01-01T00:00:00.000Z',
      iif(is_member, at_least_version, NULL), reason
    FROM want_members_of_format_4 JOIN wants USING (dataset_id);
  DROP TABLE want_members_of_format_4;

  ALTER TABLE want_reloads RENAME TO want_reloads_of_format_4;
  CREATE TABLE want_reloads (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    log_number INTEGER NOT NULL,
    event_number INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    read_at TEXT NOT NULL,
    known_version INTEGER,
    listed_version INTEGER,
    is_withdrawal INTEGER NOT NULL CHECK (is_withdrawal IN (0, 1)),
    PRIMARY KEY (dataset_id, subscription_id, event_number, created_at, is_withdrawal)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO want_reloads
    SELECT dataset_id, subscription_id, 1, event_number, asked_at, asked_at, NULL, NULL, 0
    FROM want_reloads_of_format_4;
  DROP TABLE want_reloads_of_format_4;

  ALTER TABLE wants DROP COLUMN at_least_version;
  ALTER TABLE wants ADD COLUMN resync_number INTEGER NOT NULL DEFAULT 0;
  UPDATE wants SET resync_number = 1 WHERE resyncs_done < resyncs_asked;
  ALTER TABLE wants DROP COLUMN resyncs_done;
  ALTER TABLE wants DROP COLUMN resyncs_asked;

  CREATE TABLE absences (
    subject TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('member', 'subscription', 'log', 'version', 'table')),
    subscription_id TEXT,
    dataset_id TEXT,
    version INTEGER,
    since TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
`;

/** Entry n leads from format n to format n + 1. Format 0 is an empty file. */
const MIGRATIONS: readonly string[] = [FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5];

export const CURRENT_FORMAT = MIGRATIONS.length;

export type Identity =
  /** Nothing in it yet. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'ours'; readonly format: number }
  /** Somebody else's database. */
  | { readonly kind: 'foreign' };

export function identityOf(database: Database.Database): Identity {
  const number = (pragma: string): number => Number(database.pragma(pragma, { simple: true }));
  const format = number('user_version');
  if (number('application_id') === APPLICATION_ID) return { kind: 'ours', format };
  const objects = database.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get();
  return objects === 0 && format === 0 ? { kind: 'empty' } : { kind: 'foreign' };
}

/**
 * Brings the file to the current format, each step in its own transaction; a step that another process has done
 * in the meantime is left out.
 */
export function migrate(database: Database.Database): void {
  const format = (): number => Number(database.pragma('user_version', { simple: true }));
  MIGRATIONS.forEach((sql, from) => {
    if (format() > from) return;
    const step = database.transaction(() => {
      if (format() > from) return;
      database.exec(sql);
      database.pragma(`user_version = ${from + 1}`);
    });
    durable('checkpoint.migrate', () => step.immediate());
  });
}
