/** The published copy: its content, its readers, and its state after a failure (F05, F07, F11). */

import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { MirrorOptions } from '../../src/destination/duckdb/mirror.ts';
import { type DurableObserver, observeDurableEffects } from '../../src/lib/files.ts';
import {
  BusyError,
  ConfigurationError,
  InterruptedError,
  type StorageError,
} from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { duckdb, mirrorIn, temporaryFolder } from '../support/duckdb-mirror.ts';
import { type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { PEOPLE } from '../support/people.ts';
import { projectRoot } from '../support/source-tree.ts';

const MODE = 0o777;

/** A mirror with a table of one row, and where its copy is to be. */
async function publishing(options: Partial<MirrorOptions> = {}, reserveBytes = 0) {
  const folder = await temporaryFolder();
  onTestFinished(() => folder[Symbol.asyncDispose]());
  const copy = join(folder.path, 'out', 'copy.duckdb');
  const publish = { path: copy, keptPaths: [], reserveBytes };
  const world = await mirrorAtWork({ ...options, publish });
  const course = await world.loaded(firstContent(PEOPLE, [[1, 'one']]));
  return { world, course, copy };
}

function deviceOf(path: string): number {
  return statSync(path).dev;
}

function rowsOf(copy: string) {
  return duckdb(`ATTACH '${copy}' AS c (READ_ONLY)`, 'SELECT name FROM c.parcels ORDER BY id');
}

/** Throws `error` the next time that the effect begins. */
function failAt(name: string, error: Error): void {
  observing((seen, timestamp) => {
    if (seen !== name || timestamp !== 'before') return;
    observeDurableEffects(() => {});
    throw error;
  });
}

function observing(observer: DurableObserver): void {
  observeDurableEffects(observer);
  onTestFinished(() => observeDurableEffects(() => {}));
}

describe('a published copy', () => {
  it('copies everything that is committed, for the owner alone, and once for each commit', async () => {
    const { world, course, copy } = await publishing();
    const bytes = statSync(world.path).size;
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 1, bytes });
    expect(await rowsOf(copy)).toEqual([['one']]);
    expect(statSync(copy).mode & MODE).toBe(0o600);
    expect(readdirSync(dirname(copy))).toEqual(['copy.duckdb']);
    const made = statSync(copy).mtimeMs;
    expect(await world.mirror.publish()).toEqual({ kind: 'current', commitNumber: 1 });
    expect(statSync(copy).mtimeMs).toBe(made);
    // The next copy keeps a mode that the owner has set.
    chmodSync(copy, 0o640);
    await world.load(course);
    await world.mirror.publish();
    expect(statSync(copy).mode & MODE).toBe(0o640);
  });

  it('copies a value that exceeds the memory of a reading beside other work', async () => {
    const { world, copy } = await publishing();
    await world.mirror.publish();
    await addNotes(world.path);
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    const length = `SELECT strlen(text)::INTEGER FROM c.notes`;
    expect(await duckdb(`ATTACH '${copy}' AS c (READ_ONLY)`, length)).toEqual([[300_000_000]]);
  });

  it('leaves a copy to readers that have it open, while the next copy takes its place', async () => {
    const { world, course, copy } = await publishing();
    await world.mirror.publish();
    const instance = await DuckDBInstance.create(copy, { access_mode: 'READ_ONLY' });
    const reader = await instance.connect();
    const elsewhere = startChild('duckdb-holder-child.ts', copy);
    onTestFinished(() => elsewhere.kill());
    expect(await elsewhere.nextLine()).toBe('held');
    course.publishRows([[2, 'two']]);
    await world.apply(course);
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 2 });
    const seen = async () => (await reader.runAndReadAll('SELECT name FROM parcels')).getRowsJson();
    expect(await seen()).toEqual([['one']]);
    expect(await rowsOf(copy)).toEqual([['two']]);
    reader.closeSync();
    instance.closeSync();
  });

  it('makes a copy while a reader has the mirror open, and none where there is no mirror', async () => {
    const { world, copy } = await publishing();
    const reader = startChild('duckdb-holder-child.ts', world.path);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    const publish = { path: copy, keptPaths: [], reserveBytes: 0 };
    const empty = await mirrorIn(folder.path, { publish });
    onTestFinished(() => empty.close());
    expect(await empty.publish()).toEqual({ kind: 'absent' });
    expect(await rowsOf(copy)).toEqual([['one']]);
  });

  it('copies the bytes of the mirror to another file system', async (context) => {
    const folders = ['/dev/shm', '/tmp', projectRoot].filter(existsSync);
    const elsewhere = folders.find((folder) => deviceOf(folder) !== deviceOf(tmpdir()));
    if (elsewhere === undefined) return context.skip('There is one file system only.');
    const there = await mkdtemp(join(elsewhere, '.feed-sync-copy-'));
    onTestFinished(() => rm(there, { recursive: true }));
    const copy = join(there, 'copy.duckdb');
    const world = await mirrorAtWork({ publish: { path: copy, keptPaths: [], reserveBytes: 0 } });
    await world.loaded(firstContent(PEOPLE, [[1, 'one']]));
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published', isClone: false });
    expect(await rowsOf(copy)).toEqual([['one']]);
  });

  it('copies commits that a killed process left in the log, once no reader keeps the mirror open (F05)', async () => {
    const { world, copy } = await publishing();
    await leaveLog(world, "INSERT INTO parcels VALUES (7, 'seven')");
    expect(existsSync(`${world.path}.wal`)).toBe(true);
    const reader = startChild('duckdb-holder-child.ts', world.path);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');
    await expect(world.mirror.publish()).rejects.toThrow(BusyError);
    expect(existsSync(copy)).toBe(false);
    await reader.kill();
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    expect(existsSync(`${world.path}.wal`)).toBe(false);
    expect(await rowsOf(copy)).toEqual([['one'], ['seven']]);
  });
});

describe('a copy that fails', () => {
  it('writes nothing where the disk has no room, and keeps the earlier copy (F07)', async () => {
    const { world, course, copy } = await publishing();
    await world.mirror.publish();
    course.publishRows([[2, 'two']]);
    await world.apply(course);
    await world.mirror.close();
    const publish = { path: copy, keptPaths: [], reserveBytes: 1e18 };
    const full = await mirrorIn(world.folder, { publish });
    onTestFinished(() => full.close());
    const error = await full.publish().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'copy_failed' });
    expect((error as Error).message).toMatch(
      /^Not enough space in .*\/out: a copy of the mirror needs [\d.]+ MB beside the 1000000\.0 TB that are kept free \(disk\.reserve\), and .* are free\.$/,
    );
    expect(await rowsOf(copy)).toEqual([['one']]);
    expect(readdirSync(dirname(copy))).toEqual(['copy.duckdb']);
  });

  it('keeps the earlier copy when any step fails, and makes the next copy whole', async () => {
    const { world, course, copy } = await publishing();
    const first = await world.mirror.publish();
    const ofBytes = first.kind === 'published' && first.isClone ? [] : ['-open', '-copy'];
    course.publishRows([[2, 'two']]);
    await world.apply(course);
    for (const step of ['-clear', '-clone', ...ofBytes, '-settle', '-clear-log', '']) {
      failAt(`destination.publish${step}`, Object.assign(new Error('i/o'), { code: 'EIO', errno: -5 }));
      await expect(world.mirror.publish()).rejects.toThrow(
        `No copy can be published at ${copy}: i/o error (EIO).`,
      );
      expect(readdirSync(dirname(copy)), step).toEqual(['copy.duckdb']);
    }
    expect(await rowsOf(copy)).toEqual([['one']]);
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 2 });
    expect(await rowsOf(copy)).toEqual([['two']]);
  });

  it('publishes no copy that differs from the mirror, is of a mirror written meanwhile, or is interrupted', async () => {
    const controller = new AbortController();
    const { world, course, copy } = await publishing({ signal: controller.signal });
    const older = `${world.path}.older`;
    await copyFile(world.path, older);
    course.publishRows([[2, 'two']]);
    await world.apply(course);
    const settling = 'before destination.publish-settle';
    const refusals: readonly (readonly [string, () => void, string])[] = [
      [settling, () => copyFileSync(older, `${copy}.publishing`), 'differs from the mirror'],
      [settling, () => spoil(`${copy}.publishing`), 'The catalog of a new copy'],
      ['after destination.publish-clone', () => touch(world.path), 'Another process wrote the mirror'],
      ['after destination.publish-clear', () => controller.abort(new InterruptedError('enough')), 'enough'],
    ];
    for (const [at, act, message] of refusals) {
      observing((name, timestamp) => {
        if (`${timestamp} ${name}` === at) act();
      });
      await expect(world.mirror.publish()).rejects.toThrow(message);
      expect(readdirSync(dirname(copy))).toEqual([]);
    }
  });

  it('says that a value needs more memory than DuckDB may use, and what to do, and keeps the earlier copy', async () => {
    const { world, copy } = await publishing({ memoryLimitBytes: 300_000_000 });
    await world.mirror.publish();
    await addNotes(world.path);
    await world.mirror.close();
    const again = await mirrorIn(world.folder, {
      memoryLimitBytes: 300_000_000,
      publish: { path: copy, keptPaths: [], reserveBytes: 0 },
    });
    onTestFinished(() => again.close());
    const error = await again.publish().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'copy_failed', hint: expect.stringContaining('duckdb.memoryLimit') });
    expect((error as Error).message).toBe(
      `The table main.notes of a new copy needs more memory than DuckDB may use, so ${copy} is not replaced.`,
    );
    expect(readdirSync(dirname(copy))).toEqual(['copy.duckdb']);
    expect(await rowsOf(copy)).toEqual([['one']]);
  });

  it('replaces the unfinished copy of a killed process, and a damaged copy', async () => {
    const { world, copy } = await publishing();
    await writeFile(`${copy}.publishing`, 'half a copy');
    await copyFile(world.path, copy);
    spoil(copy);
    await writeFile(`${copy}.wal`, 'of somebody who wrote into it');
    expect(await world.mirror.publish()).toMatchObject({ kind: 'published' });
    expect(readdirSync(dirname(copy))).toEqual(['copy.duckdb']);
    expect(await rowsOf(copy)).toEqual([['one']]);
  });
});

describe('F62 links and files that a neighbour plants in the folder of the copy', () => {
  it.each(['.publishing', '.wal', ''])(
    'follows no link at copy.duckdb%s, and changes no foreign file',
    async (suffix) => {
      const { world, course, copy } = await publishing();
      await world.mirror.publish();
      chmodSync(copy, 0o644);
      const foreign = join(dirname(world.path), 'foreign');
      await writeFile(foreign, 'of somebody else');
      chmodSync(foreign, 0o755);
      await rm(copy + suffix, { force: true });
      symlinkSync(foreign, copy + suffix);
      course.publishRows([[2, 'two']]);
      await world.apply(course);
      expect(await world.mirror.publish()).toMatchObject({ kind: 'published', commitNumber: 2 });
      expect(readFileSync(foreign, 'utf8')).toBe('of somebody else');
      expect(statSync(foreign).mode & MODE).toBe(0o755);
      expect(lstatSync(copy).isFile()).toBe(true);
      expect(statSync(copy).mode & MODE).toBe(suffix === '' ? 0o600 : 0o644);
      expect(readdirSync(dirname(copy))).toEqual(['copy.duckdb']);
      expect(await rowsOf(copy)).toEqual([['two']]);
    },
  );

  it('does not publish through a link that is planted while the copy is written', async () => {
    const { world, copy } = await publishing();
    const foreign = join(dirname(world.path), 'foreign');
    await writeFile(foreign, 'of somebody else');
    observing((name, timestamp) => {
      if (name !== 'destination.publish-settle' || timestamp !== 'before') return;
      rmSync(`${copy}.publishing`);
      symlinkSync(foreign, `${copy}.publishing`);
    });
    await expect(world.mirror.publish()).rejects.toThrow('(ELOOP)');
    expect(readFileSync(foreign, 'utf8')).toBe('of somebody else');
    expect(existsSync(copy)).toBe(false);
  });
});

describe('a place where no copy may lie', () => {
  async function refusalOf(place: (folder: string) => Promise<string> | string): Promise<Error> {
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    await duckdb(`ATTACH '${folder.path}/mirror.duckdb' AS m`, 'CREATE TABLE m.t (i INTEGER)');
    const path = await place(folder.path);
    const keptPaths = ['staging', 'checkpoint.sqlite'].map((name) => join(folder.path, name));
    const opening = mirrorIn(folder.path, { uid: 1_000, publish: { path, keptPaths, reserveBytes: 0 } });
    return opening.then(
      () => Promise.reject(new Error('it should have been refused')),
      (error: Error) => error,
    );
  }

  it.each<[string, string, (folder: string) => Promise<string> | string]>([
    ['the mirror', 'it is the mirror itself', (folder) => join(folder, 'mirror.duckdb')],
    [
      'a link to the mirror',
      'it is the mirror itself',
      (folder) => {
        symlinkSync(join(folder, 'mirror.duckdb'), join(folder, 'link'));
        return join(folder, 'link');
      },
    ],
    [
      'another name of the mirror',
      'it is the mirror itself',
      (folder) => {
        linkSync(join(folder, 'mirror.duckdb'), join(folder, 'name'));
        return join(folder, 'name');
      },
    ],
    ['a folder', 'it is a folder', (folder) => folder],
    ['the staging folder', 'which feed-sync needs for itself', (folder) => join(folder, 'staging', 'copy')],
    ['the checkpoint', 'which feed-sync needs for itself', (folder) => join(folder, 'checkpoint.sqlite')],
    [
      'a folder that every user may write to',
      'it lies in a folder that every user may write to',
      (folder) => {
        mkdirSync(join(folder, 'all'));
        chmodSync(join(folder, 'all'), 0o1777);
        return join(folder, 'all', 'copy.duckdb');
      },
    ],
    ['a question mark', 'it has a question mark in it', (folder) => join(folder, 'copy?')],
    [
      'another file',
      'it is no copy of a mirror, so it is left as it is',
      async (folder) => {
        await writeFile(join(folder, 'notes.txt'), 'not a database');
        return join(folder, 'notes.txt');
      },
    ],
    [
      'an image of a disk, which begins with zeroes',
      'it is no copy of a mirror, so it is left as it is',
      async (folder) => {
        await writeFile(join(folder, 'disk.img'), Buffer.alloc(20_000, 0xa5).fill(0, 0, 1_024));
        return join(folder, 'disk.img');
      },
    ],
    [
      'another database',
      'it is no copy of a mirror, so it is left as it is',
      async (folder) => {
        await duckdb(`ATTACH '${folder}/other.duckdb' AS o`, 'CREATE TABLE o.t (i INTEGER)');
        return join(folder, 'other.duckdb');
      },
    ],
  ])('refuses at the start to publish to %s', async (_name, message, place) => {
    const error = await refusalOf(place);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error.message).toMatch(/^No copy can be published at /);
    expect(error.message).toContain(message);
  });

  it.each<[string, string, (folder: string) => string]>([
    [
      'a path through a file',
      'its path leads through a file (ENOTDIR)',
      (folder) => join(folder, 'mirror.duckdb', 'copy'),
    ],
    ['a folder where nothing can be created', '(', () => '/proc/feed-sync/copy'],
  ])('refuses at the start to publish to %s (F11)', async (_name, message, place) => {
    const error = await refusalOf(place);
    expect(error).toMatchObject({ code: 'copy_failed' });
    expect(error.message).toMatch(/^No copy can be published at /);
    expect(error.message).toContain(message);
    expect((error as StorageError).hint).toContain('for the user with id 1000,');
  });
});

/** Leaves a log as a writer does that is killed before its checkpoint. */
async function leaveLog({ path }: MirrorAtWork, statement: string): Promise<void> {
  await duckdb('PRAGMA disable_checkpoint_on_shutdown', `ATTACH '${path}' AS m`, 'USE m', statement);
}

/** The file ends with nonsense. */
function spoil(path: string): void {
  const content = readFileSync(path);
  writeFileSync(path, content.fill(0xff, 4_096));
}

/** An operator's table with a value of 300 MB, which takes little of the file. */
async function addNotes(path: string): Promise<void> {
  await writeMirror(path, `CREATE TABLE notes AS SELECT repeat('of a deed ', 30000000) AS text`);
}

/** Writes the file as it is. */
function touch(path: string): void {
  writeFileSync(path, readFileSync(path));
}
