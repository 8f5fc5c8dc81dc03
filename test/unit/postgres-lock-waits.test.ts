/** How long commits in PostgreSQL wait for the locks of readers. */

import { expect, it } from 'vitest';
import type { Transaction } from '../../src/destination/postgres/connection.ts';
import { PostgresError } from '../../src/destination/postgres/errors.ts';
import { alterPatiently, LockPatience } from '../../src/destination/postgres/lock-waits.ts';
import { waitAtMost } from '../../src/destination/postgres/settings.ts';
import { systemClock } from '../../src/lib/clock.ts';

const LOCK_WAIT_MS = 60_000;

function atWork() {
  let nowMs = 0;
  const clock = { ...systemClock, monotonicMs: () => nowMs };
  const tried: number[] = [];
  let isLocked = true;
  /** A table that a reader has locked; each try and each pause takes as long as the statement says. */
  const run = async (sql: string): Promise<number> => {
    if (sql.includes('pg_sleep')) nowMs += 300;
    if (!sql.startsWith('ALTER') || !isLocked) return 0;
    nowMs += 200;
    tried.push(nowMs);
    throw new PostgresError('locked', 'canceling statement due to lock timeout', null);
  };
  const runAll = async (statements: readonly string[]): Promise<void> => {
    for (const statement of statements) await run(statement);
  };
  const transaction = { run, runAll } as unknown as Transaction;
  const alter = alterPatiently(transaction, { clock, lockWaitMs: LOCK_WAIT_MS }, async () => []);
  return {
    clock,
    tried,
    alter: () => alter(['ALTER TABLE parcels']),
    pass: (ms: number) => {
      nowMs += ms;
    },
    lock: (isIt: boolean) => {
      isLocked = isIt;
    },
  };
}

it('waits up to lock.wait with a statement that alters a table, also after rows that took longer', async () => {
  const { alter, pass, tried } = atWork();
  pass(10 * LOCK_WAIT_MS);
  await expect(alter()).rejects.toMatchObject({ fault: 'locked' });
  expect([(tried.at(-1) ?? 0) - (tried[0] ?? 0) >= LOCK_WAIT_MS - 1_000, tried.length]).toEqual([true, 121]);
});

it('bounds the waits of all statements of a transaction by lock.wait, without the time between them', async () => {
  const { alter, pass, tried, lock } = atWork();
  lock(false);
  await alter();
  pass(10 * LOCK_WAIT_MS);
  lock(true);
  await expect(alter()).rejects.toMatchObject({ fault: 'locked' });
  expect(tried.length).toBe(121);
});

it('waits only briefly after a commit that waited in vain, for as long again', () => {
  const { clock, pass } = atWork();
  const patience = new LockPatience({ clock, lockWaitMs: LOCK_WAIT_MS });
  expect(patience.lockWaitMs).toBe(LOCK_WAIT_MS);
  pass(LOCK_WAIT_MS);
  patience.noteVain();
  expect(patience.lockWaitMs).toBe(2_000);
  pass(LOCK_WAIT_MS - 1);
  patience.noteVain();
  expect(patience.lockWaitMs).toBe(2_000);
  pass(1);
  expect(patience.lockWaitMs).toBe(LOCK_WAIT_MS);
});

it.each([
  [60_000, 60_000],
  [0, 200],
  [1e12, 2_147_483_647],
])('takes a limit of %s ms that the server accepts', (lockWaitMs, ms) => {
  expect(waitAtMost(lockWaitMs)).toBe(`SET LOCAL lock_timeout = ${ms}`);
});
