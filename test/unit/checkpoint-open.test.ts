/** Opening the checkpoint: a damaged file is quarantined, a foreign or newer one left alone, errors named. */

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Place, withStorageErrors } from '../../src/checkpoint/sqlite/errors.ts';
import { CURRENT_FORMAT } from '../../src/checkpoint/sqlite/format.ts';
import { inspectCheckpoint, openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { MAX_QUARANTINED } from '../../src/lib/quarantine.ts';
import { BusyError, ConfigurationError, StorageError } from '../../src/model/errors.ts';
import {
  commit,
  event,
  joined,
  NOON,
  NOON_CLOCK,
  openAt,
  position,
  temporaryPath,
} from '../support/checkpoint-files.ts';

const NOON_COPY = 'checkpoint.sqlite.corrupt-20260301T120000000Z';

function namesBeside(path: string): readonly string[] {
  return readdirSync(dirname(path)).sort();
}

/** A checkpoint with the desired state of one dataset, closed. */
async function filledPath(): Promise<string> {
  const path = temporaryPath('checkpoint.sqlite');
  const checkpoint = await openAt(path);
  commit(checkpoint, 's', joined('d'));
  checkpoint.close();
  return path;
}

function change(path: string, sql: string): void {
  const database = new Database(path);
  database.exec(sql);
  database.close();
}

describe('a new checkpoint', () => {
  it('creates a checkpoint with its folders, for the owner alone', async () => {
    const path = join(dirname(temporaryPath('x')), 'a', 'b', 'checkpoint.sqlite');
    commit(await openAt(path), 's');
    const mode = (of: string): number => statSync(of).mode & 0o777;
    expect(mode(dirname(path))).toBe(0o700);
    expect(namesBeside(path)).toEqual([
      'checkpoint.sqlite',
      'checkpoint.sqlite-shm',
      'checkpoint.sqlite-wal',
    ]);
    for (const name of namesBeside(path)) expect(mode(join(dirname(path), name)), name).toBe(0o600);
  });

  it('creates a checkpoint in an empty file, too', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    writeFileSync(path, '');
    expect((await openAt(path)).followed().size).toBe(0);
  });

  it('a new checkpoint does not take up the log of a file that is gone', async () => {
    const path = await filledPath();
    const checkpoint = await openAt(path);
    commit(checkpoint, 's', joined('e'));
    const log = readFileSync(`${path}-wal`);
    const other = temporaryPath('checkpoint.sqlite');
    writeFileSync(`${other}-wal`, log);
    expect((await openAt(other)).desiredStates().size).toBe(0);
  });
});

describe('F03 a damaged checkpoint', () => {
  const damages: readonly (readonly [string, (path: string) => void])[] = [
    ['text', (path) => writeFileSync(path, 'this is no database, though it is long enough to be read')],
    ['a file cut short', (path) => truncateSync(path, 4_096 * 2 + 100)],
    [
      'a file with a page of noise',
      (path) => {
        const bytes = readFileSync(path);
        bytes.fill(0xa5, 4_096, 4_096 * 3);
        writeFileSync(path, bytes);
      },
    ],
    ['a file that lacks a table', (path) => change(path, 'DROP TABLE desired_reloads')],
    ['an invalid time', (path) => change(path, "UPDATE desired_members SET decided_at = '2026-0!'")],
  ];

  it.each(damages)('quarantines a damaged checkpoint and creates a new one: %s', async (_, damage) => {
    const path = await filledPath();
    damage(path);
    const damaged = readFileSync(path);
    const errors: unknown[] = [];
    const log: Log = { ...silentLog, error: (fields) => errors.push(fields) };
    const checkpoint = await openAt(path, log);
    expect(checkpoint.desiredStates().size).toBe(0);
    commit(checkpoint, 's', joined('d'));
    expect(checkpoint.desiredStates().size).toBe(1);
    const quarantined = join(dirname(path), NOON_COPY);
    expect(errors).toEqual([{ path, quarantinedAs: quarantined }]);
    expect(readFileSync(quarantined).equals(damaged)).toBe(true);
  });

  it('quarantines the log of a damaged checkpoint with it where a reader still has it open', async () => {
    const path = await filledPath();
    const reader = new Database(path);
    onTestFinished(() => void reader.close());
    reader.exec('PRAGMA journal_mode = WAL; PRAGMA user_version = 4');
    truncateSync(path, 4_096);
    const checkpoint = await openAt(path);
    commit(checkpoint, 's', joined('new'));
    checkpoint.close();
    expect(namesBeside(path)).toEqual([basename(path), NOON_COPY, `${NOON_COPY}-shm`, `${NOON_COPY}-wal`]);
    expect([...(await openAt(path)).desiredStates().keys()]).toEqual(['new']);
  });

  it(`quarantines ${MAX_QUARANTINED} damaged checkpoints, and then refuses to start until an operator acts`, async () => {
    const path = temporaryPath('checkpoint.sqlite');
    for (let copy = 0; copy < MAX_QUARANTINED; copy += 1) {
      writeFileSync(path, `damaged for the time number ${copy}, and long enough to be read`);
      const later = new Date(NOON.getTime() + copy);
      (await openAt(path, silentLog, { ...NOON_CLOCK, now: () => later })).close();
    }
    writeFileSync(path, 'damaged once more, and this, too, is long enough to be read');
    const opening = openAt(path);
    await expect(opening).rejects.toThrow(StorageError);
    await expect(opening).rejects.toThrow(join(dirname(path), NOON_COPY));
    expect(readFileSync(path, 'utf8')).toMatch(/^damaged once more/);
    expect(namesBeside(path).filter((name) => name.includes('corrupt'))).toHaveLength(MAX_QUARANTINED);
  });
});

describe('a file of another program', () => {
  it('refuses a checkpoint that a newer program wrote', async () => {
    const path = await filledPath();
    change(path, 'PRAGMA user_version = 99');
    const before = readFileSync(path);
    const opening = openAt(path);
    await expect(opening).rejects.toThrow(ConfigurationError);
    await expect(opening).rejects.toThrow(
      `${path} has format 99; this program knows formats up to ${CURRENT_FORMAT}.`,
    );
    expect(() => openCheckpointReader({ path, uid: 1000 })).toThrow(ConfigurationError);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("refuses somebody else's database", async () => {
    const path = temporaryPath('checkpoint.sqlite');
    change(path, 'CREATE TABLE mine (a); INSERT INTO mine VALUES (1)');
    const before = readFileSync(path);
    await expect(openAt(path)).rejects.toThrow(ConfigurationError);
    expect(() => openCheckpointReader({ path, uid: 1000 })).toThrow('not a checkpoint of feed-sync');
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(namesBeside(path)).toEqual([basename(path)]);
  });
});

describe('F11 a place that cannot be written', () => {
  it('F66 names the file that stands where the folder of the checkpoint would be', async () => {
    const path = join(temporaryPath('data'), 'checkpoint.sqlite');
    writeFileSync(dirname(path), 'x');
    await expect(openAt(path)).rejects.toMatchObject({
      code: 'storage_failed',
      message: `The checkpoint ${path} cannot be opened: ${dirname(path)} is a file, where a folder is needed.`,
      hint: 'Move the file away, or set another path.',
    });
  });

  it('names the user id where a folder stands in place of the file', async () => {
    const path = join(temporaryPath('data'), 'checkpoint.sqlite');
    mkdirSync(path, { recursive: true });
    const opening = openAt(path);
    await expect(opening).rejects.toThrow(StorageError);
    await expect(opening).rejects.toThrow(path);
    await expect(opening).rejects.toThrow('user id 1000');
    await expect(opening).rejects.toHaveProperty('hint', expect.stringContaining(dirname(path)));
  });

  it.skipIf(process.getuid?.() === 0)('names the user id where the folder may not be written', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    chmodSync(dirname(path), 0o500);
    await expect(openAt(path)).rejects.toThrow(StorageError);
    await expect(openAt(path)).rejects.toThrow(/checkpoint\.sqlite cannot be .* by user id 1000/);
  });
});

describe('errors of SQLite and of the system', () => {
  const place: Place = {
    what: 'checkpoint',
    path: '/data/checkpoint.sqlite',
    uid: 7,
    ifDamaged: 'start again',
  };
  const system = (code: string): Error => Object.assign(new Error(code), { code });
  const sqlite = (code: string): Error => new Database.SqliteError('the reason', code);

  it.each([
    [sqlite('SQLITE_FULL'), /disk is full: the checkpoint \/data\/checkpoint\.sqlite/],
    [system('ENOSPC'), /disk is full/],
    [sqlite('SQLITE_IOERR_WRITE'), /failed \(user id 7\): the reason/],
    [sqlite('SQLITE_READONLY_DIRECTORY'), /cannot be opened or written by user id 7/],
    [sqlite('SQLITE_CANTOPEN_ISDIR'), /cannot be opened or written by user id 7/],
    [sqlite('SQLITE_PERM'), /cannot be opened or written by user id 7/],
    [system('EROFS'), /cannot be opened or written by user id 7/],
    [sqlite('SQLITE_CORRUPT_INDEX'), /is damaged: the reason/],
  ])('throws a StorageError that names the file: %s', (error, message) => {
    const fails = (): never =>
      withStorageErrors(place, () => {
        throw error;
      });
    expect(fails).toThrow(StorageError);
    expect(fails).toThrow(message);
    expect(fails).toThrow(expect.objectContaining({ cause: error, hint: expect.any(String) }));
  });

  it('throws a BusyError where another process writes', () => {
    expect(() =>
      withStorageErrors(place, () => {
        throw sqlite('SQLITE_BUSY_SNAPSHOT');
      }),
    ).toThrow(BusyError);
  });

  it('passes on an error that is a bug of ours', () => {
    const bug = sqlite('SQLITE_CONSTRAINT_CHECK');
    expect(() =>
      withStorageErrors(place, () => {
        throw bug;
      }),
    ).toThrow(bug);
  });
});

describe('a checkpoint reader', () => {
  it('opens no reader where there is no checkpoint, and creates none', () => {
    const path = temporaryPath('checkpoint.sqlite');
    expect(openCheckpointReader({ path, uid: null })).toBeNull();
    expect(openCheckpointReader({ path: join(path, 'deeper'), uid: null })).toBeNull();
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, '');
    expect(openCheckpointReader({ path, uid: null })).toBeNull();
    expect(statSync(path).size).toBe(0);
  });

  it('a reader names a damaged file and leaves it', () => {
    const path = temporaryPath('checkpoint.sqlite');
    writeFileSync(path, 'this is no database, though it is long enough to be read');
    expect(() => openCheckpointReader({ path, uid: null })).toThrow(StorageError);
    expect(namesBeside(path)).toEqual([basename(path)]);
  });

  it('F03 names a file as damaged whose column has another name, and one with an invalid time', async () => {
    const path = await filledPath();
    change(path, 'ALTER TABLE desired_members RENAME COLUMN announced TO announcee');
    expect(() => openCheckpointReader({ path, uid: null })).toThrow(/is damaged: no such column/);
    const other = await filledPath();
    change(other, "UPDATE desired_members SET decided_at = '2026-0!'");
    const reader = openCheckpointReader({ path: other, uid: null });
    expect(() => reader?.desiredStates()).toThrow(/is damaged: desired_members.decided_at holds what/);
    reader?.close();
  });

  it('F58 a reader names a file as damaged that has a word which was never written', async () => {
    const path = await filledPath();
    const row = "'s d', 'chapter', 's', 'd', NULL, '2026-03-01T12:00:00.000Z'";
    change(path, `PRAGMA ignore_check_constraints = ON; INSERT INTO absences VALUES (${row})`);
    const reader = openCheckpointReader({ path, uid: null });
    expect(() => reader?.absences()).toThrow(/is damaged: absences.kind holds what was never written/);
    reader?.close();
  });

  it('a reader sees one state while the writer goes on', async () => {
    const path = await filledPath();
    const checkpoint = await openAt(path);
    const reader = openCheckpointReader({ path, uid: null });
    expect(reader?.desiredStates().size).toBe(1);
    checkpoint.commitFollowStep({
      subscriptionId: 's',
      subscriptionName: null,
      position: position(event(2n)),
      changes: [joined('e')],
    });
    expect(reader?.desiredStates().size).toBe(1);
    expect(reader?.followed().get('s')?.cursor).toBeNull();
    reader?.close();
    const later = openCheckpointReader({ path, uid: null });
    expect(later?.desiredStates().size).toBe(2);
    expect(later?.followed().get('s')?.cursor).toEqual(event(2n));
    expect([later?.suspensions(), later?.failures().size, later?.recentSyncRuns(5)]).toEqual([[], 0, []]);
    expect(later?.rememberedContract()).toEqual({ manifestPath: null, newerThanParameter: null });
    later?.close();
  });
});

describe('reading a checkpoint', () => {
  const inspected = (path: string) => inspectCheckpoint({ path, uid: null });

  it.each([
    ['one file', async () => filledPath()],
    [
      'a file whose log was removed without a change of its mode',
      async () => {
        const path = await filledPath();
        change(path, 'PRAGMA journal_mode = WAL');
        return path;
      },
    ],
  ])('reading leaves a closed checkpoint as it is: %s', async (_, closedPath) => {
    const path = await closedPath();
    const before = readFileSync(path);
    openCheckpointReader({ path, uid: null })?.close();
    const found = inspected(path);
    expect(found.kind).toBe('sound');
    if (found.kind === 'sound') found.content.close();
    expect(namesBeside(path)).toEqual([basename(path)]);
    expect(readFileSync(path)).toEqual(before);
  });

  it('names an older format and does not migrate the file', async () => {
    const path = await filledPath();
    change(path, 'PRAGMA user_version = 5');
    const before = readFileSync(path);
    expect(inspected(path)).toEqual({ kind: 'older', format: 5 });
    expect(() => openCheckpointReader({ path, uid: null })).toThrow('was written by an older version');
    expect(readFileSync(path)).toEqual(before);
  });

  it('says why a checkpoint with an unfinished log cannot be opened read-only', async () => {
    const path = await filledPath();
    change(path, 'PRAGMA journal_mode = WAL');
    mkdirSync(`${path}-wal`);
    expect(inspected(path)).toEqual({ kind: 'unreadable', reason: 'unable to open database file' });
  });
});
