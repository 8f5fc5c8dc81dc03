/**
 * How long a commit waits for the locks of readers: `lock.wait`. Commits come one after another, so all others wait as long; no reader
 * holds up the writer for longer.
 */

import type { Clock } from '../../lib/clock.ts';
import type { Transaction } from './connection.ts';
import { PostgresError } from './errors.ts';
import { LEAST_LOCK_WAIT_MS, waitAtMost } from './settings.ts';

/** How often a statement that keeps readers out is tried, and how long it waits each time: readers queue behind it meanwhile. */
const TRY_MS = LEAST_LOCK_WAIT_MS;
const PAUSE_S = 0.3;
/** Longer than a server lets its own VACUUM stand in the way of a statement (deadlock_timeout, a second). */
const BRIEF_MS = 2_000;

export function isLocked(error: unknown): boolean {
  return error instanceof PostgresError && error.fault === 'locked';
}

interface LockWait {
  readonly clock: Clock;
  readonly lockWaitMs: number;
}

/**
 * The patience with locks. Once a commit or a reading statement has waited in vain, those after it wait only briefly, for as long again:
 * one reader may hold many tables.
 */
export class LockPatience {
  readonly #options: LockWait;
  #briefUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: LockWait) {
    this.#options = options;
  }

  /** How long the commit that begins now waits. */
  get lockWaitMs(): number {
    const { lockWaitMs } = this.#options;
    return this.#isBrief ? Math.min(BRIEF_MS, lockWaitMs) : lockWaitMs;
  }

  /** Notes that a commit could not be made for a lock. One that waited only briefly says nothing of the next. */
  noteVain(): void {
    const { clock, lockWaitMs } = this.#options;
    if (!this.#isBrief) this.#briefUntilMs = clock.monotonicMs() + lockWaitMs;
  }

  /** Runs work that waits so long, and notes where that was in vain. @throws its errors */
  async waiting<T>(work: (lockWaitMs: number) => Promise<T>): Promise<T> {
    try {
      return await work(this.lockWaitMs);
    } catch (error) {
      if (isLocked(error)) this.noteVain();
      throw error;
    }
  }

  get #isBrief(): boolean {
    return this.#options.clock.monotonicMs() < this.#briefUntilMs;
  }
}

/**
 * Returns the `alter` of one transaction. A failed statement ends with its savepoint, not with the transaction. Only the time counts
 * in which something was waited for. `locks` returns statements that come before the first one, with the same patience: they take what
 * later ones need, too. Between tries the transaction keeps the locks of earlier ones, and a reader who waits for one must not have
 * what it waits for itself.
 */
export function alterPatiently(
  transaction: Transaction,
  { clock, lockWaitMs }: LockWait,
  locks: () => Promise<readonly string[]>,
): (statements: readonly string[]) => Promise<void> {
  let waitedMs = 0;
  let isFirst = true;
  return async (statements) => {
    if (statements.length === 0) return;
    const first = isFirst ? await locks() : [];
    isFirst = false;
    const startedMs = clock.monotonicMs() - waitedMs;
    const isLate = (): boolean => clock.monotonicMs() - startedMs > lockWaitMs;
    const isAtOnce = await tryUntil(isLate, transaction, [...first, ...statements]);
    if (!isAtOnce) waitedMs = clock.monotonicMs() - startedMs;
    await transaction.run(waitAtMost(lockWaitMs));
  };
}

/** Resolves to whether nothing was waited for. */
async function tryUntil(
  isLate: () => boolean,
  transaction: Transaction,
  statements: readonly string[],
): Promise<boolean> {
  await transaction.run(waitAtMost(TRY_MS));
  for (let attempt = 1; ; attempt += 1) {
    await transaction.run('SAVEPOINT alteration');
    try {
      await transaction.runAll(statements);
      await transaction.run('RELEASE SAVEPOINT alteration');
      return attempt === 1;
    } catch (error) {
      if (!isLocked(error) || isLate()) throw error;
      await transaction.run('ROLLBACK TO SAVEPOINT alteration');
      await transaction.run(`SELECT pg_sleep(${PAUSE_S})`);
    }
  }
}
