/** The names of the schemas in PostgreSQL that hold what feed-sync knows of its tables, and of the catalog's tables. */

import { identifier } from '../../../staging/engine/sql.ts';
import type { CatalogTable } from '../../catalog/tables.ts';

export const CATALOG_SCHEMA = 'feed_sync';

/** The schema of live and kept tables, where no other is configured. */
export const LIVE_SCHEMA = 'feeds';
/** The schema of retired tables. */
export const ARCHIVE_SCHEMA = 'archived';
/** The schema of undo logs and of frozen tables. */
export const HISTORY_SCHEMA = 'history';

/** A table, a view or a function by its names. */
export interface Named {
  readonly schemaName: string;
  readonly tableName: string;
}

/** Where a dataset is in the database. */
export interface Place {
  /** The schema that has its table, or is to have it. */
  readonly schemaName: string;
  /**
   * True of a schema that Citus keeps on one node: only tables of one such schema are joined, so it has everything else of the dataset,
   * too.
   */
  readonly isDistributed: boolean;
}

/** Returns the schema of the undo logs and frozen tables of a dataset. */
export function historySchema({ schemaName, isDistributed }: Place): string {
  return isDistributed ? schemaName : HISTORY_SCHEMA;
}

/** Returns the schema of the retired tables of a dataset. */
export function archiveSchema({ schemaName, isDistributed }: Place): string {
  return isDistributed ? schemaName : ARCHIVE_SCHEMA;
}

/** Returns a name as the catalog keeps it: alone for an object of `usual`, else with its schema. Names that we give have no dot. */
export function recordedName({ schemaName, tableName }: Named, usual: string): string {
  return schemaName === usual ? tableName : `${schemaName}.${tableName}`;
}

/** Reads such a name. */
export function namedAs(recorded: string, usual: string): Named {
  const dot = recorded.indexOf('.');
  if (dot < 0) return { schemaName: usual, tableName: recorded };
  return { schemaName: recorded.slice(0, dot), tableName: recorded.slice(dot + 1) };
}

/** Returns the SQL name of a table, a view or a function. */
export function qualified({ schemaName, tableName }: Named): string {
  return `${identifier(schemaName)}.${identifier(tableName)}`;
}

/** A table through which instances know of each other's operators; readers have no rights on it. */
export type InstanceTable = 'requests' | 'candidates';

/** Returns the SQL name of a table in schema `feed_sync`. */
export function catalogTable(table: CatalogTable | 'lease' | InstanceTable): string {
  return `${identifier(CATALOG_SCHEMA)}.${identifier(table)}`;
}
