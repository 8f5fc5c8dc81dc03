/** Small tables to publish through the fixture feed. */

import type { Change, Content, Row, SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';

export function column(name: string, type: SourceColumn['type'], nullable = true): SourceColumn {
  return { name, type, nullable };
}

/** A key `id` and an integer `amount`. */
export const SMALL_SCHEMA: SourceSchema = {
  schemaVersion: '1',
  columns: [column('id', 'string', false), column('amount', 'integer')],
  keyColumns: ['id'],
  envelopeColumns: [],
};

export function smallContent(
  rows: readonly Row[],
  changes: readonly Change[] | null = [],
  schema: SourceSchema = SMALL_SCHEMA,
): Content {
  return { schema, rowCount: rows.length, rows: () => rows, changes };
}

/** `count` rows `r00000`, `r00001`, … with amounts from 0. */
export function numberedRows(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => [`r${String(index).padStart(5, '0')}`, index]);
}
