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
  /** Null where the service did not say; such a version cannot be walked to, only loaded. */
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  /** Rows of the whole dataset at this version. Null where the service did not say; it is then not checked. */
  readonly rowCount: number | null;
  readonly counts: Counts | null;
  readonly resyncRequired: boolean;
  readonly publishedAt: Date | null;
}

export interface Schema {
  readonly datasetId: string;
  readonly schemaVersion: string;
  /** The first dataset version that uses this schema, where the service says. */
  readonly firstVersion: number | null;
  readonly columns: readonly Column[];
  /** Empty for a dataset without keys: it cannot take changes. */
  readonly keyColumns: readonly string[];
  /** The service's own fields of a row. Columns of the table like the others, placed after `columns`. */
  readonly envelopeColumns: readonly Column[];
  readonly changeFromPrevious: SchemaChange | null;
}

export interface SchemaChange {
  /** A kind that this program does not know is breaking. */
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

/** A type that this program does not know. It fails the dataset that uses it, when it is used, and no other. */
interface UnknownColumnType {
  readonly unknown: string;
}

export interface Column {
  readonly name: string;
  readonly type: ColumnType | UnknownColumnType;
  /** What the service says of the column. Only key columns are held to it. */
  readonly nullable: boolean;
  readonly description: string | null;
  /** The column's name at the source, where the service renamed it. */
  readonly sourceName: string | null;
}
