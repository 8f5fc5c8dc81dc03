/** The write-ahead log of the mirror, damaged at any place by a disk or by a loss of power (F05, F59). */

import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { MAX_QUARANTINED } from '../../src/lib/quarantine.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { column, load, mirrorIn, parquet, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import { recordingLog } from '../support/feed-client.ts';

/** The commits in the log. Each leads the table on by one version. */
const COMMITS = 4;
const SECTOR_BYTES = 512;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => {
  folder = await temporaryFolder();
});
afterEach(() => folder[Symbol.asyncDispose]());

interface Logged {
  /** The mirror as its last checkpoint left it, with version 1. */
  readonly file: Buffer;
  readonly log: Buffer;
  /** The length of the log after each commit. */
  readonly ends: readonly number[];
}

async function loaded(version: number, plannedFrom: ObservedTable | null = null) {
  const file = await parquet(folder.path, `${version}.parquet`, 'SELECT 1::BIGINT AS id');
  return snapshot({ columns: [column('id', 'integer')], files: [file], version, plannedFrom });
}

/** Returns the log as a process leaves it that is killed before the checkpoint: closing the instance would empty it. */
async function withLog(): Promise<Logged> {
  const mirror = await mirrorIn(folder.path);
  await load(mirror, await loaded(1));
  await mirror.close();
  const path = join(folder.path, 'mirror.duckdb');
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  try {
    await connection.run(`SET checkpoint_threshold = '1TB'; ATTACH '${path}' AS m`);
    const ends: number[] = [];
    for (let version = 2; version <= 1 + COMMITS; version += 1) {
      await connection.run('BEGIN');
      await connection.run(`INSERT INTO m.main.parcels SELECT range FROM range(${version}, ${version + 1})`);
      await connection.run(`UPDATE m.feed_sync.datasets SET version = ${version}, row_count = ${version}`);
      await connection.run('COMMIT');
      ends.push((await stat(`${path}.wal`)).size);
    }
    return { file: await readFile(path), log: await readFile(`${path}.wal`), ends };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Damages the log from a place on. */
type Damage = (log: Buffer, at: number) => Buffer;

const DAMAGES: readonly (readonly [what: string, damage: Damage, stepBytes: number])[] = [
  ['is cut', (log, at) => log.subarray(0, at), 128],
  ['has only zeroes', (log, at) => log.fill(0, at), 128],
  ['lacks a sector', (log, at) => log.fill(0, at, Math.min(at + SECTOR_BYTES, log.length)), SECTOR_BYTES],
  ['has a flipped bit', (log, at) => log.fill((log[at] ?? 0) ^ (1 << (at % 8)), at, at + 1), 101],
];

it.each(DAMAGES)(
  'F05 F59 keeps every commit before the place from which the log %s',
  async (_, damage, stepBytes) => {
    const { file, log, ends } = await withLog();
    for (let at = 0; at < log.length; at += stepBytes) {
      const home = join(folder.path, String(at));
      await mkdir(home);
      const path = join(home, 'mirror.duckdb');
      const damaged = damage(Buffer.from(log), at);
      await writeFile(path, file);
      await writeFile(`${path}.wal`, damaged);
      const mirror = await mirrorIn(home);
      const version = 1 + ends.filter((end) => end <= at).length;
      const observed = (await mirror.has()).datasets.get('parcels');
      expect({ at, version: observed?.version, rows: observed?.rowCount }).toEqual({
        at,
        version,
        rows: version,
      });
      const [kept, ...others] = (await readdir(home)).filter((name) => name.includes('.corrupt-'));
      expect(others).toEqual([]);
      if (kept !== undefined) expect(await readFile(join(home, kept))).toEqual(damaged);
      await mirror.close();
    }
  },
);

it('F05 F59 commits into a mirror whose log was cut', async () => {
  const { file, log, ends } = await withLog();
  const path = join(folder.path, 'mirror.duckdb');
  await writeFile(path, file);
  await writeFile(`${path}.wal`, log.fill(0, (ends.at(-2) ?? 0) + 20));
  const mirror = await mirrorIn(folder.path);
  const observed = present((await mirror.has()).datasets.get('parcels'), 'the table');
  expect(observed.version).toBe(COMMITS);
  expect(await load(mirror, await loaded(9, observed))).toMatchObject([{ kind: 'committed' }]);
  await mirror.close();
  const again = await mirrorIn(folder.path);
  expect((await again.has()).datasets.get('parcels')?.version).toBe(9);
  await again.close();
});

describe('F05 logs that were quarantined without their mirror', () => {
  const quarantined = (day: number): string => `mirror.duckdb.corrupt-202601${10 + day}T000000000Z.wal`;
  /** Whole, with a mirror beside it; of another name; of another file. */
  const NOT_TO_GO = [
    'mirror.duckdb.corrupt-20250101T000000000Z',
    'mirror.duckdb.corrupt-20250101T000000000Z.wal',
    'mirror.duckdb.corrupt-mine.wal',
    'other.duckdb.corrupt-20250101T000000000Z.wal',
  ];

  it.each([
    ['the log is cut', (log: Buffer, ends: readonly number[]) => log.fill(0, (ends.at(-2) ?? 0) + 20)],
    ['the log is moved away', (log: Buffer) => log.fill(0, 8, 64)],
  ])('keeps the newest quarantined logs, and removes and logs the oldest, where %s', async (_, damage) => {
    const { file, log, ends } = await withLog();
    const damaged = damage(log, ends);
    const lines: string[] = [];
    for (const name of NOT_TO_GO) await writeFile(join(folder.path, name), 'kept');
    for (let day = 1; day <= MAX_QUARANTINED + 2; day += 1) {
      const path = join(folder.path, 'mirror.duckdb');
      await writeFile(path, file);
      await writeFile(`${path}.wal`, damaged);
      const now = new Date(Date.UTC(2026, 0, 10 + day));
      const clock = { now: () => now, monotonicMs: () => 0, sleep: async () => {} };
      const mirror = await mirrorIn(folder.path, { clock, log: recordingLog(lines) });
      await mirror.has();
      await mirror.close();
    }
    const left = (await readdir(folder.path)).filter((name) => name.includes('.corrupt-')).sort();
    expect(left).toEqual([...NOT_TO_GO, ...[3, 4, 5].map(quarantined)].sort());
    const removed = lines.filter((line) => line.includes('was removed: another one comes'));
    expect(removed.map((line) => JSON.parse(line).path)).toEqual(
      [1, 2].map((day) => join(folder.path, quarantined(day))),
    );
  });
});

it('F59 leaves a log as it is that cannot be copied before it is cut', async () => {
  const { file, log, ends } = await withLog();
  const path = join(folder.path, 'mirror.duckdb');
  const damaged = log.fill(0, (ends.at(-2) ?? 0) + 20);
  await writeFile(path, file);
  await writeFile(`${path}.wal`, damaged);
  const now = new Date(Date.UTC(2026, 0, 1));
  await writeFile(`${path}.corrupt-20260101T000000000Z.wal`, 'of somebody else');
  const mirror = await mirrorIn(folder.path, {
    clock: { now: () => now, monotonicMs: () => 0, sleep: async () => {} },
  });
  await expect(mirror.has()).rejects.toThrow('could not be cut');
  expect(await readFile(`${path}.wal`)).toEqual(damaged);
  await mirror.close();
});
