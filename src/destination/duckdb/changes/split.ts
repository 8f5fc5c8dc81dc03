/**
 * Cuts a large page into smaller ones with the same changes in the same order. DuckDB needs up to thirty times the
 * bytes of a JSON text while it takes it apart, so a page of some megabytes is more than it can have. Pure.
 */

export interface PagePart {
  /** A page of its own, with nothing but its changes. */
  readonly content: Uint8Array;
  /** How many changes of the page come before those of this part. */
  readonly changesBefore: number;
}

const BACKSLASH = 0x5c;

type Kind = 'text' | 'opening' | 'closing' | 'comma';
const KINDS: readonly (Kind | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  if ('[{'.includes(character)) return 'opening';
  if (']}'.includes(character)) return 'closing';
  return character === '"' ? 'text' : character === ',' ? 'comma' : undefined;
});
const QUOTE = KINDS.indexOf('text');
const CHANGES = '"changes"';

/** Parts of at most `maxBytes`, but for a change that is larger; null where the text has not one list of changes. */
export function splitPage(page: Buffer, maxBytes: number): readonly PagePart[] | null {
  const edges = edgesOfChanges(page);
  if (edges === null) return null;
  const parts: PagePart[] = [];
  let first = 0;
  for (let index = 1; index < edges.length; index += 1) {
    const isLast = index === edges.length - 1;
    if (!isLast && bytesBetween(edges, first, index + 1) <= maxBytes) continue;
    const changes = page.subarray((edges[first] ?? 0) + 1, edges[index]);
    const content = Buffer.concat([Buffer.from(`{${CHANGES}:[`), changes, Buffer.from(']}')]);
    parts.push({ content, changesBefore: first });
    first = index;
  }
  return parts;
}

function bytesBetween(edges: readonly number[], from: number, to: number): number {
  return (edges[to] ?? 0) - (edges[from] ?? 0);
}

/** Where the list of changes begins, the commas in it, and where it ends. */
function edgesOfChanges(page: Buffer): readonly number[] | null {
  let edges: number[] | null = null;
  for (const { at, kind, depth, name } of structureOf(page)) {
    if (name !== CHANGES) continue;
    if (depth === 1 && kind === 'opening') {
      if (edges !== null) return null;
      edges = [at];
    } else if (depth === 1 ? kind === 'closing' : depth === 2 && kind === 'comma') {
      edges?.push(at);
    }
  }
  return edges;
}

interface Mark {
  readonly at: number;
  readonly kind: Kind;
  /** How many lists and objects are around it. */
  readonly depth: number;
  /** The member of the page that it belongs to, as it is written. */
  readonly name: string;
}

/** The brackets and commas that are not nested deeper than the changes. */
function* structureOf(page: Buffer): Generator<Mark> {
  let depth = 0;
  let name = '';
  for (let at = 0; at < page.length; at += 1) {
    const kind = KINDS[page[at] ?? 0];
    if (kind === undefined) continue;
    if (kind === 'text') {
      const end = endOfText(page, at);
      if (depth === 1) name = page.toString('utf8', at, end + 1);
      at = end;
      continue;
    }
    if (kind === 'closing') depth -= 1;
    if (depth <= 2) yield { at, kind, depth, name };
    if (kind === 'opening') depth += 1;
  }
}

function endOfText(page: Buffer, start: number): number {
  for (let end = page.indexOf(QUOTE, start + 1); end >= 0; end = page.indexOf(QUOTE, end + 1)) {
    let backslashes = 0;
    while (page[end - 1 - backslashes] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return page.length;
}
