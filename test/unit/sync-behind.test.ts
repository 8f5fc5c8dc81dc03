/** A large file is synced while a library writes it, and a sync that fails is nobody's secret. */

import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, realpathSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { syncingBehind } from '../../src/lib/sync-behind.ts';
import { Engine } from '../../src/staging/engine/engine.ts';

/** Longer than until the first sync. */
const LONG_MS = 700;

const isLinux = process.platform === 'linux';

function folder(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-behind-')));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

function opened(path: string, flags: number): number {
  const descriptor = openSync(path, flags);
  onTestFinished(() => closeSync(descriptor));
  return descriptor;
}

/** A pipe with a name: the system refuses to sync it. */
function unsyncable(): string {
  const path = join(folder(), 'pipe');
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  opened(path, constants.O_RDWR);
  return path;
}

it('returns what the work returns, whether the file is open or not', async () => {
  const path = join(folder(), 'file');
  const work = async (): Promise<string> => {
    await setTimeout(LONG_MS);
    return 'done';
  };
  expect(await syncingBehind({ path, clock: systemClock }, work)).toBe('done');
  writeSync(opened(path, constants.O_RDWR | constants.O_CREAT), 'text');
  expect(await syncingBehind({ path, clock: systemClock }, work)).toBe('done');
});

it.skipIf(!isLinux)('fails work during which a sync has failed, once the work has ended', async () => {
  const path = unsyncable();
  let isOver = false;
  const work = async (): Promise<void> => {
    await setTimeout(LONG_MS);
    isOver = true;
  };
  await expect(syncingBehind({ path, clock: systemClock }, work)).rejects.toMatchObject({ code: 'EINVAL' });
  expect(isOver).toBe(true);
});

it.skipIf(!isLinux)('reports the error of the work rather than that of a sync', async () => {
  const path = unsyncable();
  const work = async (): Promise<void> => {
    await setTimeout(LONG_MS);
    throw new Error('the work failed');
  };
  await expect(syncingBehind({ path, clock: systemClock }, work)).rejects.toThrow('the work failed');
});

it.skipIf(!isLinux)('does not sync for work that is soon over', async () => {
  const path = unsyncable();
  expect(await syncingBehind({ path, clock: systemClock }, async () => 'done')).toBe('done');
});

it.skipIf(!isLinux)(
  'fails a statement of DuckDB whose file cannot be synced, and has the instance reopened',
  async () => {
    const engine = new Engine({
      memoryLimitBytes: 500_000_000,
      threads: 1,
      temporaryDirectory: folder(),
      directories: [],
      clock: systemClock,
      syncBehind: { path: unsyncable(), clock: systemClock },
    });
    onTestFinished(() => engine.close());
    const long = 'CREATE TABLE t AS SELECT sum(hash(i)) FROM range(400000000) AS r(i)';
    await expect(engine.runWhileSpaceIsFree(long)).rejects.toMatchObject({
      fault: 'gave-up',
      endsInstance: true,
    });
    expect(engine.invalidated).toBe(true);
    await engine.reopen();
    await engine.runWhileSpaceIsFree('CREATE TABLE t AS SELECT 1');
    expect(engine.invalidated).toBe(false);
  },
);
