/** F09: at most one process works on a data directory, and the next one can as soon as the first has ended, however it ended. */

import { existsSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  acquireInstanceLock,
  type InstanceLock,
  readInstanceLock,
} from '../../src/checkpoint/instance-lock.ts';
import { BusyError, StorageError } from '../../src/model/errors.ts';
import { NOON, temporaryPath } from '../support/checkpoint-files.ts';
import { type Child, startChild } from '../support/child.ts';

const HOLDER = { pid: 4_321, host: "o'host", startedAt: NOON, command: 'once' };

/** The most that a refused start may take; on a machine on which everything takes longer, so many times a good one. */
const AT_ONCE_MS = 2_000;
const TIMES_A_GOOD_ONE = 50;

async function acquire(path: string, holder = HOLDER): Promise<InstanceLock> {
  const lock = await acquireInstanceLock({ path, uid: 1000, holder });
  onTestFinished(() => lock.release());
  return lock;
}

function start(path: string): Child {
  const child = startChild('instance-lock-holder-child.ts', path);
  onTestFinished(() => child.kill());
  return child;
}

function read(path: string): ReturnType<typeof readInstanceLock> {
  return readInstanceLock({ path, uid: 1000 });
}

describe('F09 the instance lock', () => {
  it('admits one holder, and the next one after a release', async () => {
    const path = temporaryPath('lock.sqlite');
    const first = await acquire(path);
    await expect(acquire(path)).rejects.toThrow(BusyError);
    first.release();
    first.release();
    const second = await acquire(path, { ...HOLDER, pid: 5 });
    expect(read(path).holder?.pid).toBe(5);
    second.release();
  });

  it('names its holder at once to the next process', async () => {
    const path = temporaryPath('lock.sqlite');
    const beganMs = performance.now();
    await acquire(path);
    const startedMs = performance.now();
    const error: unknown = await acquire(path, { ...HOLDER, pid: 5 }).catch((thrown: unknown) => thrown);
    const atOnceMs = Math.max(AT_ONCE_MS, TIMES_A_GOOD_ONE * (startedMs - beganMs));
    expect(performance.now() - startedMs).toBeLessThan(atOnceMs);
    expect(error).toBeInstanceOf(BusyError);
    expect(error).toHaveProperty(
      'message',
      expect.stringContaining("process 4321 on o'host, `once`, since 2026-03-01"),
    );
    expect(error).toHaveProperty('message', expect.stringContaining(path));
    expect(read(path)).toEqual({ isLocked: true, holder: HOLDER });
  });

  it('is freed by SIGKILL of its process', async () => {
    const path = temporaryPath('lock.sqlite');
    const child = start(path);
    expect(await child.nextLine()).toBe('held');
    await expect(acquire(path)).rejects.toThrow(`process ${child.pid} on`);
    expect(read(path)).toMatchObject({ isLocked: true, holder: { pid: child.pid, command: 'run' } });
    await child.kill();
    expect(read(path)).toEqual({ isLocked: false, holder: null });
    await acquire(path);
    expect(read(path)).toEqual({ isLocked: true, holder: HOLDER });
  });

  it('admits exactly one of several processes that start together', async () => {
    const path = temporaryPath('lock.sqlite');
    const children = [start(path), start(path), start(path), start(path)];
    const answers = await Promise.all(children.map((child) => child.nextLine()));
    expect(answers.sort()).toEqual(['busy', 'busy', 'busy', 'held']);
    const winner = read(path).holder?.pid;
    expect(children.map(({ pid }) => pid)).toContain(winner);
  });

  it('stays locked while others read it and ask for it', async () => {
    const path = temporaryPath('lock.sqlite');
    await acquire(path);
    for (let time = 1; time <= 20; time += 1) expect(read(path).isLocked).toBe(true);
    const child = start(path);
    expect(await child.nextLine()).toBe('busy');
    expect(read(path)).toEqual({ isLocked: true, holder: HOLDER });
  });
});

describe('the file of the instance lock', () => {
  it('creates the file of the lock with its folder, for the owner alone', async () => {
    const path = join(temporaryPath('data'), 'lock.sqlite');
    expect(read(path)).toEqual({ isLocked: false, holder: null });
    expect(existsSync(path)).toBe(false);
    await acquire(path);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('locks an empty file', async () => {
    const path = temporaryPath('lock.sqlite');
    writeFileSync(path, '');
    expect(read(path)).toEqual({ isLocked: false, holder: null });
    await acquire(path);
    expect(read(path).isLocked).toBe(true);
  });

  it('names a damaged or impossible file of the lock, with a hint', async () => {
    const path = temporaryPath('lock.sqlite');
    writeFileSync(path, 'this is no database, though it is long enough to be looked at');
    const error: unknown = await acquire(path).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StorageError);
    expect(error).toHaveProperty('hint', expect.stringContaining('then remove the file'));
    expect(() => read(path)).toThrow(StorageError);
    const inFile = acquire(join(path, 'data', 'lock.sqlite'));
    await expect(inFile).rejects.toThrow(StorageError);
    await expect(inFile).rejects.toThrow('is a file, where a folder is needed');
  });
});
