/** The spooled pages of a backlog in their order, and how many of them are read at once. */

import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { present } from '../../lib/assert.ts';
import type { ChangesUnit } from '../destination.ts';

/**
 * DuckDB holds the text of all pages of one read in memory, and some times as much while it takes them apart. A page
 * that is larger is read alone.
 */
export const MAX_BYTES_AT_ONCE = 16_000_000;

export interface Page {
  readonly path: string;
  readonly version: number;
  /** The position of its version among those of the backlog, from 0. */
  readonly step: number;
  /** From 1, among those of its version. */
  readonly number: number;
  /** From 1, among those of the whole backlog. */
  readonly position: number;
}

export interface Pages {
  /** Those of all versions, oldest first. */
  readonly all: readonly Page[];
  /** The same, cut into reads. */
  readonly batches: readonly (readonly Page[])[];
}

export async function spooledPages({ versions }: ChangesUnit): Promise<Pages> {
  const listed = versions.flatMap(({ version, pages }, step) =>
    pages.map((path, index) => ({ path, version, step, number: index + 1 })),
  );
  const all = listed.map((page, index) => ({ ...page, position: index + 1 }));
  const batches: Page[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const page of all) {
    const { size } = await stat(page.path);
    bytes += size;
    if (bytes > MAX_BYTES_AT_ONCE) {
      batches.push([]);
      bytes = size;
    }
    batches.at(-1)?.push(page);
  }
  return { all, batches };
}

/** The page at a position, from 1. */
export function pageAt({ all }: Pages, position: number): Page {
  return present(all[position - 1], 'a change is on a page');
}

/** The path of a file of ours beside the first page. */
export function besidePages({ all }: Pages, name: string): string {
  return join(dirname(present(all[0], 'recorded changes have at least one page').path), name);
}
