/** Links that expire are replaced once for all files that wait, and only by links to the same content (F22). */

import { describe, expect, it } from 'vitest';
import { FreshLinks, Superseded } from '../../src/feed/download/download.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';

/** An entry of two files whose links carry `signature`. */
function entry(
  signature: string,
  changed: Partial<ManifestEntry> = {},
  sha256: string | null = null,
): ManifestEntry {
  const files = ['a', 'b'].map((name) => ({ url: `${name}?${signature}`, bytes: 1, rowCount: null, sha256 }));
  return { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files, ...changed };
}

/** Links that expire into the given entries, one after the other. */
function linksInto(...entries: readonly (ManifestEntry | null)[]) {
  let refreshes = 0;
  const links = new FreshLinks(entry('old'), async () => {
    refreshes += 1;
    return entries[refreshes - 1] ?? null;
  });
  return { links, refreshes: () => refreshes };
}

describe('F22 expired links', () => {
  it('replaces links that expire together by one reading of the manifest', async () => {
    const { links, refreshes } = linksInto(entry('new'));
    await Promise.all([links.replace(0, 'a?old'), links.replace(1, 'b?old')]);
    expect([links.of(0), links.of(1)]).toEqual(['a?new', 'b?new']);
    expect(refreshes()).toBe(1);
  });

  it('does not replace links again that were replaced meanwhile', async () => {
    const { links, refreshes } = linksInto(entry('new'), entry('newer'));
    await links.replace(0, 'a?old');
    await links.replace(1, 'b?old');
    expect(refreshes()).toBe(1);
    await links.replace(1, 'b?new');
    expect(links.of(0)).toBe('a?newer');
  });

  it.each([
    ['another version', entry('new', { version: 2 })],
    ['an older version', entry('new', { version: 0 })],
    ['fewer files', entry('new', { files: [] })],
    ['other content of the same version', entry('new', {}, 'ab'.repeat(32))],
    ['no such dataset', null],
  ])('ends the download where the manifest now has %s', async (_name, latest) => {
    const { links } = linksInto(latest);
    const both = await Promise.allSettled([links.replace(0, 'a?old'), links.replace(1, 'b?old')]);
    for (const ended of both) {
      expect(ended).toMatchObject({ status: 'rejected', reason: expect.any(Superseded) });
      expect(ended.status === 'rejected' && ended.reason.entry).toBe(latest);
    }
  });
});
