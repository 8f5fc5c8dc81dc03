/**
 * Turns the pages of a list by `cursor` and `nextCursor` (the service's interface, Conventions).
 *
 * Invariant: it ends. A cursor that comes again is noticed, pages are limited, and a list that moved while it was
 * read is begun anew a limited number of times.
 */

import { present } from '../lib/assert.ts';
import { formatCount } from '../lib/units.ts';
import { CommandRefusedError, RefusalError } from '../model/errors.ts';
import { isAboutKey } from './http/refusal.ts';
import { violation } from './wire/fields.ts';

/** Items of a page that we ask for; the largest number the interface allows. */
export const LIST_LIMIT = 200;
const MAX_PAGES = 10_000;
/** How often a list is begun anew because a cursor of it was refused. */
const MAX_RESTARTS = 2;

export interface PagedList<Page> {
  /** What is being done, as the end of "Could not …". */
  readonly title: string;
  /** The first page where `cursor` is null. */
  readonly read: (cursor: string | null) => Promise<Page>;
  /** Whether the pages after this one are not needed. */
  readonly isEnough?: (page: Page) => boolean;
}

/** Service time of a list that was read page by page: that of its first page. */
export function readAtOf(pages: readonly { readonly readAt: Date }[]): Date {
  return present(pages[0], 'a list has a first page').readAt;
}

/** All pages in order. @throws ContractViolationError when the list makes no progress. */
export async function readPages<Page extends { readonly nextCursor: string | null }>(
  list: PagedList<Page>,
): Promise<readonly Page[]> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      return await readOnce(list);
    } catch (error) {
      if (!(error instanceof ListMoved)) throw error;
      if (restarts >= MAX_RESTARTS) throw error.refusal;
    }
  }
}

type AnyRefusal = RefusalError | CommandRefusedError;

/** A refusal of a page that carried a cursor: the list may have moved under it. */
class ListMoved extends Error {
  readonly refusal: AnyRefusal;

  constructor(refusal: AnyRefusal) {
    super('the list moved', { cause: refusal });
    this.refusal = refusal;
  }
}

async function readOnce<Page extends { readonly nextCursor: string | null }>(
  list: PagedList<Page>,
): Promise<readonly Page[]> {
  const pages: Page[] = [];
  const seen = new Set<string>();
  let cursor: string | null = null;
  do {
    if (pages.length >= MAX_PAGES) {
      throw violation(list.title, 'nextCursor', `goes on after ${formatCount(MAX_PAGES)} pages`);
    }
    const page: Page = await readPage(list, cursor);
    pages.push(page);
    if (list.isEnough?.(page) === true) return pages;
    cursor = page.nextCursor;
    if (cursor !== null && seen.has(cursor)) {
      throw violation(list.title, 'nextCursor', 'comes a second time, so the list makes no progress');
    }
    if (cursor !== null) seen.add(cursor);
  } while (cursor !== null);
  return pages;
}

async function readPage<Page>(list: PagedList<Page>, cursor: string | null): Promise<Page> {
  try {
    return await list.read(cursor);
  } catch (error) {
    const isRefusal = error instanceof RefusalError || error instanceof CommandRefusedError;
    throw cursor !== null && isRefusal && !isAboutKey(error) ? new ListMoved(error) : error;
  }
}
