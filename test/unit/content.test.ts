/** How failed content is distinguished from other content: a corrected statement makes another try worthwhile. */

import { describe, expect, it } from 'vitest';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import type { Version } from '../../src/model/records.ts';
import {
  changesContentOf,
  contentOf,
  failedBefore,
  inapplicableContentOf,
  oversizedBefore,
  oversizedContentOf,
} from '../../src/sync/plan/content.ts';
import { digestOf, entry, failure, NOW, version } from '../support/sync-values.ts';

const snapshot = entry('parcels', 3);
const [file = { url: '', bytes: 0, rowCount: 0, sha256: null }] = snapshot.files;
const other = { ...file, url: `${file.url}/2`, sha256: digestOf('second') };
const later = new Date(NOW.getTime() + 1_000);
const found = (...contents: readonly string[]) => failedBefore(failure({ contents }), later);

describe('a snapshot that failed', () => {
  const isBad = (named: ManifestEntry, publishedAt: Date | null = NOW): boolean =>
    found(contentOf(snapshot, NOW)).snapshot(named, publishedAt);

  it('recognizes a failed snapshot under links that were signed anew, and in any order of its files', () => {
    expect(isBad({ ...snapshot, files: [{ ...file, url: `${file.url}?signature=2` }] })).toBe(true);
    const two = found(contentOf({ ...snapshot, files: [file, other] }, NOW));
    expect(two.snapshot({ ...snapshot, files: [other, file] }, NOW)).toBe(true);
  });

  it.each<[string, Partial<ManifestEntry>]>([
    ['version', { version: 4 }],
    ['schema', { schemaVersion: '2' }],
    ['number of rows', { rowCount: 11 }],
    ['digest of a file', { files: [{ ...file, sha256: digestOf('other') }] }],
    ['length of a file', { files: [{ ...file, bytes: 101 }] }],
    ['number of rows of a file', { files: [{ ...file, rowCount: 11 }] }],
    ['list of files', { files: [file, other] }],
  ])('V11 a snapshot is other content once another %s is stated', (_, stated) => {
    expect(isBad({ ...snapshot, ...stated })).toBe(false);
  });
});

it('V11 a snapshot of a version that was published anew under its number is other content', () => {
  const bad = found(contentOf(snapshot, NOW));
  expect([NOW, later, null].map((publishedAt) => bad.snapshot(snapshot, publishedAt))).toEqual([
    true,
    false,
    false,
  ]);
});

describe('changes that failed', () => {
  const record = version('parcels', 3, { counts: { added: 1, changed: 0, removed: 0 } });

  it('distinguishes failed changes from inapplicable ones, and from the snapshot', () => {
    expect(found(changesContentOf(record))).toSatisfy(
      (bad: ReturnType<typeof found>) =>
        bad.changes(record) && !bad.inapplicable(record) && !bad.snapshot(snapshot, NOW),
    );
    expect(found(inapplicableContentOf(record)).changes(record)).toBe(false);
  });

  it.each<[string, Partial<Version>]>([
    ['number', { version: 4 }],
    ['version before it', { previousVersion: 1 }],
    ['schema', { schemaVersion: '2' }],
    ['number of rows', { rowCount: 11 }],
    ['count of its operations', { counts: { added: 2, changed: 0, removed: 0 } }],
    ['time of its publication', { publishedAt: later }],
  ])('V11 changes are other content once another %s is stated', (_, stated) => {
    const bad = found(changesContentOf(record), inapplicableContentOf(record));
    expect([bad.changes(record), bad.inapplicable(record)]).toEqual([true, true]);
    const named = { ...record, ...stated };
    expect([bad.changes(named), bad.inapplicable(named)]).toEqual([false, false]);
  });
});

describe('changes that had more bytes than may be staged', () => {
  const record = version('parcels', 3);
  const before = failure({ contents: [oversizedContentOf(record, 1_000)] });

  it('recognizes oversized changes by their version and the limit, until the failure ends', () => {
    const wereOversized = (maxBytes: number, waitMs: number) =>
      oversizedBefore(before, new Date(NOW.getTime() + waitMs), maxBytes);
    expect(wereOversized(1_000, 0)(record)).toBe(true);
    expect(wereOversized(1_000, 0)({ ...record, version: 4 })).toBe(false);
    expect(wereOversized(2_000, 0)(record)).toBe(false);
    expect(wereOversized(1_000, 60_000)(record)).toBe(false);
    expect(oversizedBefore(null, NOW, 1_000)(record)).toBe(false);
  });

  it('distinguishes oversized changes from bad and from inapplicable ones', () => {
    const bad = failedBefore(before, NOW);
    expect([bad.changes(record), bad.inapplicable(record)]).toEqual([false, false]);
  });
});

describe('a snapshot that differs from what is stated', () => {
  const content = contentOf(snapshot, NOW);
  const differing = [{ content, failedAt: NOW, retryAt: new Date(NOW.getTime() + 900_000) }];
  const isBadAt = (waitMs: number): boolean =>
    failedBefore(failure({ differing }), new Date(NOW.getTime() + waitMs)).snapshot(snapshot, NOW);

  it('does not fetch a snapshot that differs again before its own time', () => {
    expect([isBadAt(0), isBadAt(899_999), isBadAt(900_000)]).toEqual([true, true, false]);
  });

  it('fetches a snapshot that differs again where the clock was wrong', () =>
    expect(isBadAt(-1)).toBe(false));
});
