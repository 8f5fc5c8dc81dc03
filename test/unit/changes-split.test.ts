/** F18: a page of any size is cut into pages with the same changes, wherever its text is cut. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { splitPage } from '../../src/staging/changes/pages.ts';
import { SEED } from '../support/seed.ts';

it('has all changes in their order, none in parts, and no part is too large that can be smaller', () => {
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
          if (lists[index].length > 1)
            expect(content.length).toBeLessThanOrEqual(maxBytes + '{"changes":[]}'.length);
        }
      },
    ),
    { seed: SEED, numRuns: 150 },
  );
});

it.each(['{}', '[]', '{"changes":1}', '{"rows":[1,2]}', '{"changes":[1],"changes":[2]}', ''])(
  'leaves %s alone',
  (page) => {
    expect(splitPage(Buffer.from(page), 1)).toBeNull();
  },
);
