/** Columns of a dataset (the service's interface, Resources: Column). */

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
export interface UnknownColumnType {
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
