/** The nesting of JSON is counted as it is, wherever the stream is cut into chunks. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonDepth } from '../../src/feed/http/json-body.ts';

const SEED = 20_260_101;

function isWithin(maxDepth: number, text: string, chunkBytes: number): boolean {
  const bytes = Buffer.from(text);
  const depth = new JsonDepth(maxDepth);
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    if (!depth.accepts(bytes.subarray(start, start + chunkBytes))) return false;
  }
  return true;
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe('JsonDepth', () => {
  it(`agrees with the document, in chunks of any size (seed ${SEED})`, () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 9 }), (value, chunkBytes) => {
        const depth = depthOf(value);
        const text = JSON.stringify(value);
        expect(isWithin(depth, text, chunkBytes)).toBe(true);
        if (depth > 0) expect(isWithin(depth - 1, text, chunkBytes)).toBe(false);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it.each(['"[[["', '"\\"[[["', '"\\\\"', '["\\\\","[["]', '"{\\u005b"', '"é[☃["'])(
    '%s opens nothing in its texts',
    (text) => {
      for (const chunkBytes of [1, 2, 100]) expect(isWithin(1, text, chunkBytes)).toBe(true);
    },
  );

  it('counts lists, objects and members, and none in texts', () => {
    const depth = new JsonDepth(10);
    for (const chunk of ['{"a":[{},', '{}],"[:{', '":[1,2]}']) depth.accepts(Buffer.from(chunk));
    expect(depth.parts).toBe(7);
  });
});
