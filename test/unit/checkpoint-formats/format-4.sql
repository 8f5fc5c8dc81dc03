PRAGMA application_id = 1718843758;
PRAGMA user_version = 4;
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
    cursor_at TEXT NOT NULL, quiet_read_at TEXT,
    CHECK ((cursor_text IS NULL) = (cursor_number IS NULL))
  ) STRICT, WITHOUT ROWID;
CREATE TABLE wants (
    dataset_id TEXT PRIMARY KEY,
    at_least_version INTEGER,
    looks_asked INTEGER NOT NULL DEFAULT 0,
    looks_done INTEGER NOT NULL DEFAULT 0 CHECK (looks_done <= looks_asked)
  , resyncs_asked INTEGER NOT NULL DEFAULT 0, resyncs_done INTEGER NOT NULL DEFAULT 0 CHECK (resyncs_done <= resyncs_asked), retirement_approved INTEGER NOT NULL DEFAULT 0 CHECK (retirement_approved IN (0, 1))) STRICT, WITHOUT ROWID;
CREATE TABLE want_members (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    is_member INTEGER NOT NULL CHECK (is_member IN (0, 1)),
    event_number INTEGER, reason TEXT,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE want_reloads (
    dataset_id TEXT NOT NULL REFERENCES wants ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    event_number INTEGER NOT NULL, asked_at TEXT NOT NULL DEFAULT '1970-01-01T00:00:00.000Z',
    PRIMARY KEY (dataset_id, subscription_id)
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
CREATE TABLE forgotten (subscription_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
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
CREATE TABLE hook (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    told_lines INTEGER NOT NULL,
    told_last TEXT NOT NULL,
    told_at TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT,
    message TEXT
  ) STRICT;
INSERT INTO contract VALUES (1, '/v1/{datasetId}/manifest', 'o''ther');
INSERT INTO subscriptions VALUES ('s', 'Parcels', 'evt_9223372036854775807', 9223372036854775807, '2026-03-01T12:00:00.000Z', NULL);
INSERT INTO subscriptions VALUES ('t', NULL, NULL, NULL, '2026-03-01T12:00:00.000Z', NULL);
INSERT INTO subscriptions VALUES ('u', 'Quiet', 'evt_9', 9, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z');
INSERT INTO wants VALUES ('d', 7, 2, 1, 0, 0, 0);
INSERT INTO wants VALUES ('e', NULL, 0, 0, 0, 0, 1);
INSERT INTO wants VALUES ('f', NULL, 0, 0, 2, 1, 0);
INSERT INTO wants VALUES ('g', NULL, 0, 0, 0, 0, 1);
INSERT INTO want_members VALUES ('d', 's', 1, 3, NULL);
INSERT INTO want_members VALUES ('e', 's', 0, NULL, NULL);
INSERT INTO want_members VALUES ('f', 'u', 1, 1, NULL);
INSERT INTO want_members VALUES ('g', 'u', 0, 7, 'it''s left');
INSERT INTO want_reloads VALUES ('d', 's', 9223372036854775807, '2026-03-01T12:00:00.000Z');
INSERT INTO want_reloads VALUES ('f', 'u', 8, '2026-03-01T12:00:00.000Z');
INSERT INTO failures VALUES ('d', 'DataError', 'row 3 has no key', 'look at row 3', 'digest', 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:01:00.000Z');
INSERT INTO journal VALUES (1, '2026-03-01T12:00:00.000Z', 'loaded', 'd', 'version 7');
INSERT INTO forgotten VALUES ('gone');
INSERT INTO holds VALUES ('dataset', 'd', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO holds VALUES ('retirement', '', 'list versions', NULL, 'mass_retirement', 'no', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO holds VALUES ('subscription', 's', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO holds VALUES ('workspace', '', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO webhooks VALUES ('wh_''1', 'https://receiver.example/webhook', '2026-03-01T12:00:00.000Z');
INSERT INTO deliveries VALUES (1, 'msg_''1', '2026-03-01T12:00:00.000Z');
INSERT INTO hook VALUES (1, 7, 'parcels'' changes 3', '2026-03-01T12:00:00.000Z', 1, '2026-03-01T12:00:00.000Z', 'it ended with 1: can''t');
