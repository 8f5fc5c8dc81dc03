/**
 * Finds the numbers in the cells of a page as they are written. JSON.parse would hide some: where an object has a member twice, DuckDB
 * keeps both values and JSON.parse only the last. Pure.
 */

export interface WrittenNumber {
  /** Of the change that it belongs to, from 1. */
  readonly line: number;
  /** The name of the column, as the row or the key has it. */
  readonly column: string;
  readonly written: string;
}

/** A quote begins a text, which is skipped: what stands in it is none of these. */
const MARK = /["{}[\],]|-?\d[-+.\deE]*/g;
const COLON = /\s*:/y;

/** How many lists and objects are around the members of a page, its changes, the members of a change, and the cells of its row or key. */
const [IN_PAGE, IN_CHANGES, IN_CHANGE, IN_ROW] = [1, 2, 3, 4] as const;
const CELLS = ['row', 'key'];

/** Yields the numbers for which `isSought` is true. The page is valid JSON. */
export function* writtenNumbers(
  page: string,
  isSought: (written: string) => boolean,
): Generator<WrittenNumber> {
  const mark = new RegExp(MARK);
  const place = new Place();
  for (let found = mark.exec(page); found !== null; found = mark.exec(page)) {
    const [token] = found;
    if (token === '"') {
      mark.lastIndex = endOfText(page, found.index);
      if (isName(page, mark.lastIndex)) place.name(page.slice(found.index, mark.lastIndex));
    } else if ('{}[],'.includes(token)) place.pass(token);
    else if (isSought(token) && place.isInCell()) yield { ...place.cell(), written: token };
  }
}

/** Where in a page a mark is. */
class Place {
  #depth = 0;
  #line = 1;
  /** By depth, the names that were last, as they are written. */
  readonly #names: string[] = [];

  name(written: string): void {
    if (this.#depth <= IN_ROW) this.#names[this.#depth] = written;
  }

  /** Passes a bracket or a comma. */
  pass(token: string): void {
    if (token === ',') {
      if (this.#depth === IN_CHANGES) this.#line += 1;
    } else this.#depth += token === '{' || token === '[' ? 1 : -1;
    if (this.#depth === IN_PAGE) this.#line = 1;
  }

  isInCell(): boolean {
    if (this.#depth < IN_ROW || this.#nameAt(IN_PAGE) !== 'changes') return false;
    return CELLS.includes(this.#nameAt(IN_CHANGE));
  }

  cell(): Pick<WrittenNumber, 'line' | 'column'> {
    return { line: this.#line, column: this.#nameAt(IN_ROW) };
  }

  #nameAt(depth: number): string {
    return String(JSON.parse(this.#names[depth] ?? '""'));
  }
}

/** Where the text ends that begins at `start`: behind its last quote. */
function endOfText(page: string, start: number): number {
  for (let end = page.indexOf('"', start + 1); end >= 0; end = page.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (page[end - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return end + 1;
  }
  return page.length;
}

function isName(page: string, end: number): boolean {
  COLON.lastIndex = end;
  return COLON.test(page);
}
