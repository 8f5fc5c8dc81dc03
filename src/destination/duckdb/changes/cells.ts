/** The cells of a page that was parsed here rather than by DuckDB: for what DuckDB does not tell. Pure. */

export interface PageCell {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  readonly cell: unknown;
}

/** The cells of all rows and keys. What is no page, no row and no key has none. */
export function* pageCells(page: unknown): Generator<PageCell> {
  for (const [index, change] of Object.entries(Object(Object(page).changes))) {
    const members: readonly unknown[] = Object.values(Object(change));
    for (const [column, cell] of members.flatMap((cells) => Object.entries(Object(cells)))) {
      yield { line: Number(index) + 1, column, cell };
    }
  }
}

/** A value and all that is inside it, names included. Without recursion: a value may be nested deeply. */
export function* valuesIn(cell: unknown): Generator<unknown> {
  const pending = [cell];
  while (pending.length > 0) {
    const value = pending.pop();
    yield value;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, member] of Object.entries(value)) pending.push(member, name);
  }
}
