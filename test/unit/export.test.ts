/** F77 the export beside a table that cannot be read: whatever else was committed is exported. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { StorageError } from '../../src/model/errors.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { Exporter } from '../../src/post-commit/export/export.ts';
import { parseManifest } from '../../src/post-commit/export/generation.ts';
import { NOON } from '../support/checkpoint-files.ts';
import { SteppedClock } from '../support/stepped-clock.ts';

function tableAt(datasetId: string, version: number): ObservedTable {
  const of = { datasetId, tableName: datasetId, version, commitNumber: version, rowCount: 1 };
  return { ...of, appliedAt: NOON, keyColumns: [], columns: [] } as unknown as ObservedTable;
}

it('F77 exports every other table and keeps the old file of a damaged one, without an extra generation', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-export-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const versions = { parcels: 1, permits: 1 };
  let damaged: string | null = null;
  const tables = () => Object.entries(versions).map(([id, version]) => tableAt(id, version));
  const exporter = new Exporter({
    source: {
      liveTables: () => Promise.resolve(tables()),
      writeTable: (datasetId, path) => {
        if (datasetId === damaged)
          return Promise.reject(new StorageError('It is damaged.', { code: 'mirror_damaged' }));
        writeFileSync(path, 'PAR1');
        return Promise.resolve(tables().find((table) => table.datasetId === datasetId) ?? null);
      },
    },
    folder,
    mirror: '/srv/mirror.duckdb',
    isAwaited: () => false,
    lock: () => Promise.resolve(),
    keep: 2,
    reserveBytes: 0,
    clock: new SteppedClock(),
    signal: new AbortController().signal,
  });
  const exported = () => {
    const manifest = parseManifest(readFileSync(join(folder, 'manifest.json'), 'utf8'));
    return [manifest?.generation, manifest?.files.map(({ dataset, version }) => `${dataset} ${version}`)];
  };
  await exporter.export();
  expect(exported()).toEqual([1, ['parcels 1', 'permits 1']]);

  damaged = 'parcels';
  Object.assign(versions, { parcels: 2, permits: 2 });
  for (const _attempt of [1, 2]) {
    await expect(exporter.export()).rejects.toMatchObject({ code: 'mirror_damaged' });
    expect(exported()).toEqual([2, ['parcels 1', 'permits 2']]);
  }
  damaged = null;
  await exporter.export();
  expect(exported()).toEqual([3, ['parcels 2', 'permits 2']]);
});
