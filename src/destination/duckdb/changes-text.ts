/**
 * Finds what JSON can say and no database can hold: half of a character (a lone surrogate), which makes a whole page
 * unreadable to DuckDB without a word about where. Only for the message, once a page is known to be unreadable. Pure.
 */

export interface IllFormed {
  /** From 1. */
  readonly line: number;
  /** The column whose value or name it is. */
  readonly column: string;
  readonly value: string;
}

/** The first ill-formed text in the rows and keys of a page; null where there is none, or no page. */
export function findIllFormed(pageText: string): IllFormed | null {
  const changes: readonly unknown[] = Object(Object(parse(pageText)).changes);
  for (const [index, change] of Object.entries(changes)) {
    const members: readonly unknown[] = Object.values(Object(change));
    for (const [column, cell] of members.flatMap((cells) => Object.entries(Object(cells)))) {
      const value = column.isWellFormed() ? illFormedIn(cell) : column;
      if (value !== null) return { line: Number(index) + 1, column, value };
    }
  }
  return null;
}

/** Walks without recursion: a value may be nested deeply. */
function illFormedIn(cell: unknown): string | null {
  const pending = [cell];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string' && !value.isWellFormed()) return value;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, member] of Object.entries(value)) pending.push(member, name);
  }
  return null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
