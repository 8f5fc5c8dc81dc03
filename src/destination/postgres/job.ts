/** What a validated job does in its transaction, and what the transaction gives it. */

import type { Clock } from '../../lib/clock.ts';
import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import type { CatalogEntry } from '../catalog/entries.ts';
import type { ValidatedJob } from '../destination.ts';
import type { Awaiting } from '../judge-commit.ts';
import type { Current } from './catalog/observed-state.ts';
import type { Transaction } from './connection.ts';
import { type CopiedRows, copyRows, type Pipe } from './copy-rows.ts';
import { PostgresError } from './errors.ts';
import type { Indexes } from './tables.ts';
import type { Postgis } from './types.ts';

/** A transaction of one job. */
export interface Turn {
  readonly transaction: Transaction;
  /** The number that the commit takes. */
  readonly commitNumber: number;
  readonly appliedAt: Date;
  /** True when the dataset keeps its history. */
  readonly keepsHistory: boolean;
  readonly postgis: Postgis | null;
  /** The indexes of new tables. */
  readonly indexes: Indexes;
  /** Reads the rows of files. */
  readonly staging: Engine;
  /** `target` is a table with its columns. Resolves to the number of rows. @throws DuckDbError, PostgresError */
  copy(target: string, rows: Omit<CopiedRows, 'hasPostgis'>): Promise<number>;
  /** Runs statements that need a lock which keeps readers out: with little patience, again and again. @throws PostgresError */
  alter(statements: readonly string[]): Promise<void>;
}

export interface ValidatedWrite extends ValidatedJob {
  /**
   * Works on the rows inside the transaction. Any error must roll it back. Returns null, without any change, when the database
   * differs from the state that the job was planned from. Where the commit awaits approval, the transaction must be rolled back.
   */
  execute(turn: Turn, current: Current): Promise<CatalogEntry | Awaiting | null>;
  /** Turns an error of `execute` into the error for the operator and the planner. Never throws. */
  explain(engine: Engine, error: unknown): Promise<Error>;
}

export type JobOf<Kind extends WriteJob['kind']> = Extract<WriteJob, { kind: Kind }>;

/** How often a statement that waits for readers is tried, and how long it waits each time: readers queue behind it meanwhile. */
const LOCK_TIMEOUT = '200ms';
const LOCK_PAUSE_S = 0.3;

/**
 * Returns the `alter` of a transaction that begins now. A failed statement ends with its savepoint, not with the transaction.
 * `locks` returns statements that come before the first one, with the same patience: they take what later ones need, too. Between
 * tries the transaction keeps the locks of earlier ones, and a reader who waits for one must not have what it waits for itself.
 */
export function alterPatiently(
  transaction: Transaction,
  { clock, lockWaitMs }: { readonly clock: Clock; readonly lockWaitMs: number },
  locks: () => Promise<readonly string[]>,
): Turn['alter'] {
  const startedMs = clock.monotonicMs();
  const isLate = (): boolean => clock.monotonicMs() - startedMs > lockWaitMs;
  let isFirst = true;
  return async (statements) => {
    if (statements.length === 0) return;
    const first = isFirst ? await locks() : [];
    isFirst = false;
    await tryUntil(isLate, transaction, [...first, ...statements]);
  };
}

async function tryUntil(
  isLate: () => boolean,
  transaction: Transaction,
  statements: readonly string[],
): Promise<void> {
  await transaction.run(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
  for (;;) {
    await transaction.run('SAVEPOINT alteration');
    try {
      await transaction.run(statements.join(';\n'));
      await transaction.run('RELEASE SAVEPOINT alteration; SET LOCAL lock_timeout = 0');
      return;
    } catch (error) {
      const isLocked = error instanceof PostgresError && error.fault === 'locked';
      if (!isLocked || isLate()) throw error;
      await transaction.run('ROLLBACK TO SAVEPOINT alteration');
      await transaction.run(`SELECT pg_sleep(${LOCK_PAUSE_S})`);
    }
  }
}

export function copyInto(
  engine: Engine,
  pipe: Pipe,
  { transaction, postgis }: Pick<Turn, 'transaction' | 'postgis'>,
): Turn['copy'] {
  return (target, rows) =>
    copyRows(engine, pipe, transaction, target, { ...rows, hasPostgis: postgis !== null });
}
