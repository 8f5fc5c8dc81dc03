PRAGMA application_id = 1718843758;
PRAGMA user_version = 14;
CREATE TABLE contract (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    manifest_path TEXT,
    newer_than_parameter TEXT
  ) STRICT;
CREATE TABLE subscriptions (
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
CREATE TABLE polls (
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
CREATE TABLE desired_states (
    dataset_id TEXT PRIMARY KEY,
    refreshes_requested INTEGER NOT NULL DEFAULT 0,
    refreshes_done INTEGER NOT NULL DEFAULT 0 CHECK (refreshes_done <= refreshes_requested),
    resync_number INTEGER NOT NULL DEFAULT 0,
    retirement_approved INTEGER NOT NULL DEFAULT 0 CHECK (retirement_approved IN (0, 1))
  , move_number INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE TABLE desired_members (
    dataset_id TEXT NOT NULL REFERENCES desired_states ON DELETE CASCADE,
    subscription_id TEXT NOT NULL,
    is_member INTEGER NOT NULL CHECK (is_member IN (0, 1)),
    event_number INTEGER,
    decided_at TEXT NOT NULL,
    announced INTEGER,
    reason TEXT,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE desired_reloads (
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
CREATE TABLE absences (
    subject TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('member', 'subscription', 'log', 'version', 'table')),
    subscription_id TEXT,
    dataset_id TEXT,
    version INTEGER,
    since TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
CREATE TABLE mentions (
    dataset_id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    PRIMARY KEY (dataset_id, subscription_id)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE forgotten (subscription_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE suspensions (
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
CREATE TABLE candidates (
    dataset_id TEXT PRIMARY KEY,
    content TEXT NOT NULL
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
CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_secrets (
    webhook_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    digest TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
CREATE TABLE deliveries (
    delivery_number INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    arrived_at TEXT NOT NULL
  ) STRICT;
CREATE TABLE hook (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    commit_number INTEGER NOT NULL,
    commit_mark TEXT NOT NULL,
    reported_at TEXT,
    attempts INTEGER NOT NULL,
    failed_at TEXT,
    message TEXT
  ) STRICT;
CREATE TABLE notifications (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    ledger TEXT NOT NULL
  ) STRICT;
CREATE TABLE scrub (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    began_at TEXT,
    position_table TEXT,
    position_row INTEGER,
    completed_at TEXT,
    is_examination_asked INTEGER NOT NULL CHECK (is_examination_asked IN (0, 1)),
    CHECK ((position_table IS NULL) = (position_row IS NULL))
  ) STRICT;
CREATE TABLE requests (
    request_number INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    dataset_id TEXT NOT NULL,
    command TEXT NOT NULL,
    parameters TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'begun', 'done', 'refused')),
    answer TEXT
  ) STRICT;
CREATE TABLE sync_runs (
    run_number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    dataset_id TEXT,
    detail TEXT NOT NULL
  ) STRICT;
INSERT INTO contract VALUES (1, '/v1/{datasetId}/manifest', 'o''ther');
INSERT INTO subscriptions VALUES ('s', 'Parcels', 1, 'evt_9223372036854775807', 9223372036854775807, NULL, '2026-03-01T12:00:00.000Z', NULL, NULL, 0, NULL);
INSERT INTO subscriptions VALUES ('t', NULL, 1, NULL, NULL, NULL, '2026-03-01T12:00:00.000Z', NULL, NULL, 0, NULL);
INSERT INTO subscriptions VALUES ('u', 'Quiet', 1, 'evt_9', 9, NULL, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL, 0, NULL);
INSERT INTO subscriptions VALUES ('v', 'Anew', 2, 'evt_6', 6, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL, '2026-03-01T12:00:00.000Z', 1, NULL);
INSERT INTO subscriptions VALUES ('w', NULL, 1, NULL, NULL, NULL, '2026-03-01T12:00:00.000Z', NULL, NULL, 0, NULL);
INSERT INTO polls VALUES ('', NULL, NULL, NULL, NULL, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', 'service_unavailable', 'it can''t', 'wait');
INSERT INTO polls VALUES ('s', '2026-03-01T12:00:00.000Z', 'run', 7, 'o''host', NULL, NULL, NULL, NULL, NULL);
INSERT INTO desired_states VALUES ('d', 2, 1, 0, 0, 0);
INSERT INTO desired_states VALUES ('e', 0, 0, 0, 1, 0);
INSERT INTO desired_states VALUES ('f', 0, 0, 2, 0, 2);
INSERT INTO desired_states VALUES ('g', 0, 0, 0, 1, 0);
INSERT INTO desired_states VALUES ('h', 0, 0, 0, 0, 0);
INSERT INTO desired_states VALUES ('i', 0, 0, 0, 0, 0);
INSERT INTO desired_members VALUES ('d', 's', 1, 3, '1970-01-01T00:00:00.000Z', 7, NULL);
INSERT INTO desired_members VALUES ('e', 's', 0, NULL, '1970-01-01T00:00:00.000Z', NULL, NULL);
INSERT INTO desired_members VALUES ('f', 'u', 1, 1, '1970-01-01T00:00:00.000Z', NULL, NULL);
INSERT INTO desired_members VALUES ('g', 'u', 0, 7, '1970-01-01T00:00:00.000Z', NULL, 'it''s left');
INSERT INTO desired_members VALUES ('h', 'v', 1, 2, '2026-03-01T12:00:00.000Z', 9007199254740991, NULL);
INSERT INTO desired_members VALUES ('h', 'w', 1, NULL, '2026-02-01T12:00:00.000Z', 2, NULL);
INSERT INTO desired_members VALUES ('i', 'v', 0, 4, '2026-03-01T12:00:00.000Z', NULL, 'it''s left');
INSERT INTO desired_reloads VALUES ('d', 's', 1, 9223372036854775807, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL, NULL, 0);
INSERT INTO desired_reloads VALUES ('f', 'u', 1, 8, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL, NULL, 0);
INSERT INTO desired_reloads VALUES ('h', 'v', 2, 3, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', 4, 5, 0);
INSERT INTO desired_reloads VALUES ('h', 'w', 2, 3, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL, NULL, 1);
INSERT INTO desired_reloads VALUES ('h', 'w', 1, 9223372036854775807, '2026-02-01T12:00:00.000Z', '2026-02-01T12:00:00.000Z', NULL, NULL, 0);
INSERT INTO absences VALUES ('["log","v"]', 'log', 'v', NULL, NULL, '2026-03-01T12:00:00.000Z');
INSERT INTO absences VALUES ('["member","v","h''s"]', 'member', 'v', 'h''s', NULL, '2026-03-01T12:00:00.000Z');
INSERT INTO absences VALUES ('["subscription","v"]', 'subscription', 'v', NULL, NULL, '2026-03-01T12:00:00.000Z');
INSERT INTO absences VALUES ('["table","j"]', 'table', NULL, 'j', NULL, '2026-03-01T12:00:00.000Z');
INSERT INTO absences VALUES ('["version","h",9007199254740991]', 'version', NULL, 'h', 9007199254740991, '2026-03-01T12:00:00.000Z');
INSERT INTO mentions VALUES ('e''s', 's');
INSERT INTO forgotten VALUES ('gone');
INSERT INTO suspensions VALUES ('dataset', 'd', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO suspensions VALUES ('retirement', '', 'list versions', NULL, 'mass_retirement', 'no', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO suspensions VALUES ('subscription', 's', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO suspensions VALUES ('workspace', '', 'list versions', 403, 'outside_coverage', 'it is "not" distributable', '[["settings","https://app.example/settings"]]', '2026-03-01T12:00:00.000Z', 'hash-of-the-key');
INSERT INTO candidates VALUES ('parcels', '{"candidate":{"datasetId":"parcels","base":"[1,1,\"837815758f6b79b65c3607c3cebc58b8c964ff2209c18c7a74edc1b32f010db5\",\"2026-03-01T12:00:00.000Z\"]","version":2,"judged":{"digest":"3f9a1c2000000000000000000000000000000000000000000000000000000000","counts":{"before":1000,"after":402,"added":2,"changed":3,"removed":600,"isByKey":true},"keys":{"added":[["n1"],["n2"]],"changed":[["c1","east"]],"removed":[["r1"],["r''2"]]}},"since":{"$time":"2026-03-01T12:00:00.000Z"},"approvedAt":null,"identity":"version 2","content":{"kind":"snapshot","listed":{"subscriptionId":"sub_1","logNumber":1,"through":null,"watermark":{"kind":"number","through":{"$integer":"4611686018427387904"}},"readAt":{"$time":"2026-03-01T12:00:00.000Z"},"entry":{"datasetId":"parcels","version":2,"schemaVersion":"1","rowCount":10,"files":[{"url":"https://files.example/parcels","bytes":100,"rowCount":10,"sha256":"7632000000000000000000000000000000000000000000000000000000000000"}]}},"reloads":{"$map":[["sub_1",{"logNumber":1,"eventNumber":{"$integer":"7"},"createdAt":{"$time":"2026-03-01T12:00:00.000Z"}}]]},"files":[{"keptAs":"a.parquet","name":"part-0.parquet","bytes":100,"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","rowCount":4}]},"alike":["version 2"],"later":[]}}');
INSERT INTO failures VALUES ('d', 'data_invalid', 'row 3 has no key', 'look at row 3', 'digest', 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:01:00.000Z');
INSERT INTO webhooks VALUES ('wh_''1', 'https://receiver.example/webhook', '2026-03-01T12:00:00.000Z');
INSERT INTO webhooks VALUES ('wh_2', 'https://receiver.example/other', '2026-03-01T12:00:00.000Z');
INSERT INTO webhook_secrets VALUES ('wh_2', '/etc/o''ther', 'd1');
INSERT INTO deliveries VALUES (1, 'msg_''1', '2026-03-01T12:00:00.000Z');
INSERT INTO hook VALUES (1, 7, 'parcels'' changes 3', '2026-03-01T12:00:00.000Z', 1, '2026-03-01T12:00:00.000Z', 'it ended with 1: can''t');
INSERT INTO notifications VALUES (1, '{"sent":{"suspended it''s":{"at":"2026-03-01T12:00:00.000Z","keys":["dataset d"]}},"pending":{"damaged":{"items":[{"subject":"table d","text":"a part of it cannot be read"}],"count":2}}}');
INSERT INTO scrub VALUES (1, '2026-03-01T12:00:00.000Z', 'main.it''s', 9007199254740991, '1970-01-01T00:00:00.007Z', 1);
INSERT INTO sync_runs VALUES (1, '2026-03-01T12:00:00.000Z', 'loaded', 'd', 'version 7');
