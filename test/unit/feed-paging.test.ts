/** Lists: they end, whatever the service says of their next page (F25). */

import { describe, expect, it } from 'vitest';
import type { Api } from '../../src/feed/http/api.ts';
import { ListBudget, listBytesFor } from '../../src/feed/http/list-budget.ts';
import { readPages } from '../../src/feed/lists.ts';
import { ContractViolationError, RefusalError, ServiceUnavailableError } from '../../src/model/errors.ts';
import { errorOf } from '../support/feed-client.ts';

interface Page {
  readonly nextCursor: string | null;
  readonly item?: number;
}

/** Reads a list whose next cursor is a function of the cursor. */
async function read(
  next: (cursor: string | null) => Page | Error,
  isEnough = (_page: Page) => false,
  bytes = Buffer.from(''),
) {
  const cursors: (string | null)[] = [];
  const api: Api = {
    lists: new ListBudget(),
    maxJsonBytes: 64_000_000,
    async call({ query = {}, decode }) {
      const cursor = query['cursor'] === null ? null : String(query['cursor']);
      cursors.push(cursor);
      const page = next(cursor);
      if (page instanceof Error) throw page;
      return { value: decode(page), bytes, readAt: new Date(0) };
    },
    async command() {},
  };
  const decode = (json: unknown): Page => Object(json);
  const operation = { name: 'do it', title: 'do it', scope: null, path: '/', decode };
  const pages = readPages(api, operation, new AbortController().signal, { isEnough });
  return { cursors, pages: pages.then((read) => read.pages) };
}

function refusal(status: number, code: string | null): RefusalError {
  const scope = { kind: 'workspace' } as const;
  return new RefusalError({ scope, operation: 'do it', status, code, message: 'No.', links: new Map() });
}

describe('readPages', () => {
  it('reads a list page by page to the one without a cursor', async () => {
    const { cursors, pages } = await read((cursor) => ({
      nextCursor: cursor === null ? 'a' : cursor === 'a' ? 'b' : null,
    }));
    expect(await pages).toHaveLength(3);
    expect(cursors).toEqual([null, 'a', 'b']);
  });

  it('reads on after an empty page', async () => {
    const { pages } = await read((cursor) => ({ nextCursor: cursor === null ? '' : null }));
    expect((await pages).length).toBeGreaterThan(0);
  });

  it('reads a list no further than needed', async () => {
    const { cursors, pages } = await read(
      (cursor) => ({ nextCursor: `${cursor ?? ''}x` }),
      (page) => page.nextCursor === 'xx',
    );
    expect(await pages).toHaveLength(2);
    expect(cursors).toEqual([null, 'x']);
  });

  it.each([
    {
      what: 'that is too long, where less is left for it than an answer may have',
      kept: 200,
      named: 'goes on',
    },
    { what: 'with a page that is larger than any answer may be', kept: 1, named: 'larger than 64.0 MB' },
  ])('refuses a list $what, and names the limit that it exceeds', async ({ kept, named }) => {
    const tooLarge = new ContractViolationError('The answer is larger than 64.0 MB.', '', {
      code: 'response_too_large',
    });
    const next = (cursor: string | null) => (cursor === null ? { nextCursor: 'x' } : tooLarge);
    const { pages } = await read(next, () => false, Buffer.alloc(kept * 1_000_000));
    expect((await errorOf(pages)).message).toContain(named);
  });

  it('limits the bytes of all pages of a list, whatever its cursors are', async () => {
    const { cursors, pages } = await read(
      (cursor) => ({ nextCursor: `${cursor ?? ''}x` }),
      () => false,
      Buffer.alloc(64_000_000),
    );
    expect((await errorOf(pages)).message).toContain('goes on after 256.0 MB');
    expect(cursors).toHaveLength(5);
  });

  it.each([
    ['a cursor that repeats itself', () => 'same', [null, 'same']],
    [
      'cursors that go in a circle',
      (cursor: string | null) => (cursor === 'a' ? 'b' : 'a'),
      [null, 'a', 'b'],
    ],
  ])('F25 makes no progress with %s', async (_name, next, asked) => {
    const { cursors, pages } = await read((cursor) => ({ nextCursor: next(cursor) }));
    const error = await errorOf(pages);
    expect(error).toBeInstanceOf(ContractViolationError);
    expect(error).toMatchObject({ path: 'nextCursor' });
    expect(cursors).toEqual(asked);
  });

  it('ends a list that never ends after 10,000 pages', async () => {
    let number = 0;
    const { cursors, pages } = await read(() => {
      number += 1;
      return { nextCursor: String(number) };
    });
    expect((await errorOf(pages)).message).toContain('goes on after 10,000 pages');
    expect(cursors).toHaveLength(10_000);
  });

  it('R6 reads a list from its start twice after a refused cursor, then passes the refusal on', async () => {
    const { cursors, pages } = await read((cursor) =>
      cursor === null ? { nextCursor: 'a' } : refusal(400, 'invalid_cursor'),
    );
    expect(await errorOf(pages)).toBeInstanceOf(RefusalError);
    expect(cursors).toEqual([null, 'a', null, 'a', null, 'a']);
  });

  it.each([
    ['a refusal of the first page', null, refusal(404, 'not_found'), 1],
    ['a refusal of the key', 'a', refusal(401, null), 2],
    ['a lack of scope', 'a', refusal(403, 'insufficient_scope'), 2],
    ['an outage', 'a', new ServiceUnavailableError('down'), 2],
  ])('R6 does not read a list from its start after %s', async (_name, at, error, asked) => {
    const { cursors, pages } = await read((cursor) => (cursor === at ? error : { nextCursor: 'a' }));
    expect(await errorOf(pages)).toBe(error);
    expect(cursors).toHaveLength(asked);
  });
});

describe('F63 lists that are read at once', () => {
  const { signal } = new AbortController();

  it('makes a list wait for space, except the oldest, until another one ends', async () => {
    const budget = new ListBudget(100);
    const [oldest, other] = [budget.begin(), budget.begin()];
    expect([oldest.keep(60), other.keep(60)]).toEqual([true, true]);
    await oldest.room(signal);
    const order: string[] = [];
    const waits = other.room(signal).then(() => order.push('room'));
    await Promise.resolve();
    order.push('end');
    oldest.end();
    await waits;
    expect(order).toEqual(['end', 'room']);
    expect(other.keep(41)).toBe(false);
  });

  it('stops waiting for space when the program ends', async () => {
    const budget = new ListBudget(100);
    budget.begin().keep(90);
    const other = budget.begin();
    other.keep(90);
    await expect(other.room(AbortSignal.abort(new Error('ended')))).rejects.toThrow('ended');
  });

  it('bounds lists by a twelfth of the memory, a sixteenth of the heap, and 256 MB', () => {
    expect(listBytesFor(512e6, 1e9)).toBe(42_666_666);
    expect(listBytesFor(64e9, 192e6)).toBe(12_000_000);
    expect(listBytesFor(64e9, 5e9)).toBe(256_000_000);
  });
});
