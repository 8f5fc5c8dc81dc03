/**
 * What becomes of a table's columns when changes are applied. Pure. Invariant: a column that is there keeps its name
 * in the table, its type and its values.
 */

import { assert } from '../../../lib/assert.ts';
import { columnNames } from '../../../model/naming.ts';
import type { HeldColumn } from '../../destination.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';

export interface TableAfter {
  /** In the order of the net change; each with the name that it has, or is given now. */
  readonly columns: readonly PlannedColumn[];
  readonly alteration: Alteration;
}

/**
 * - `none`: the columns stay as they are.
 * - `append`: the new columns come after all others.
 * - `rewrite`: the order of the columns changes, or no row can be addressed: the table is written anew.
 */
export type Alteration =
  | { readonly kind: 'none' }
  | { readonly kind: 'append'; readonly added: readonly PlannedColumn[] }
  | { readonly kind: 'rewrite'; readonly added: ReadonlySet<PlannedColumn> };

/** The name by which DuckDB addresses a row, unless a column has it. */
const ROW_ADDRESS = 'rowid';

/** `columns` are those of the net change. */
export function tableAfter(held: readonly HeldColumn[], columns: readonly PlannedColumn[]): TableAfter {
  const before = new Map(held.map((column) => [column.name, column]));
  const kept = new Map(held.map(({ name, columnName }) => [name, columnName]));
  const names = columnNames(
    columns.map(({ column }) => column.name),
    kept,
  );
  const after = columns.map((planned, index) => ({ ...planned, columnName: names[index] ?? '' }));
  for (const { name, type } of held) {
    const same = after.find(({ column }) => column.name === name);
    assert(same?.type === type, `changes leave the column ${JSON.stringify(name)} with its type`);
  }
  const added = after.filter(({ column }) => !before.has(column.name));
  return { columns: after, alteration: alterationOf(held, after, added) };
}

function alterationOf(
  held: readonly HeldColumn[],
  after: readonly PlannedColumn[],
  added: readonly PlannedColumn[],
): Alteration {
  const staysFirst = held.every(({ columnName }, index) => after[index]?.columnName === columnName);
  const canAddress = after.every(({ columnName }) => columnName.toLowerCase() !== ROW_ADDRESS);
  if (!staysFirst || !canAddress) return { kind: 'rewrite', added: new Set(added) };
  return added.length === 0 ? { kind: 'none' } : { kind: 'append', added };
}
