/**
 * The format of the checkpoint file, and the one migration to it. Invariant: a migrated file has the schema of a new one.
 * Times are text in ISO 8601, so that an operator can read the file with any SQLite shell.
 */

import type Database from 'better-sqlite3';
import { durable } from '../../lib/files.ts';
import { ConfigurationError } from '../../model/errors.ts';

/** Marks a file as a checkpoint of feed-sync (`fsyn`), so that the database of another program is never touched. */
const APPLICATION_ID = 0x6673796e;

export const CURRENT_FORMAT = 14;

/** The format of version 0.1. Format 5 was never released, but files of it are in use. */
const FIRST_FORMAT = 4;

/** The first format whose tables have the names of today. Later formats add tables, and one a column. */
const FIRST_FORMAT_OF_TODAY = 6;

/** The first format that stores which resyncs move their tables. */
const FIRST_FORMAT_WITH_MOVES = 14;

/** A column that a later format has added stands as SQLite writes it, so that migrated files have the same text. */
const CREATE = `
  PRAGMA application_id = ${APPLICATION_ID};

  CREATE TABLE IF NOT EXISTS contract (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    manifest_path TEXT,
    newer_than_parameter TEXT
  ) STRICT;

  CREATE TABLE IF NOT EXISTS subscriptions (
    subscription_id TEXT PRIMARY KEY,
    name TEXT,
    log_number INTEGER NOT NULL,
    cursor_text TEXT,
    cursor_number INTEGER,
    cursor_created_at TEXT,
    cursor_at TEXT NOT NULL,
    replayed_at TEXT,
    covered_until TEXT,
    states_last_event INTEGER NOT NULL DEFAULT 0 CHECK (states_last_event IN (0, 1)),
    audited_at TEXT,
    CHECK ((cursor_text IS NULL) = (cursor_number IS NULL))
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS polls (
    subject TEXT PRIMARY KEY,
    succeeded_at TEXT,
    command TEXT,
    pid INTEGER,
    host TEXT,
    failing_since TEXT,
    failed_at TEXT,
    error TEXT,
    message TEXT,
    hint TEXT
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS desired_states (
    dataset_id TEXT PRIMARY KEY,
    refreshes_requested INTEGER NOT NULL DEFAULT 0,
    refreshes_done INTEGER NOT NULL DEFAULT 0 CHECK (refreshes_done <= refreshes_requested),
    resync_number INTEGER NOT NULL DEFAULT 0,
    retirement_approved INTEGER NOT NULL DEFAULT 0 CHECK (retirement_approved IN (0, 1))
  , move_number INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS desired_members (
    dataset_id TEXT NOT NULL REFERENCES desired_states ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    is_member INTEGER NOT NULL CHECK (is_member IN (0, 1)),
    event_number INTEGER,
    decided_at TEXT NOT NULL,
    announced INTEGER,
    reason TEXT,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS desired_reloads (
    dataset_id TEXT NOT NULL REFERENCES desired_states ON DELETE CASCADE,
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

  CREATE TABLE IF NOT EXISTS absences (
    subject TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('member', 'subscription', 'log', 'version', 'table')),
    subscription_id TEXT,
    dataset_id TEXT,
    version INTEGER,
    since TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS mentions (
    dataset_id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS forgotten (subscription_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS suspensions (
    scope_kind TEXT NOT NULL CHECK (scope_kind IN ('workspace', 'subscription', 'dataset', 'retirement')),
    scope_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    status INTEGER,
    code TEXT,
    message TEXT NOT NULL,
    links TEXT NOT NULL,
    suspended_at TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    PRIMARY KEY (scope_kind, scope_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS candidates (
    dataset_id TEXT PRIMARY KEY,
    content TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS failures (
    dataset_id TEXT PRIMARY KEY,
    error TEXT NOT NULL,
    message TEXT NOT NULL,
    hint TEXT,
    content TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT NOT NULL,
    retry_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS webhooks (
    webhook_id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS webhook_secrets (
    webhook_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    digest TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS deliveries (
    delivery_number INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    arrived_at TEXT NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS hook (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    commit_number INTEGER NOT NULL,
    commit_mark TEXT NOT NULL,
    reported_at TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT,
    message TEXT
  ) STRICT;

  CREATE TABLE IF NOT EXISTS notifications (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    ledger TEXT NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS scrub (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    began_at TEXT,
    position_table TEXT,
    position_row INTEGER,
    completed_at TEXT,
    is_examination_asked INTEGER NOT NULL CHECK (is_examination_asked IN (0, 1)),
    CHECK ((position_table IS NULL) = (position_row IS NULL))
  ) STRICT;

  CREATE TABLE IF NOT EXISTS requests (
    request_number INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    dataset_id TEXT NOT NULL,
    command TEXT NOT NULL,
    parameters TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'begun', 'done', 'refused')),
    answer TEXT
  ) STRICT;

  CREATE TABLE IF NOT EXISTS sync_runs (
    run_number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    dataset_id TEXT,
    detail TEXT NOT NULL
  ) STRICT;
`;

/**
 * Gives the tables of the first format the columns of format 5. The first format stored an announced version per
 * dataset, so the version counts as announced by every subscription that contains the dataset. It did not store when a
 * subscription joined or left, so that time counts as long ago.
 */
const COMPLETE_FIRST_FORMAT = `
  ALTER TABLE subscriptions ADD COLUMN log_number INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE subscriptions ADD COLUMN cursor_created_at TEXT;
  ALTER TABLE subscriptions ADD COLUMN covered_until TEXT;
  ALTER TABLE subscriptions ADD COLUMN states_last_event INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE subscriptions ADD COLUMN audited_at TEXT;

  ALTER TABLE wants ADD COLUMN resync_number INTEGER NOT NULL DEFAULT 0;
  UPDATE wants SET resync_number = 1 WHERE resyncs_done < resyncs_asked;

  ALTER TABLE want_members ADD COLUMN decided_at TEXT NOT NULL DEFAULT '1970-01-01T00:00:00.000Z';
  ALTER TABLE want_members ADD COLUMN announced INTEGER;
  UPDATE want_members SET announced = wants.at_least_version FROM wants
    WHERE is_member AND wants.dataset_id = want_members.dataset_id;

  ALTER TABLE want_reloads RENAME COLUMN asked_at TO created_at;
  ALTER TABLE want_reloads ADD COLUMN log_number INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE want_reloads ADD COLUMN read_at TEXT;
  ALTER TABLE want_reloads ADD COLUMN known_version INTEGER;
  ALTER TABLE want_reloads ADD COLUMN listed_version INTEGER;
  ALTER TABLE want_reloads ADD COLUMN is_withdrawal INTEGER NOT NULL DEFAULT 0;
  UPDATE want_reloads SET read_at = created_at;
`;

/** Runs before `CREATE`, which leaves alone the tables that are there already. */
const RENAME = `
  ALTER TABLE subscriptions RENAME TO earlier_subscriptions;
  ALTER TABLE deliveries RENAME COLUMN line TO delivery_number;
  ALTER TABLE hook RENAME COLUMN told_lines TO commit_number;
  ALTER TABLE hook RENAME COLUMN told_last TO commit_mark;
  ALTER TABLE hook RENAME COLUMN told_at TO reported_at;
`;

/** Runs after `CREATE`. */
const COPY = `
  INSERT INTO subscriptions
    SELECT subscription_id, name, log_number, cursor_text, cursor_number, cursor_created_at, cursor_at, quiet_read_at,
      covered_until, states_last_event, audited_at
    FROM earlier_subscriptions;
  DROP TABLE earlier_subscriptions;

  INSERT INTO desired_states (dataset_id, refreshes_requested, refreshes_done, resync_number, retirement_approved)
    SELECT dataset_id, looks_asked, looks_done, resync_number, retirement_approved FROM wants;
  INSERT INTO desired_members
    SELECT dataset_id, subscription_id, is_member, event_number, decided_at, announced, reason FROM want_members;
  INSERT INTO desired_reloads
    SELECT dataset_id, subscription_id, log_number, event_number, created_at, read_at, known_version, listed_version,
      is_withdrawal
    FROM want_reloads;
  DROP TABLE want_reloads;
  DROP TABLE want_members;
  DROP TABLE wants;

  INSERT INTO suspensions
    SELECT scope_kind, scope_id, operation, status, code, message, links, held_at, key_hash FROM holds;
  DROP TABLE holds;

  INSERT INTO sync_runs SELECT line, at, kind, dataset_id, detail FROM journal;
  DROP TABLE journal;
`;

const ADD_MOVES = 'ALTER TABLE desired_states ADD COLUMN move_number INTEGER NOT NULL DEFAULT 0';

/**
 * Returns the format of a checkpoint that this program can use, or null for a database without content.
 * @throws ConfigurationError for the database of another program, and for a format that this program cannot read.
 */
export function usableFormat(database: Database.Database, path: string): number | null {
  const format = numberOf(database, 'user_version');
  if (numberOf(database, 'application_id') !== APPLICATION_ID) {
    const objects = database.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get();
    if (objects === 0 && format === 0) return null;
    throw new ConfigurationError(`${path} is an SQLite database, but not a checkpoint of feed-sync.`, {
      hint: 'Set checkpoint.path to a file of its own.',
    });
  }
  if (format > CURRENT_FORMAT) {
    throw new ConfigurationError(
      `The checkpoint ${path} has format ${format}; this program knows formats up to ${CURRENT_FORMAT}.`,
      {
        hint: 'Run the newer version of feed-sync that wrote the file, or remove the file: it is then built anew.',
      },
    );
  }
  if (format < FIRST_FORMAT) {
    throw new ConfigurationError(
      `The checkpoint ${path} has format ${format}, which no released version wrote and this program cannot read.`,
      {
        hint: 'Remove the file: feed-sync continues from the positions in the mirror, and otherwise loads everything again.',
      },
    );
  }
  return format;
}

/** Creates the tables of a new file, or migrates an older one. Another process may have done so in the meantime. */
export function migrate(database: Database.Database): void {
  const format = (): number => numberOf(database, 'user_version');
  if (format() === CURRENT_FORMAT) return;
  const step = database.transaction(() => {
    const found = format();
    if (found === CURRENT_FORMAT) return;
    if (found === FIRST_FORMAT) database.exec(COMPLETE_FIRST_FORMAT);
    const isRenamed = found !== 0 && found < FIRST_FORMAT_OF_TODAY;
    if (isRenamed) database.exec(RENAME);
    database.exec(CREATE);
    if (isRenamed) database.exec(COPY);
    else if (found !== 0 && found < FIRST_FORMAT_WITH_MOVES) database.exec(ADD_MOVES);
    database.pragma(`user_version = ${CURRENT_FORMAT}`);
  });
  durable('checkpoint.migrate', () => step.immediate());
}

function numberOf(database: Database.Database, pragma: string): number {
  return Number(database.pragma(pragma, { simple: true }));
}
