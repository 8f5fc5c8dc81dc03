/** Schema versions of a dataset (the service's interface, Resources: Schema version record, SchemaChange). */

import type { Column } from './column.ts';

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
