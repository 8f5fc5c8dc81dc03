/** Subscriptions of the workspace (the service's interface, Resources: Subscription record). */

import type { EventId } from './event.ts';

export interface Subscription {
  readonly id: string;
  readonly name: string | null;
  readonly places: readonly string[];
  readonly topics: readonly string[];
  readonly datasetIds: readonly string[];
  readonly datasetCount: number | null;
  readonly lastEventId: EventId | null;
}

export interface Counts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

export interface Version {
  readonly datasetId: string;
  readonly version: number;
  /** Null when the service did not state it. Such a version can only be loaded, not reached by changes. */
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  /** Rows of the whole dataset at this version; null, and not checked, when the service did not state it. */
  readonly rowCount: number | null;
  readonly counts: Counts | null;
  readonly resyncRequired: boolean;
  readonly publishedAt: Date | null;
}

export interface Schema {
  readonly datasetId: string;
  readonly schemaVersion: string;
  /** The first dataset version with this schema, if the service states it. */
  readonly firstVersion: number | null;
  readonly columns: readonly Column[];
  /** Empty for a dataset without keys, which cannot take changes. */
  readonly keyColumns: readonly string[];
  /** The service's own fields of a row. The table has columns for them, placed after `columns`. */
  readonly envelopeColumns: readonly Column[];
  readonly changeFromPrevious: SchemaChange | null;
}

export interface SchemaChange {
  /** A kind that this program does not know counts as breaking. */
  readonly kind: 'additive' | 'breaking';
  readonly previousSchemaVersion: string | null;
  readonly keyColumnsChanged: boolean;
}

export const COLUMN_TYPES = [
  'string',
  'integer',
  'number',
  'boolean',
  'date',
  'timestamp',
  'geometry',
  'json',
] as const;

export type ColumnType = (typeof COLUMN_TYPES)[number];

/** A type that this program does not know. Only a dataset that uses the type fails, and only when it is written. */
interface UnknownColumnType {
  readonly unknown: string;
}

export interface Column {
  readonly name: string;
  readonly type: ColumnType | UnknownColumnType;
  /** The service's statement about the column, enforced only for key columns. */
  readonly nullable: boolean;
  readonly description: string | null;
  /** The column's name at the source, if the service renamed it. */
  readonly sourceName: string | null;
}
