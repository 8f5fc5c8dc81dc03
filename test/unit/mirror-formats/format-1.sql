-- A mirror as feed-sync wrote it in format 1: one live table, one that was retired and kept.
CREATE SCHEMA feed_sync;
CREATE TABLE feed_sync.names (dataset_id VARCHAR, table_name VARCHAR);
CREATE TABLE feed_sync.datasets (dataset_id VARCHAR, table_name VARCHAR, version BIGINT, schema_version VARCHAR, row_count BIGINT, key_columns VARCHAR[], snapshot_version BIGINT, snapshot_digest VARCHAR, published_at TIMESTAMPTZ, applied_at TIMESTAMPTZ);
CREATE TABLE feed_sync.reloads (dataset_id VARCHAR, subscription_id VARCHAR, event_number BIGINT);
CREATE TABLE feed_sync.columns (dataset_id VARCHAR, "position" BIGINT, "name" VARCHAR, column_name VARCHAR, "type" VARCHAR, "nullable" BOOLEAN, description VARCHAR, source_name VARCHAR, "role" VARCHAR, crs VARCHAR);
CREATE TABLE feed_sync.history (dataset_id VARCHAR, from_version BIGINT, to_version BIGINT, kind VARCHAR, added BIGINT, changed BIGINT, removed BIGINT, applied_at TIMESTAMPTZ);
CREATE TABLE feed_sync.archived (dataset_id VARCHAR, table_name VARCHAR, version BIGINT, reason VARCHAR, archived_at TIMESTAMPTZ);
CREATE TABLE feed_sync.meta ("key" VARCHAR, "value" VARCHAR);
INSERT INTO feed_sync.meta VALUES ('format_version', '1'), ('service_origin', 'https://feed.example'), ('subscription_id', 'sub_1'), ('subscription_id', 'sub_2');
INSERT INTO feed_sync.names VALUES ('parcels', 'parcels'), ('zoning', 'zoning');
INSERT INTO feed_sync.datasets VALUES ('parcels', 'parcels', 4, '1', 2, ['id'], 3, 'digest-3', '2026-01-02T03:04:05Z', '2026-01-02T03:05:00Z');
INSERT INTO feed_sync.reloads VALUES ('parcels', 'sub_1', 9223372036854775807), ('parcels', 'sub_2', 7);
INSERT INTO feed_sync.columns VALUES ('parcels', 1, 'id', 'id', 'integer', false, NULL, NULL, 'key', NULL), ('parcels', 2, 'owner', 'owner', 'string', true, 'Who owns it', NULL, 'data', NULL);
INSERT INTO feed_sync.history VALUES ('zoning', NULL, 1, 'snapshot', NULL, NULL, NULL, '2026-01-01T00:00:00Z'), ('parcels', NULL, 3, 'snapshot', NULL, NULL, NULL, '2026-01-01T00:00:00Z'), ('zoning', 1, 1, 'retired', 0, 0, 0, '2026-01-02T00:00:00Z'), ('parcels', 3, 4, 'changes', 1, 0, 0, '2026-01-02T03:05:00Z');
INSERT INTO feed_sync.archived VALUES ('zoning', 'zoning', 1, 'no subscription contains it', '2026-01-02T00:00:00Z');
CREATE TABLE main.parcels (id BIGINT, owner VARCHAR);
INSERT INTO main.parcels VALUES (1, 'Ann'), (2, NULL);
CREATE TABLE main.zoning (id BIGINT);
