/** Orders the spooled pages of a backlog, and limits how many of them are read at once. */

import { readFile, stat } from 'node:fs/promises';
import { present } from '../../lib/assert.ts';
import { writeScratch } from '../../lib/files.ts';
import { BadChangesError } from '../../model/errors.ts';
import type { ChangesJob, VersionChanges } from '../../model/write-jobs.ts';

/**
 * DuckDB holds the text of all pages of one read in memory, and up to thirty times a page's size while parsing that page: 150
 * MB for a page of this size. Larger pages are cut into parts.
 */
export const MAX_BYTES_AT_ONCE = 4_000_000;

/** A page, or a part of one. */
export interface Page {
  readonly path: string;
  readonly version: number;
  /** The position of the page's version among all versions, from 0. */
  readonly step: number;
  /** The number of the page within its version, from 1. */
  readonly number: number;
  /** For a part of a page: the number of changes in earlier parts. */
  readonly changesBefore: number;
  /** The number of the page among all pages, from 1. */
  readonly position: number;
}

export interface Pages {
  /** The pages of all versions, oldest first. */
  readonly all: readonly Page[];
  /** The same pages, grouped into reads. */
  readonly batches: readonly (readonly Page[])[];
}

/** Returns the pages of the versions, in order. */
export async function spooledPages(versions: readonly VersionChanges[]): Promise<Pages> {
  const all: Page[] = [];
  const batches: Page[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const [step, { version, pages }] of versions.entries()) {
    for (const [index, path] of pages.entries()) {
      for (const { size, ...part } of await partsOf(path)) {
        const page = { ...part, version, step, number: index + 1, position: all.length + 1 };
        bytes += size;
        if (bytes > MAX_BYTES_AT_ONCE) {
          batches.push([]);
          bytes = size;
        }
        all.push(page);
        batches.at(-1)?.push(page);
      }
    }
  }
  return { all, batches };
}

/** Returns the size of all pages of the versions in bytes. */
export async function spooledBytes(versions: readonly VersionChanges[]): Promise<number> {
  const sizes = versions.flatMap(({ pages }) => pages.map(async (path) => (await stat(path)).size));
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

interface Part extends Pick<Page, 'path' | 'changesBefore'> {
  readonly size: number;
}

async function partsOf(path: string): Promise<readonly Part[]> {
  const { size } = await stat(path);
  const parts = size > MAX_BYTES_AT_ONCE ? splitPage(await readFile(path), MAX_BYTES_AT_ONCE) : null;
  if (parts === null) return [{ path, changesBefore: 0, size }];
  const written: Part[] = [];
  for (const { content, changesBefore } of parts) {
    const partPath = `${path}.part-${written.length}`;
    await writeScratch('staging.split-page', partPath, content);
    written.push({ path: partPath, changesBefore, size: content.length });
  }
  return written;
}

/** Returns the page at a position, from 1. */
export function pageAt({ all }: Pages, position: number): Page {
  return present(all[position - 1], 'a change is on a page');
}

/** Returns the path of a file of this program about these versions: that of the first page, and `name`. */
export function besidePages(versions: readonly Pick<VersionChanges, 'pages'>[], name: string): string {
  const [first] = versions.flatMap(({ pages }) => pages);
  return `${present(first, 'recorded changes have at least one page')}.${name}`;
}

interface PagePart {
  /** A complete page with only the changes of the part. */
  readonly content: Uint8Array;
  /** The number of changes in earlier parts of the page. */
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

/**
 * Cuts a page into parts of at most `maxBytes`, except for a single larger change. Returns null when the text does not have
 * exactly one list of changes.
 */
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

/** Returns the positions where the list of changes begins, of its commas, and where it ends. */
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
  /** The number of enclosing lists and objects. */
  readonly depth: number;
  /** The enclosing member of the page, as written. */
  readonly name: string;
}

/** Yields the brackets and commas that are nested no deeper than the changes. */
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

interface PageCell {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  readonly cell: unknown;
}

/** Yields the cells of all rows and keys, and skips everything that is not a page, row or key. */
export function* pageCells(page: unknown): Generator<PageCell> {
  for (const [index, change] of Object.entries(Object(Object(page).changes))) {
    const members: readonly unknown[] = Object.values(Object(change));
    for (const [column, cell] of members.flatMap((cells) => Object.entries(Object(cells)))) {
      yield { line: Number(index) + 1, column, cell };
    }
  }
}

/** Yields a value and everything inside it, including names. Not recursive, because a value may be nested deeply. */
export function* valuesIn(cell: unknown): Generator<unknown> {
  const pending = [cell];
  while (pending.length > 0) {
    const value = pending.pop();
    yield value;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, member] of Object.entries(value)) pending.push(member, name);
  }
}

/** Returns the error of bad changes. A null `line` means the whole page. */
export function bad(job: ChangesJob, page: Page, line: number | null, why: string): BadChangesError {
  return new BadChangesError(job.datasetId, page.version, `${placeOf(job, page, line)}: ${why}.`);
}

export function placeOf({ datasetId }: ChangesJob, page: Page, line: number | null): string {
  const where = line === null ? '' : `, row ${page.changesBefore + line}`;
  return `Version ${page.version} of ${datasetId}, page ${page.number}${where}`;
}
