/** The spooled pages of a backlog in their order, and how many of them are read at once. */

import { readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { present } from '../../../lib/assert.ts';
import { replaceFile } from '../../../lib/files.ts';
import type { VersionChanges } from '../../destination.ts';
import { splitPage } from './split.ts';

/**
 * DuckDB holds the text of all pages of one read in memory, and up to thirty times as much of a single page while it
 * takes it apart: 150 MB of one of this size. A larger one is cut into parts.
 */
export const MAX_BYTES_AT_ONCE = 4_000_000;

/** A page, or a part of one, as it is read. */
export interface Page {
  readonly path: string;
  readonly version: number;
  /** The position of its version among all whose pages are read, from 0. */
  readonly step: number;
  /** From 1, among those of its version. */
  readonly number: number;
  /** Of a part: how many changes of the page come before its own. */
  readonly changesBefore: number;
  /** From 1, among all that are read. */
  readonly position: number;
}

export interface Pages {
  /** Those of all versions, oldest first. */
  readonly all: readonly Page[];
  /** The same, cut into reads. */
  readonly batches: readonly (readonly Page[])[];
}

/** Of versions in their order. */
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

/** How many bytes the pages of versions have. */
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
    await replaceFile('destination.split-page', partPath, content);
    written.push({ path: partPath, changesBefore, size: content.length });
  }
  return written;
}

/** The page at a position, from 1. */
export function pageAt({ all }: Pages, position: number): Page {
  return present(all[position - 1], 'a change is on a page');
}

/** The path of a file of ours beside the first page. */
export function besidePages(versions: readonly Pick<VersionChanges, 'pages'>[], name: string): string {
  const [first] = versions.flatMap(({ pages }) => pages);
  return join(dirname(present(first, 'recorded changes have at least one page')), name);
}
