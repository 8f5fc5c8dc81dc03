/**
 * Mirrors of earlier formats: read as they are, migrated when they are first written.
 *
 * `mirror-formats/format-<n>.sql` is the dump of a mirror of format n, the same mirror in each. A new format comes with the dump of
 * the one before it.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ObservedState } from '../../src/destination/destination.ts';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import { present } from '../../src/lib/assert.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { compactAt } from '../support/compacting.ts';
import {
  column,
  inMirror,
  load,
  mirrorIn,
  parquet,
  readerOf,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { leftAtEffects } from '../support/killed-mirror.ts';
import { mirrorDump } from '../support/mirror-dump.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { reloadMarks } from '../support/reload-marks.ts';

const EARLIER_FORMATS = [1, 3, 4] as const;

const ENROLMENT = {
  origin: 'https://feed.example',
  subscriptionIds: ['sub_1', 'sub_2'],
  forgottenSubscriptionIds: [],
  datasetIds: ['parcels', 'zoning'],
};

/** The live table of the dump; columns that format 1 did not record are unknown. */
const PARCELS: ObservedTable = {
  datasetId: 'parcels',
  schemaName: 'main',
  tableName: 'parcels',
  commitNumber: 4,
  version: 4,
  schemaVersion: '1',
  rowCount: 2,
  keyColumns: ['id'],
  snapshotVersion: 3,
  snapshotDigest: 'digest-3',
  digestKind: null,
  loadedThrough: null,
  loadedAt: null,
  publishedAt: new Date('2026-01-02T03:04:05Z'),
  appliedAt: new Date('2026-01-02T03:05:00Z'),
  pinnedSince: null,
  columns: [
    { name: 'id', columnName: 'id', type: 'integer', role: 'key', crs: null },
    { name: 'owner', columnName: 'owner', type: 'string', role: 'data', crs: null },
  ],
  reloads: reloadMarks([
    ['sub_1', 9_223_372_036_854_775_807n],
    ['sub_2', 7n],
  ]),
};

const STATE: ObservedState = {
  service: { origin: 'https://feed.example', subscriptionIds: ['sub_1', 'sub_2'] },
  datasets: new Map([['parcels', PARCELS]]),
  progress: null,
  retired: [],
};

async function mirrorOfFormat(format: number, options: Partial<MirrorOptions> = {}) {
  const folder = await temporaryFolder();
  const path = join(folder.path, 'mirror.duckdb');
  await writeMirror(
    path,
    readFileSync(new URL(`mirror-formats/format-${format}.sql`, import.meta.url), 'utf8'),
  );
  const mirror = await mirrorIn(folder.path, options);
  onTestFinished(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });
  return { folder: folder.path, path, mirror };
}

async function formatOf(folder: string): Promise<unknown> {
  const [row] = await inMirror(folder, `SELECT value FROM feed_sync.meta WHERE "key" = 'format_version'`);
  return row?.[0];
}

/** Of a retirement, when it was judged and whether it was approved; of every commit, what a rollback to it restores. */
const UNKNOWN = Array.from({ length: 16 }, () => null);

const COLUMNS = `SELECT table_name, column_name, data_type FROM duckdb_columns()
  WHERE schema_name = 'feed_sync' ORDER BY table_name, column_index`;

/** The commits of format 3 as format 1 has them. */
const ONE_BY_ONE =
  'SELECT dataset_id, from_version, to_version, kind, added, changed, removed, applied_at FROM feed_sync.commits';

describe.each(EARLIER_FORMATS)('format %i', (format) => {
  it('reads a mirror of an earlier format without a change to the file', async () => {
    const { folder, path, mirror } = await mirrorOfFormat(format);
    expect(await mirror.has()).toEqual(STATE);
    const reader = present(await readerOf(path), 'the mirror is there');
    expect(await reader.observed()).toEqual(STATE);
    expect(await reader.count(['parcels'], () => false)).toMatchObject([
      { observed: PARCELS, table: { rowCount: 2 } },
    ]);
    await reader.close();
    await mirror.enroll(ENROLMENT);
    expect(await formatOf(folder)).toBe(String(format));
  });

  it('migrates a mirror of an earlier format at the first write, and keeps its content', async () => {
    const { folder, mirror } = await mirrorOfFormat(format);
    const before = await inMirror(folder, format < 3 ? 'FROM feed_sync.history' : ONE_BY_ONE);
    await mirror.enroll({ ...ENROLMENT, datasetIds: ['roads'] });
    expect(await mirror.has()).toEqual(STATE);
    expect(await formatOf(folder)).toBe('5');
    const kinds = ['load', 'load', 'retire', 'changes'];
    // Earlier formats do not record when a retirement was judged.
    const kept = before.map(([id, from, to, _, ...rest], index) => [
      String(index + 1),
      id,
      from,
      to,
      kinds[index],
      ...rest,
      ...UNKNOWN,
    ]);
    expect(await inMirror(folder, 'FROM feed_sync.commits')).toEqual(kept);
    const another = await temporaryFolder();
    const made = await mirrorIn(another.path);
    await made.enroll(ENROLMENT);
    expect(await inMirror(folder, COLUMNS)).toEqual(await inMirror(another.path, COLUMNS));
    await made.close();
    await another[Symbol.asyncDispose]();
  });

  it('loads a table into a mirror of an earlier format', async () => {
    const { folder, mirror } = await mirrorOfFormat(format);
    const file = await parquet(folder, 'a.parquet', 'SELECT 5::BIGINT AS id');
    const job = snapshot({
      columns: [column('id', 'integer')],
      keyColumns: ['id'],
      files: [file],
      datasetId: 'zoning',
    });
    const [loaded] = await load(mirror, job);
    expect(loaded).toMatchObject({ kind: 'committed' });
    expect(await formatOf(folder)).toBe('5');
    expect((await mirror.has()).datasets.get('parcels')).toEqual(PARCELS);
    expect(await inMirror(folder, 'FROM feed_sync.archived')).toEqual([]);
  });

  it('stores progress in a mirror of an earlier format', async () => {
    const { folder, mirror } = await mirrorOfFormat(format);
    const subscription = {
      subscriptionId: 'sub_1',
      name: null,
      logNumber: 1,
      eventNumber: 9n,
      eventCreatedAt: new Date('2026-01-02T03:04:05.678Z'),
      positionAt: new Date('2026-01-02T03:04:06Z'),
      statesLastEvent: true,
    };
    const progress = { subscriptions: [subscription], members: [], owed: [] };
    expect(await mirror.storeProgress(progress, 'if-free')).toBe(true);
    expect(await formatOf(folder)).toBe('5');
    expect(await mirror.has()).toEqual({ ...STATE, progress });
  });

  it('compacts and publishes a mirror of an earlier format', async () => {
    const copy = await temporaryFolder();
    const target = join(copy.path, 'copy.duckdb');
    const publish = { path: target, keptPaths: [], reserveBytes: 0 };
    const { path, mirror } = await mirrorOfFormat(format, { publish });
    const before = await mirrorDump(path);
    expect(await mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 4 });
    expect(await mirror.publish()).toMatchObject({ kind: 'current' });
    expect(await mirrorDump(target)).toEqual(before);
    await compactAt(path);
    expect(await mirrorDump(path)).toEqual(before);
    await copy[Symbol.asyncDispose]();
  });

  it('F01 leaves a mirror whole in the one format or the other when the process is killed during the migration', async () => {
    const { path, mirror } = await mirrorOfFormat(format);
    const left = await leftAtEffects(path, () => mirror.enroll({ ...ENROLMENT, datasetIds: ['roads'] }));
    const formats = [];
    for (const [timestamp, folder] of left) {
      const reopened = await mirrorIn(folder);
      // Reading puts a log into the memory of the reader alone.
      expect(await reopened.has()).toEqual(STATE);
      formats.push([timestamp, await formatOf(folder)]);
      await reopened.enroll({ ...ENROLMENT, datasetIds: ['lakes'] });
      expect(await reopened.has()).toEqual(STATE);
      expect(await formatOf(folder)).toBe('5');
      await reopened.close();
    }
    expect(formats).toEqual([
      ['before attach', String(format)],
      ['after attach', String(format)],
      ['before commit', String(format)],
      ['after commit', '5'],
      ['before sync-entries', '5'],
      ['after sync-entries', '5'],
      ['before checkpoint', '5'],
      ['after checkpoint', '5'],
    ]);
  });
});
