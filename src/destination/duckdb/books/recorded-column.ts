/** What is written of a column of a live table, beside its place. Pure. */

import type { PlannedColumn } from '../snapshot/table-plan.ts';

export interface RecordedColumn {
  readonly name: string;
  /** Its name in the mirror. */
  readonly columnName: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly description: string | null;
  readonly sourceName: string | null;
  readonly role: string;
  readonly crs: string | null;
}

export function recordedColumn({ column, columnName, type, role, crs }: PlannedColumn): RecordedColumn {
  const { name, nullable: isNullable, description, sourceName } = column;
  return { name, columnName, type, isNullable, description, sourceName, role, crs };
}
