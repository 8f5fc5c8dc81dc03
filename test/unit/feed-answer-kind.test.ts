/** Only what is surely the same file goes on where it stopped (F16); the pure part of it. */

import { describe, expect, it } from 'vitest';
import { kindOfAnswer } from '../../src/feed/download/attempt-file.ts';

const PART = { etag: '"v1"', totalBytes: 30_000, fromByte: 10_000, hasDigest: true };

function kindOf(status: number, headers: Readonly<Record<string, string>>, part: typeof PART | null = null) {
  return kindOfAnswer({ status, retryAfterMs: null, header: (name) => headers[name] ?? null }, part);
}

describe('kindOfAnswer for a whole file', () => {
  it('a whole file can be continued by a tag that promises the same bytes', () => {
    const headers = { 'content-length': '30000', etag: '"v1"' };
    expect(kindOf(200, headers)).toEqual({ kind: 'whole', totalBytes: 30_000, etag: '"v1"' });
  });

  it.each(['W/"v1"', 'v1', '"v1', ''])('a whole file cannot be continued by the tag %j', (etag) => {
    expect(kindOf(200, { etag })).toEqual({ kind: 'whole', totalBytes: null, etag: null });
  });
});

describe('kindOfAnswer for a part', () => {
  it.each([
    ['bytes 10000-29999/30000', '"v1"', 'rest'],
    ['bytes 9999-29999/30000', '"v1"', 'start-over'],
    ['bytes 10000-29998/30000', '"v1"', 'start-over'],
    ['bytes 10000-29999/30001', '"v1"', 'start-over'],
    ['bytes 10000-29999/*', '"v1"', 'start-over'],
    ['bytes 10000-29999/30000', '"v2"', 'start-over'],
    ['bytes 10000-29999/30000', 'W/"v1"', 'start-over'],
  ])('judges a part with the range %s under the tag %s: %s', (range, etag, kind) => {
    expect(kindOf(206, { 'content-range': range, etag }, PART)).toEqual({ kind });
  });

  it('refuses a part that was not requested', () => {
    expect(() => kindOf(206, { 'content-range': 'bytes 10000-29999/30000' })).toThrow('answered 206');
  });
});
