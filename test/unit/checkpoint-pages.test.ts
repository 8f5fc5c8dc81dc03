/** F58: pages of the checkpoint that lie in each other's place. Whoever reads the file names it as damaged, and nothing else goes wrong. */

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { CheckpointReader } from '../../src/checkpoint/checkpoint.ts';
import { openCheckpointCopy, openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { silentLog } from '../../src/lib/log.ts';
import { StorageError } from '../../src/model/errors.ts';
import { restore } from '../support/checkpoint-dump.ts';
import { NOON_CLOCK, openAt, temporaryPath } from '../support/checkpoint-files.ts';

const FILLED = new URL('checkpoint-formats/format-14.sql', import.meta.url);
const PAGE_BYTES = 4_096;

/** A checkpoint with rows in every table, and the first page of each. */
function filled() {
  const path = temporaryPath('checkpoint.sqlite');
  restore(path, readFileSync(FILLED, 'utf8'));
  const database = new Database(path);
  const tables = database
    .prepare<[], { name: string; page: number }>(
      'SELECT name, rootpage AS page FROM sqlite_schema WHERE rootpage > 0',
    )
    .all();
  database.close();
  const sound = readFileSync(path);
  const misplace = (from: number, to: number): void => {
    const bytes = Buffer.from(sound);
    sound.copy(bytes, (to - 1) * PAGE_BYTES, (from - 1) * PAGE_BYTES, from * PAGE_BYTES);
    for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
    writeFileSync(path, bytes);
  };
  const pairs = tables.flatMap((to) => tables.flatMap((from) => (from === to ? [] : [{ from, to }])));
  return { path, misplace, pairs };
}

function readAll(reader: CheckpointReader | null): void {
  if (reader === null) throw new Error('there is no checkpoint');
  reader.rememberedContract();
  reader.followed();
  reader.polls();
  for (const datasetId of reader.desiredStates().keys()) reader.desired(datasetId);
  reader.absences();
  reader.mentions();
  reader.forgotten();
  reader.suspensions();
  reader.candidates();
  reader.failures();
  reader.recentSyncRuns(100);
}

/** What `use` throws but for a damaged file, with the pair. */
function otherErrors(use: (path: string) => void): readonly string[] {
  const { path, misplace, pairs } = filled();
  expect(pairs.length).toBeGreaterThan(300);
  return pairs.flatMap(({ from, to }) => {
    misplace(from.page, to.page);
    try {
      use(path);
      return [];
    } catch (error) {
      const isNamed = error instanceof StorageError && error.message.includes('is damaged: ');
      return isNamed ? [] : [`${from.name} in the place of ${to.name}: ${error}`];
    }
  });
}

it('F58 a reader takes any page of a table in the place of another one for damage, or for rows', () => {
  const wrong = otherErrors((path) => {
    const reader = openCheckpointReader({ path, uid: null });
    try {
      readAll(reader);
    } finally {
      reader?.close();
    }
  });
  expect(wrong).toEqual([]);
});

it('F58 a copy in memory of a file with such a page is empty, or contains what can be read', () => {
  const wrong = otherErrors((path) => {
    const copy = openCheckpointCopy({ path, uid: null, clock: NOON_CLOCK, log: silentLog });
    try {
      readAll(copy);
    } finally {
      copy.close();
    }
  });
  expect(wrong).toEqual([]);
});

it('F58 a checkpoint with such a page is quarantined, or read', async () => {
  const { path, misplace, pairs } = filled();
  const isQuarantined: boolean[] = [];
  for (const { from, to } of pairs.filter((_, index) => index % 7 === 0)) {
    misplace(from.page, to.page);
    const checkpoint = await openAt(path);
    readAll(checkpoint);
    checkpoint.close();
    const kept = readdirSync(dirname(path)).filter((name) => name.includes('.corrupt-'));
    isQuarantined.push(kept.length > 0);
    for (const name of [basename(path), ...kept]) rmSync(join(dirname(path), name));
  }
  expect(new Set(isQuarantined)).toEqual(new Set([true, false]));
});
