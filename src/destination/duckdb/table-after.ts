/** The columns that a table has after a commit, and how it gets them. Pure. */

import type { ObservedColumn } from '../../model/write-jobs.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { columnsAfter } from '../catalog/columns.ts';
import { type FoundTable, hasAddresses } from './tables.ts';
import type { NetRows } from './write-net-change.ts';

export interface TableAfter {
  /** In the order of the net change; each column has its existing or its new name. */
  readonly columns: readonly PlannedColumn[];
  readonly alteration: Alteration;
}

/**
 * The alteration of a table:
 * - `none`: the columns stay as they are.
 * - `append`: the new columns come after all others.
 * - `rewrite`: the order of the columns changes, no row can be addressed, or most rows are touched: the table is written again.
 */
export type Alteration =
  | { readonly kind: 'none' }
  | { readonly kind: 'append'; readonly added: readonly PlannedColumn[] }
  | {
      readonly kind: 'rewrite';
      readonly added: ReadonlySet<PlannedColumn>;
      /** True: the columns stay as they are, in their order. */
      readonly isOfSameColumns: boolean;
    };

/** Returns whether the hashes of rows that are not touched stay as they are. */
export function keepsColumns(alteration: Alteration): boolean {
  return alteration.kind === 'none' || (alteration.kind === 'rewrite' && alteration.isOfSameColumns);
}

/** Returns the table after a net change. `columns` are the columns of the net change. */
export function tableAfter(
  observed: readonly ObservedColumn[],
  columns: readonly PlannedColumn[],
): TableAfter {
  const before = new Set(observed.map(({ name }) => name));
  const after = columnsAfter(observed, columns);
  const added = after.filter(({ column }) => !before.has(column.name));
  return { columns: after, alteration: alterationOf(observed, after, added) };
}

function alterationOf(
  observed: readonly ObservedColumn[],
  after: readonly PlannedColumn[],
  added: readonly PlannedColumn[],
): Alteration {
  const staysFirst = observed.every(({ columnName }, index) => after[index]?.columnName === columnName);
  if (!staysFirst || !hasAddresses({ columns: after })) {
    return { kind: 'rewrite', added: new Set(added), isOfSameColumns: staysFirst && added.length === 0 };
  }
  return added.length === 0 ? { kind: 'none' } : { kind: 'append', added };
}

/** Editing more than this share of the rows of a table may take longer than writing the table again. */
const MOST_EDITED = 1 / 2;

/** Tables up to this size are edited whatever the share: creating a table takes longer. */
const FEW_ROWS = 100_000;

export function rewrittenIfMuch(
  after: TableAfter,
  { rows, removals }: Pick<NetRows, 'rows' | 'removals'>,
  found: FoundTable,
): TableAfter {
  const { columns, alteration } = after;
  if (found.rowCount <= FEW_ROWS || rows + removals <= found.rowCount * MOST_EDITED) return after;
  const added = alteration.kind === 'none' ? [] : alteration.added;
  const isOfSameColumns = keepsColumns(alteration);
  return { columns, alteration: { kind: 'rewrite', added: new Set(added), isOfSameColumns } };
}
