/** From which snapshot, and over which versions, `verify --deep` reaches the version of a table; and what it remembers. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openComparisonFolder } from '../../src/cli/verify/finished.ts';
import { type ListedEntry, snapshotDigest } from '../../src/model/manifest.ts';
import type { Version } from '../../src/model/records.ts';
import { contentFor } from '../../src/sync/execute/fetch-content.ts';
import { IDENTITY } from '../support/command-line.ts';
import { manualClock, temporaryFolder } from '../support/duckdb-mirror.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { listedEntry, metadata, NOW, table, version } from '../support/sync-values.ts';

const VERSIONS = [3, 4, 5, 6].map((number) => version('parcels', number));

function found(
  entries: readonly ListedEntry[],
  versions: readonly Version[] = VERSIONS,
  observed = table(5, { publishedAt: NOW }),
) {
  const read = { ...metadata(versions), entriesBefore: new Set(entries.map(({ entry }) => entry)) };
  const content = contentFor(observed, entries, read);
  if (content.kind !== 'content') return content;
  return [content.listedEntry.entry.version, content.versions.map((one) => one.version)];
}

describe('the content for the version of a table', () => {
  it('finds the newest snapshot that is not newer than the table, and the changes after it', () => {
    expect(found([listedEntry(5)])).toEqual([5, []]);
    expect(found([listedEntry(3), listedEntry(4), listedEntry(6)])).toEqual([4, [5]]);
    expect(found([listedEntry(3)])).toEqual([3, [4, 5]]);
  });

  it('finds an older snapshot where the changes after a newer one do not lead to the version', () => {
    const versions = VERSIONS.map((one) => (one.version === 5 ? { ...one, previousVersion: 3 } : one));
    expect(
      found(
        [listedEntry(3), listedEntry(4)],
        versions.filter((one) => one.version !== 4),
      ),
    ).toEqual([3, [5]]);
  });

  it('finds no content where every snapshot is newer, none is listed, or nothing leads on', () => {
    expect(found([listedEntry(6)])).toEqual({ kind: 'newer', version: 6 });
    expect(found([])).toMatchObject({ kind: 'none' });
    const resync = VERSIONS.map((one) => (one.version === 5 ? { ...one, resyncRequired: true } : one));
    expect(found([listedEntry(3)], resync)).toEqual({
      kind: 'none',
      why: 'version 5 asks for the snapshot',
    });
  });

  it('F80 finds no content in a manifest that may lag behind a reload that the table satisfies', () => {
    const reloads = reloadMarks([['sub_1', 101n]]);
    const reloaded = table(5, { publishedAt: NOW, reloads });
    expect(found([listedEntry(5, { content: 'earlier' })], VERSIONS, reloaded)).toEqual({
      kind: 'none',
      why: 'no manifest surely lists the content that its last reload has brought',
    });
    expect(found([listedEntry(4)], VERSIONS, reloaded)).toMatchObject({ kind: 'none' });
    const later = listedEntry(5, { watermark: { kind: 'number', through: 101n } });
    expect(found([later], VERSIONS, reloaded)).toEqual([5, []]);
  });

  it('finds the snapshot that the table was loaded from, also where its manifest may lag behind a reload', () => {
    const entry = listedEntry(5);
    const loaded = { snapshotVersion: 5, snapshotDigest: snapshotDigest(entry.entry.files) ?? '' };
    const reloads = reloadMarks([['sub_1', 101n]]);
    const reloaded = table(6, { publishedAt: NOW, reloads, ...loaded });
    expect(found([entry], VERSIONS, reloaded)).toEqual([5, [6]]);
    expect(found([listedEntry(5, { content: 'other' })], VERSIONS, reloaded)).toMatchObject({ kind: 'none' });
  });

  it('finds the snapshot that the table was loaded from where two manifests list different content', () => {
    const own = listedEntry(5, { subscriptionId: 'sub_2', content: 'own' });
    const digest = snapshotDigest(own.entry.files) ?? '';
    const loaded = table(5, { publishedAt: NOW, snapshotVersion: 5, snapshotDigest: digest });
    const read = { ...metadata(VERSIONS) };
    const other = listedEntry(5, { content: 'other' });
    const entriesBefore = new Set([other.entry, own.entry]);
    expect(contentFor(loaded, [other, own], { ...read, entriesBefore })).toMatchObject({ listedEntry: own });
  });

  it('finds no content for a version that was published anew', () => {
    const another = table(5, { publishedAt: new Date(NOW.getTime() - 1) });
    expect(found([listedEntry(5)], VERSIONS, another)).toEqual({
      kind: 'none',
      why: 'version 5 was published anew',
    });
  });
});

describe('the folder of a comparison', () => {
  const one = { datasetId: 'parcels', commitNumber: 7, content: 'version 5 (abc)' };

  it('remembers for a day which commit was equal to which content, until the comparison has ended', async () => {
    await using folder = await temporaryFolder();
    const clock = manualClock();
    const open = () => openComparisonFolder(folder.path, { identity: IDENTITY, clock });
    const first = await open();
    expect(first.isFinished(one)).toBe(false);
    await first.finish(one);
    await expect(open()).rejects.toThrow('Another verify --deep works here.');
    await first.close(false);
    const second = await open();
    expect(second.isFinished(one)).toBe(true);
    expect(second.isFinished({ ...one, commitNumber: 8 })).toBe(false);
    expect(second.isFinished({ ...one, content: 'version 5 (def)' })).toBe(false);
    await second.close(false);
    await clock.sleep(24 * 3_600_000);
    const later = await open();
    expect(later.isFinished(one)).toBe(false);
    await later.close(true);
    expect(existsSync(join(folder.path, 'verify'))).toBe(false);
  });

  it('starts a comparison anew where its memory was cut', async () => {
    await using folder = await temporaryFolder();
    const open = () => openComparisonFolder(folder.path, { identity: IDENTITY, clock: manualClock() });
    const first = await open();
    await first.finish(one);
    await first.close(false);
    writeFileSync(join(folder.path, 'verify', 'finished.json'), '[{"datasetId": "par');
    const second = await open();
    expect(second.isFinished(one)).toBe(false);
    await second.close(true);
  });

  it('reports what cannot be read and what to do where the system refuses the folder of a comparison', async () => {
    await using folder = await temporaryFolder();
    const open = () => openComparisonFolder(folder.path, { identity: IDENTITY, clock: manualClock() });
    const path = join(folder.path, 'verify');
    writeFileSync(path, '');
    await expect(open()).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining(path),
    });
    rmSync(path);
    const file = join(path, 'finished.json');
    mkdirSync(file, { recursive: true });
    await expect(open()).rejects.toMatchObject({
      code: 'storage_failed',
      message: `verify --deep cannot read what it found equal before, ${file}: it is a folder (EISDIR).`,
      hint: expect.stringContaining('or remove it'),
    });
    rmSync(file, { recursive: true });
    const next = await open();
    mkdirSync(file);
    await expect(next.finish(one)).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining(file),
    });
    await next.close(true);
  });
});
