/**
 * The tables of the schema `feed_sync`, which are the same in every destination: the catalog of all datasets, for the program and
 * for people.
 */

export const META_FORMAT_VERSION = 'format_version';
export const META_SERVICE_ORIGIN = 'service_origin';
/** One row for each subscription ever seen. */
export const META_SUBSCRIPTION_ID = 'subscription_id';
/** One row for each union of the configuration: a record of its view, as JSON. */
export const META_UNION = 'union';

/** One row: the last commit that the command after commits was given, as JSON. */
export const META_HOOK = 'hook';
/** One row for each part of a union, as JSON. */
export const META_UNION_PART = 'union_part';
/** One row for each damaged table of the past that was ever kept: its name with its schema. */
export const META_KEPT_DAMAGED = 'kept_damaged';
/** One row: the digest of the text that the as-of functions have. */
export const META_AS_OF_FUNCTIONS = 'as_of_functions';

export type CatalogType = 'VARCHAR' | 'BIGINT' | 'HUGEINT' | 'BOOLEAN' | 'TIMESTAMPTZ' | 'VARCHAR[]';

/** The columns of each table in order, with their types. */
const TABLES = {
  /** Every name that was ever given to a table. Names are never changed or deleted. */
  names: { dataset_id: 'VARCHAR', table_name: 'VARCHAR' },
  /** One row for each live table. */
  datasets: {
    dataset_id: 'VARCHAR',
    schema_name: 'VARCHAR',
    table_name: 'VARCHAR',
    version: 'BIGINT',
    schema_version: 'VARCHAR',
    row_count: 'BIGINT',
    key_columns: 'VARCHAR[]',
    /** The newest commit of the table. */
    commit_number: 'BIGINT',
    snapshot_version: 'BIGINT',
    snapshot_digest: 'VARCHAR',
    digest_kind: 'VARCHAR',
    loaded_through: 'VARCHAR',
    loaded_at: 'TIMESTAMPTZ',
    published_at: 'TIMESTAMPTZ',
    applied_at: 'TIMESTAMPTZ',
    /** The checksum of the rows, and the version of the hash that it was computed with. */
    checksum: 'HUGEINT',
    checksum_version: 'VARCHAR',
    /** Since when a rollback keeps the table where it is; null: the table takes new versions. */
    pinned_since: 'TIMESTAMPTZ',
  },
  /** The newest reload of each subscription that the table satisfies. */
  reloads: {
    dataset_id: 'VARCHAR',
    subscription_id: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    created_at: 'TIMESTAMPTZ',
  },
  /** Stored progress: the position of each subscription in its event log. */
  subscriptions: {
    subscription_id: 'VARCHAR',
    name: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    event_created_at: 'TIMESTAMPTZ',
    position_at: 'TIMESTAMPTZ',
    states_last_event: 'BOOLEAN',
  },
  /** Stored progress: the datasets in each subscription, and dropped ones until their table is retired. */
  members: {
    subscription_id: 'VARCHAR',
    dataset_id: 'VARCHAR',
    added_event: 'BIGINT',
    dropped_event: 'BIGINT',
  },
  /** Stored progress: the reloads that the tables do not satisfy yet. */
  owed: {
    dataset_id: 'VARCHAR',
    subscription_id: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    created_at: 'TIMESTAMPTZ',
  },
  /** The columns of the live tables. */
  columns: {
    dataset_id: 'VARCHAR',
    position: 'BIGINT',
    name: 'VARCHAR',
    column_name: 'VARCHAR',
    type: 'VARCHAR',
    nullable: 'BOOLEAN',
    description: 'VARCHAR',
    source_name: 'VARCHAR',
    role: 'VARCHAR',
    crs: 'VARCHAR',
  },
  /** One row for each commit. */
  commits: {
    commit_number: 'BIGINT',
    dataset_id: 'VARCHAR',
    from_version: 'BIGINT',
    to_version: 'BIGINT',
    kind: 'VARCHAR',
    added: 'BIGINT',
    changed: 'BIGINT',
    removed: 'BIGINT',
    applied_at: 'TIMESTAMPTZ',
    /** For a retirement: the service time of the decision. */
    service_time: 'TIMESTAMPTZ',
    /** Whether an operator has approved a retirement, or a commit that exceeded its gate; null: nothing was to be approved. */
    approved: 'BOOLEAN',
    /** For a rollback, the commit whose state it restored. */
    restored_commit: 'BIGINT',
    /** For a table with history, what a rollback to this commit restores beside the rows; else null. */
    schema_version: 'VARCHAR',
    key_columns: 'VARCHAR[]',
    row_count: 'BIGINT',
    snapshot_version: 'BIGINT',
    snapshot_digest: 'VARCHAR',
    digest_kind: 'VARCHAR',
    loaded_through: 'VARCHAR',
    loaded_at: 'TIMESTAMPTZ',
    published_at: 'TIMESTAMPTZ',
    checksum: 'HUGEINT',
    checksum_version: 'VARCHAR',
    /** The rows of the table in `reloads` and `columns`, as JSON. */
    reloads: 'VARCHAR',
    columns: 'VARCHAR',
  },
  archived: {
    dataset_id: 'VARCHAR',
    table_name: 'VARCHAR',
    version: 'BIGINT',
    reason: 'VARCHAR',
    archived_at: 'TIMESTAMPTZ',
    /** The checksum of the rows as the catalog knew them; null where it did not, and where the rows are gone. */
    checksum: 'HUGEINT',
    checksum_version: 'VARCHAR',
  },
  /** The undo logs, of live tables and of frozen ones. */
  history_logs: {
    dataset_id: 'VARCHAR',
    /** The log in schema `history`. */
    log_name: 'VARCHAR',
    /** The table of the newest state, with its schema. */
    table_name: 'VARCHAR',
    /** The first commit whose state the log can restore, and its time. */
    first_commit: 'BIGINT',
    first_time: 'TIMESTAMPTZ',
    /** The newest commit that the log lacks, its time, and why; null when the log lacks none. Earlier states are lost. */
    closed_commit: 'BIGINT',
    closed_time: 'TIMESTAMPTZ',
    closed_reason: 'VARCHAR',
    /** The commit that ended the table with these columns; null for the log of a live table. */
    frozen_commit: 'BIGINT',
    /** The entries of the log. */
    row_count: 'BIGINT',
    checksum: 'HUGEINT',
    checksum_version: 'VARCHAR',
    /** The rows of the table of a frozen log; null for the log of a live table. */
    table_checksum: 'HUGEINT',
    table_checksum_version: 'VARCHAR',
  },
  meta: { key: 'VARCHAR', value: 'VARCHAR' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, CatalogType>>>>;

export type CatalogTable = keyof typeof TABLES;

/** The columns of `commits` that a table with history fills, in order. */
export const RESTORED_COLUMNS = [
  'schema_version',
  'key_columns',
  'row_count',
  'snapshot_version',
  'snapshot_digest',
  'digest_kind',
  'loaded_through',
  'loaded_at',
  'published_at',
  'checksum',
  'checksum_version',
  'reloads',
  'columns',
] as const satisfies readonly (keyof (typeof TABLES)['commits'])[];

/** Every table, in the order of their creation. */
export const CATALOG_TABLES = Object.keys(TABLES) as readonly CatalogTable[];

/** Returns the names and types of the table's columns, in order. */
export function catalogColumns(table: CatalogTable): readonly (readonly [name: string, type: CatalogType])[] {
  return Object.entries(TABLES[table]);
}

/** The tables with rows about a subscription, besides `meta`. */
export const OF_SUBSCRIPTIONS = ['reloads', 'subscriptions', 'members', 'owed'] as const;
