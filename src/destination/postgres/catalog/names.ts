/** The names of the schemas in PostgreSQL that hold what feed-sync knows of its tables, and of the catalog's tables. */

import { identifier } from '../../../staging/engine/sql.ts';
import type { CatalogTable } from '../../catalog/tables.ts';

export const CATALOG_SCHEMA = 'feed_sync';

/** The schema of undo logs and of frozen tables. */
export const HISTORY_SCHEMA = 'history';

/** A table through which instances know of each other's operators; readers have no rights on it. */
export type InstanceTable = 'requests' | 'candidates';

/** Returns the SQL name of a table in schema `feed_sync`. */
export function catalogTable(table: CatalogTable | 'lease' | InstanceTable): string {
  return `${identifier(CATALOG_SCHEMA)}.${identifier(table)}`;
}
