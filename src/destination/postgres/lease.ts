/**
 * The exclusion of writers: one row with an epoch and a random token.
 *
 * Invariants: a transaction that writes locks the row FOR KEY SHARE and compares both; whoever takes the row over locks it FOR
 * UPDATE, waits for such transactions or ends their sessions, and raises the epoch. So a writer that was stopped and woken can do
 * no harm. The lease is renewed over a connection of its own, by the server's clock, and changes other columns only: a transaction
 * that takes longer than the lease is left alone. Transactions that write the mirror come one after another, also those of one
 * writer: where a connection breaks in COMMIT, the server may go on with it for long, and until it is done nobody sees its rows.
 */

import { isDeepStrictEqual } from 'node:util';
import { type Clock, deadlineIn } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Secret } from '../../lib/secret.ts';
import { BusyError } from '../../model/errors.ts';
import { bigintAt, booleanAt, integer, numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { catalogTable } from './catalog/names.ts';
import { Connection, SMALL_ANSWER_MS, type Transaction } from './connection.ts';
import { diagnose, PostgresError } from './errors.ts';
import { BEGUN_AT, type GivenUpSessions, isOneOf, type Session } from './sessions.ts';

/** A standby checks so often whether the lease has ended. */
const POLL_EVERY_MS = 500;
/** The lease is renewed so often within its time. */
const RENEWALS = 3;
/** However long the lease is, it is renewed after this time: each renewal checks whether the server works on a statement. */
const RENEW_WITHIN_MS = 60_000;
/** A process that stops waits this long for the server to take the lease back. Without an answer the lease ends by its time. */
export const GIVE_BACK_WITHIN_MS = 5_000;
const LEASE_OID = `'${catalogTable('lease')}'::regclass::oid`;
/** A lock of the database until the end of the transaction, by a number that nobody else has a use for. */
const ALONE = `SELECT pg_advisory_xact_lock(${LEASE_OID}::bigint)`;
/** Selects the lock from `pg_locks` where somebody has it. */
const HAS_ALONE = `locktype = 'advisory' AND granted AND (classid, objid, objsubid) = (0, ${LEASE_OID}, 1)
  AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`;
/** The session `pid` writes the mirror. */
export const WRITES_ALONE = `pid IN (SELECT pid FROM pg_catalog.pg_locks WHERE ${HAS_ALONE})`;
/** How long a takeover waits for a transaction of the earlier writer before it ends its session. */
const PATIENCE = "SET LOCAL lock_timeout = '1s'";

export interface LeaseOptions {
  readonly url: Secret;
  /** The database without its password, for messages. */
  readonly place: string;
  readonly leaseMs: number;
  /** How long another writer is waited for. */
  readonly waitMs: number;
  /** Random, different for each process. */
  readonly token: string;
  /** Names this process for people. */
  readonly holder: string;
  /** Called with the holder each time that the lease is found held; with it, another writer is waited for without end. */
  readonly onStandby?: (holder: string) => void;
  /** Called once when another writer has taken over. */
  readonly onSuperseded?: (error: BusyError) => void;
  /** Sessions of this instance that were given up. */
  readonly givenUp?: GivenUpSessions;
  /** The database has Citus, whose sessions may wait for a node without end. */
  readonly isCitus?: boolean;
  /** Called after each renewal, with a transaction of its connection. */
  readonly onRenewed?: (beside: Transaction) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

export class Lease {
  readonly #options: LeaseOptions;
  readonly #connection: Connection;
  readonly #over = new AbortController();
  readonly #epoch: number;
  /** Sessions of earlier instances that were cancelled before this one took over. */
  readonly #cancelled: readonly Session[];
  #isLost = false;
  /** Whether the last renewal had an answer. */
  #isAnswered = true;
  #renewing: Promise<void> = Promise.resolve();

  private constructor(
    options: LeaseOptions,
    connection: Connection,
    epoch: number,
    cancelled: readonly Session[],
  ) {
    this.#options = options;
    this.#connection = connection;
    this.#epoch = epoch;
    this.#cancelled = cancelled;
  }

  /** Waits until no other writer holds the lease. @throws BusyError when one holds it for longer than `waitMs`. */
  static async take(options: LeaseOptions): Promise<Lease> {
    const { url, clock, signal } = options;
    const connection = new Connection({ url, clock, ...(signal === undefined ? {} : { signal }) });
    const startedMs = clock.monotonicMs();
    const cancelled: Session[] = [];
    try {
      for (;;) {
        const epoch = await patiently(connection, options, cancelled);
        if (typeof epoch === 'number') {
          // Renewing and giving back go on while the process is asked to stop.
          await connection.close();
          const renewing = new Connection({ url, clock, answerMs: SMALL_ANSWER_MS });
          const lease = new Lease(options, renewing, epoch, cancelled);
          lease.#renewing = lease.#renew();
          return lease;
        }
        options.onStandby?.(epoch.holder);
        const isLate = clock.monotonicMs() - startedMs >= options.waitMs;
        if (isLate && options.onStandby === undefined) throw held(options, epoch);
        await clock.sleep(POLL_EVERY_MS, signal);
      }
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  /** The first statement of a transaction that writes beside the mirror. @throws BusyError when another writer has taken over. */
  async hold(transaction: Transaction): Promise<void> {
    const rows = this.#isLost
      ? []
      : await transaction.rows(
          `SELECT 1 FROM ${catalogTable('lease')} WHERE ${this.#isOurs()} FOR KEY SHARE`,
        );
    if (rows.length > 0) return;
    throw this.#lost();
  }

  /**
   * The first statements of a transaction that writes the mirror: begun after an earlier one, it sees what that one wrote.
   * @throws BusyError when another writer has taken over.
   */
  async holdAlone(transaction: Transaction): Promise<void> {
    await this.waitForEarlier(transaction);
    await this.hold(transaction);
  }

  /**
   * Waits until every transaction that writes the mirror has ended. The statements after it see what these have left. A session that
   * was given up keeps its locks until a node answers; while one may still commit, nobody has the row of the lease to himself.
   */
  async waitForEarlier(transaction: Transaction): Promise<void> {
    const { givenUp, clock } = this.#options;
    const inDoubt = givenUp?.inDoubt ?? null;
    const sessions = [...this.#cancelled, ...(givenUp?.ended ?? []), ...(inDoubt === null ? [] : [inDoubt])];
    if (!(await isHeldByOne(transaction, sessions))) await waitForEarlier(transaction);
    else if (inDoubt !== null) await waitForRow(transaction, clock);
    givenUp?.noteEnded();
  }

  /**
   * Refuses what an instance has found in the catalog whose lease was taken over: a commit that it took for its own may be another's.
   * @throws BusyError
   */
  async refuseIfLost(transaction: Transaction): Promise<void> {
    const rows = await transaction.rows(`SELECT 1 FROM ${catalogTable('lease')} WHERE ${this.#isOurs()}`);
    if (rows.length === 0) throw this.#lost();
  }

  #lost(): BusyError {
    const { place, onSuperseded } = this.#options;
    const error = new BusyError(
      `Another feed-sync has taken over the database ${place}: this one writes nothing any more.`,
      {
        code: 'instance_running',
        hint: 'Start it again, and it waits until the other one has ended.',
      },
    );
    if (!this.#isLost) onSuperseded?.(error);
    this.#isLost = true;
    return error;
  }

  /** Gives the lease back, so that the next writer need not wait. Without an answer of the server the lease ends by its time. */
  async release(): Promise<void> {
    const { log, place: path } = this.#options;
    this.#over.abort();
    const { over } = deadlineIn(GIVE_BACK_WITHIN_MS);
    const giveUp = (): void => this.#connection.abandon();
    over.addEventListener('abort', giveUp);
    const isGivenBack = await this.#giveBack();
    over.removeEventListener('abort', giveUp);
    if (!isGivenBack)
      log.warn({ path }, 'The lease of the database could not be given back: it ends by itself.');
    await this.#connection.close();
  }

  async #giveBack(): Promise<boolean> {
    await this.#renewing;
    if (!this.#isAnswered) return false;
    const given = `UPDATE ${catalogTable('lease')} SET expires_at = clock_timestamp() WHERE ${this.#isOurs()}`;
    return await this.#written(given).then(
      () => true,
      () => false,
    );
  }

  /** Resolves to the number of rows. In a transaction, so that no setting of the role has a part in it. */
  #written(statement: string): Promise<number> {
    return this.#connection.transaction((transaction) => transaction.run(statement));
  }

  #isOurs(): string {
    return `epoch = ${integer(this.#epoch)} AND token = ${text(this.#options.token)}`;
  }

  /** Never rejects. A renewal that fails is tried again: what counts is the row at the next transaction. */
  async #renew(): Promise<void> {
    const { leaseMs, onRenewed, clock, log, place: path } = this.#options;
    for (;;) {
      try {
        await clock.sleep(Math.min(leaseMs / RENEWALS, RENEW_WITHIN_MS), this.#over.signal);
      } catch {
        return;
      }
      try {
        const renewed = await this.#written(`UPDATE ${catalogTable('lease')}
          SET expires_at = clock_timestamp() + ${interval(leaseMs)} WHERE ${this.#isOurs()}`);
        this.#isAnswered = true;
        if (renewed === 0) {
          this.#lost();
          return;
        }
        // Other requests say nothing of the lease.
        if (onRenewed !== undefined) await this.#connection.transaction(onRenewed).catch(() => {});
      } catch (error) {
        this.#isAnswered = false;
        log.warn({ path, why: diagnose(error).message }, 'The lease of the database could not be renewed.');
      }
    }
  }
}

/**
 * Returns whether a session has the lock that commits nothing any more: it was given up before its COMMIT, or cancelled before a takeover,
 * which has waited for the row of the lease. So what it waits for is not waited for.
 */
async function isHeldByOne(transaction: Transaction, sessions: readonly Session[]): Promise<boolean> {
  if (sessions.length === 0) return false;
  const held = `SELECT 1 FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity AS a USING (pid)
    WHERE ${HAS_ALONE} AND ${isOneOf(sessions)}`;
  return (await transaction.rows(held)).length > 0;
}

async function waitForEarlier(transaction: Transaction): Promise<void> {
  await transaction.run(ALONE);
}

/** How often the row of the lease is tried for a session in doubt, which is cancelled meanwhile, and how long each time. */
const MAX_ROW_TRIES = 30;
const ROW_TRY = "SET LOCAL lock_timeout = '1s'";

/**
 * Waits until nobody has the row of the lease locked, and leaves it. One long wait would go on for a transaction that has ended, and
 * whose session keeps entries of locks. @throws PostgresError
 */
async function waitForRow(transaction: Transaction, clock: Clock): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    await transaction.run('SAVEPOINT row');
    await transaction.run(ROW_TRY);
    try {
      await transaction.rows(`SELECT 1 FROM ${catalogTable('lease')} FOR UPDATE`);
      await transaction.run('ROLLBACK TO SAVEPOINT row');
      return;
    } catch (error) {
      if (!(error instanceof PostgresError) || error.fault !== 'locked' || attempt === MAX_ROW_TRIES)
        throw error;
      await transaction.run('ROLLBACK TO SAVEPOINT row');
      await clock.sleep(POLL_EVERY_MS);
    }
  }
}

interface LeaseHolder {
  readonly holder: string;
  /** The advice about a holder that is no other instance. */
  readonly hint?: string;
}

/** A standby outlives a server that restarts. */
async function patiently(
  connection: Connection,
  options: LeaseOptions,
  cancelled: Session[],
): Promise<number | LeaseHolder> {
  try {
    return await takeOver(connection, options, cancelled);
  } catch (error) {
    const { fault, message } = diagnose(error);
    const isPassing = fault === 'unavailable' || fault === 'conflict';
    if (options.signal?.aborted === true || options.onStandby === undefined || !isPassing) throw error;
    return { holder: `nobody that can be seen: ${message}` };
  }
}

/** Returns the new epoch, or who holds the lease. The sessions that it cancels are added to `cancelled`. */
async function takeOver(
  connection: Connection,
  options: LeaseOptions,
  cancelled: Session[],
): Promise<number | LeaseHolder> {
  const seen = await connection.transaction((transaction) => readHolder(transaction), { isReadOnly: true });
  if (seen !== null) return seen;
  try {
    return await raiseEpoch(connection, options, cancelled);
  } catch (error) {
    if (!(error instanceof PostgresError) || error.fault !== 'locked') throw error;
    if (options.isCitus === true) {
      const now = await cancelHolders(connection);
      const isNew = (one: Session): boolean => !cancelled.some((before) => isDeepStrictEqual(before, one));
      cancelled.push(...now.filter(isNew));
    }
    const others = await endHolders(connection, cancelled);
    if (others.length === 0) return { holder: 'a writer whose session is being ended' };
    const hint = `Have a superuser end it: ${others.map(({ pid }) => `SELECT pg_terminate_backend(${pid})`).join('; ')}`;
    return { holder: others.map(nameOf).join('; '), hint };
  }
}

/** Returns null when nobody holds the lease. */
export async function readHolder(connection: Transaction, lock = ''): Promise<LeaseHolder | null> {
  const [row] = await connection.rows(
    `SELECT expires_at > clock_timestamp(), holder FROM ${catalogTable('lease')}${lock}`,
  );
  return row !== undefined && booleanAt(row, 0) ? { holder: textAt(row, 1) } : null;
}

/** An UPDATE without the lock would not wait for those who hold the row FOR KEY SHARE. */
async function raiseEpoch(
  connection: Connection,
  { leaseMs, token, holder }: LeaseOptions,
  cancelled: readonly Session[],
): Promise<number | LeaseHolder> {
  return await connection.transaction(async (transaction) => {
    await transaction.run(PATIENCE);
    if (!(await isHeldByOne(transaction, cancelled))) await waitForEarlier(transaction);
    const held = await readHolder(transaction, ' FOR UPDATE');
    if (held !== null) return held;
    const values = `${text(token)}, ${text(holder)}, clock_timestamp() + ${interval(leaseMs)}`;
    const [raised] = await transaction.rows(`UPDATE ${catalogTable('lease')}
      SET (epoch, token, holder, expires_at) = ROW (epoch + 1, ${values}) RETURNING epoch`);
    if (raised !== undefined) return numberAt(raised, 0);
    // Somebody has deleted the row. An index that somebody may have dropped is needed for none of it.
    const [row = []] = await transaction.rows(`INSERT INTO ${catalogTable('lease')}
      (only_row, epoch, token, holder, expires_at) VALUES (true, 1, ${values}) RETURNING epoch`);
    return numberAt(row, 0);
  });
}

/** A session that holds the lease, and that the role may not end. */
interface ForeignSession {
  readonly pid: number;
  readonly role: string;
  readonly program: string;
}

function nameOf({ pid, role, program }: ForeignSession): string {
  return `a session that this role may not end, which has the lease locked (process ${pid}, role ${role}, ${program})`;
}

/** Selects the sessions that hold the row of the lease, or write. */
const HOLDERS = `FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE pid <> pg_backend_pid()
  AND (relation = ${LEASE_OID} AND mode = 'RowShareLock' OR ${HAS_ALONE})`;

/**
 * Cancels the sessions that hold the row or write, and are in a statement: one that waits for a node of Citus rolls back at once, and
 * keeps its locks alone until that node answers. Ended, it would keep its transaction. Returns what it cancelled.
 */
async function cancelHolders(connection: Connection): Promise<readonly Session[]> {
  const cancelled = `SELECT pid, ${BEGUN_AT}, pg_cancel_backend(pid) FROM (
    SELECT DISTINCT pid, a.xact_start ${HOLDERS} AND a.state = 'active' AND a.usename = current_user) AS holder`;
  return await connection.transaction(async (transaction) =>
    (await transaction.rows(cancelled)).map((row) => ({
      backend: bigintAt(row, 0),
      begunAt: bigintAt(row, 1),
    })),
  );
}

/** Ends the sessions that hold the row or write: a stopped process keeps its locks. Returns those that the role may not end. */
async function endHolders(
  connection: Connection,
  cancelled: readonly Session[],
): Promise<readonly ForeignSession[]> {
  const holders = await connection.transaction(async (transaction) => {
    const rows = await transaction.rows(`SELECT DISTINCT a.pid, coalesce(a.usename, 'unknown')::text,
        coalesce(nullif(a.application_name, ''), 'a program without a name')
      ${HOLDERS} AND NOT (a.state = 'active' AND ${isOneOf(cancelled)}) ORDER BY pid`);
    return rows.map((row) => ({ pid: numberAt(row, 0), role: textAt(row, 1), program: textAt(row, 2) }));
  });
  const others: ForeignSession[] = [];
  for (const holder of holders) if (!(await hasEnded(connection, holder))) others.push(holder);
  return others;
}

/** Of the sessions of a superuser only a superuser may end one. */
async function hasEnded(connection: Connection, { pid }: ForeignSession): Promise<boolean> {
  try {
    const ended = `SELECT pg_terminate_backend(${integer(pid)})`;
    await connection.transaction((transaction) => transaction.rows(ended));
    return true;
  } catch (error) {
    if (error instanceof PostgresError && error.fault === 'not-permitted') return false;
    throw error;
  }
}

function interval(durationMs: number): string {
  return `interval '${integer(Math.round(durationMs))} milliseconds'`;
}

function held({ place, waitMs }: LeaseOptions, { holder, hint }: LeaseHolder): BusyError {
  const waited = `It was waited for ${Math.round(waitMs / 1000)} s (lock.wait).`;
  if (hint !== undefined)
    return new BusyError(`Nobody can work on the database ${place}: ${holder}. ${waited}`, { hint });
  return new BusyError(`Another feed-sync works on the database ${place}: ${holder}. ${waited}`, {
    code: 'instance_running',
    hint: 'Stop it, or let this one wait longer.',
  });
}
