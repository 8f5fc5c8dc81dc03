/** F18: a page of any size is cut into pages with the same changes, wherever its text is cut. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { MAX_BYTES_AT_ONCE, splitPage, spooledBytes, spooledPages } from '../../src/staging/changes/pages.ts';
import { SEED } from '../support/seed.ts';

const WRAPPING = '{"changes":[]}'.length;

it('splits a page into parts with all changes in order, as large as they may be but no larger', () => {
  const change = fc.record({
    op: fc.constant('added'),
    row: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
  });
  const page = fc.record({
    before: fc.jsonValue(),
    changes: fc.array(change, { maxLength: 12 }),
    nested: fc.constant({ changes: [1, 2] }),
    after: fc.constantFrom('changes', '"],}', '\\"'),
  });
  fc.assert(
    fc.property(
      page,
      fc.integer({ min: 1, max: 400 }),
      fc.integer({ min: 0, max: 2 }),
      (written, maxBytes, indent) => {
        const parts = splitPage(Buffer.from(JSON.stringify(written, null, indent)), maxBytes) ?? [];
        const lists = parts.map(({ content }) => JSON.parse(Buffer.from(content).toString('utf8')).changes);
        expect(lists.flat()).toEqual(JSON.parse(JSON.stringify(written.changes)));
        let before = 0;
        for (const [index, { content, changesBefore }] of parts.entries()) {
          expect(changesBefore).toBe(before);
          before += lists[index].length;
          if (lists[index].length > 1) expect(content.length).toBeLessThanOrEqual(maxBytes + WRAPPING);
          const next = parts[index + 1];
          if (next !== undefined)
            expect(bytesWithComma(content) + bytesWithComma(firstOf(next.content))).toBeGreaterThan(maxBytes);
        }
      },
    ),
    { seed: SEED, numRuns: 150 },
  );
});

it.each(['{}', '[]', '{"changes":1}', '{"rows":[1,2]}', '{"changes":[1],"changes":[2]}', ''])(
  'leaves the page %s whole',
  (page) => {
    expect(splitPage(Buffer.from(page), 1)).toBeNull();
  },
);

it('reads as many pages at once as fit, and splits only those that do not fit', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-pages-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const page = (name: string, ...sizes: readonly number[]): string => {
    const path = join(folder, name);
    writeFileSync(path, `{"changes":[${sizes.map((size) => `"${'x'.repeat(size - 3)}"`).join()}]}`);
    return path;
  };
  const wrapped = WRAPPING - 1;
  const million = MAX_BYTES_AT_ONCE / 4;
  const stated = { counts: null, rowCount: null };
  const versions = [
    {
      ...stated,
      version: 1,
      pages: [page('a', 1.5 * million - wrapped), page('b', 2.5 * million - wrapped)],
    },
    { ...stated, version: 2, pages: [page('c', million), page('d', 2 * million, 2 * million, million)] },
    { ...stated, version: 3, pages: [page('e', million)] },
  ];
  const { all, batches } = await spooledPages(versions);
  const placed = batches.map((batch) =>
    batch.map(({ version, number, changesBefore }) => `${version}.${number} from ${changesBefore}`),
  );
  expect(placed).toEqual([
    ['1.1 from 0', '1.2 from 0'],
    ['2.1 from 0'],
    ['2.2 from 0'],
    ['2.2 from 2', '3.1 from 0'],
  ]);
  expect(all).toEqual(batches.flat());
  expect(all.map(({ step }) => step)).toEqual([0, 0, 1, 1, 1, 2]);
  expect(all.map(({ position }) => position)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(await spooledBytes(versions)).toBe(11 * million + 3 * wrapped);
});

/** What a part takes of the page: its changes, and the comma or bracket before them. */
function bytesWithComma(content: Uint8Array): number {
  return content.length - WRAPPING + 1;
}

function firstOf(content: Uint8Array): Uint8Array {
  const [first] = splitPage(Buffer.from(content), 1) ?? [];
  return first?.content ?? content;
}
