/** The copy of the checkpoint in memory: all that is stored is in it, and nothing done with it reaches the file. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { openCheckpointCopy } from '../../src/checkpoint/sqlite/open.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { ConfigurationError } from '../../src/model/errors.ts';
import { restore } from '../support/checkpoint-dump.ts';
import { commit, joined, NOON_CLOCK, openAt, temporaryPath } from '../support/checkpoint-files.ts';

const FORMAT_4 = new URL('checkpoint-formats/format-4.sql', import.meta.url);

function copyOf(path: string, log: Log = silentLog) {
  const copy = openCheckpointCopy({ path, uid: 1000, clock: NOON_CLOCK, log });
  onTestFinished(() => copy.close());
  return copy;
}

it('a copy contains what is stored, also in the log of an open checkpoint, and changes nothing of it', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const original = await openAt(path);
  commit(original, 's', joined('d'));
  const copy = copyOf(path);
  expect(copy.desiredStates()).toEqual(original.desiredStates());
  commit(copy, 's', joined('e'));
  commit(original, 's', joined('f'));
  expect([...copy.desiredStates().keys()]).toEqual(['d', 'e']);
  expect([...original.desiredStates().keys()]).toEqual(['d', 'f']);
});

it('a copy of a closed checkpoint leaves its file as it is to the byte', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const original = await openAt(path);
  commit(original, 's', joined('d'));
  original.close();
  const before = readFileSync(path);
  const copy = copyOf(path);
  commit(copy, 's', joined('e'));
  expect([...copy.desiredStates().keys()]).toEqual(['d', 'e']);
  expect(readFileSync(path)).toEqual(before);
});

it('a copy is empty where there is no checkpoint, and creates none', () => {
  const path = join(dirname(temporaryPath('x')), 'nowhere', 'checkpoint.sqlite');
  const copy = copyOf(path);
  commit(copy, 's', joined('d'));
  expect(copy.desiredStates().size).toBe(1);
  expect(existsSync(dirname(path))).toBe(false);
});

it('a copy of an empty file is empty', () => {
  const path = temporaryPath('checkpoint.sqlite');
  writeFileSync(path, '');
  expect(copyOf(path).desiredStates().size).toBe(0);
});

it('a copy of an older format is migrated to the current one; the file is not', () => {
  const path = temporaryPath('checkpoint.sqlite');
  restore(path, readFileSync(FORMAT_4, 'utf8'));
  const before = readFileSync(path);
  expect(copyOf(path).desiredStates().size).toBeGreaterThan(0);
  expect(readFileSync(path)).toEqual(before);
});

it('a copy of a damaged checkpoint is empty, and logs a warning', () => {
  const path = temporaryPath('checkpoint.sqlite');
  writeFileSync(path, 'a letter to my aunt '.repeat(500));
  const warnings: unknown[] = [];
  const copy = copyOf(path, { ...silentLog, warn: (about) => void warnings.push(about) });
  expect(copy.desiredStates().size).toBe(0);
  expect(warnings).toEqual([{ path }]);
  expect(readFileSync(path, 'utf8')).toMatch(/^a letter/);
});

it('refuses a copy of the database of another program', () => {
  const path = temporaryPath('checkpoint.sqlite');
  const database = new Database(path);
  database.exec('CREATE TABLE theirs (a)');
  database.close();
  expect(() => copyOf(path)).toThrow(ConfigurationError);
});
