/** SQL about the sessions of a server: which one it is, and how one is ended that has lost its client and keeps locks. */

/** A session of the server in a transaction: behind a pooler its process may serve another program later. */
export interface Session {
  readonly backend: bigint;
  /** In microseconds; null where the server did not say. */
  readonly begunAt: bigint | null;
}

/** When a session of `pg_stat_activity` began its transaction, in microseconds. */
export const BEGUN_AT = '(extract(epoch FROM xact_start) * 1000000)::bigint';

/** So many sessions at most are remembered that were given up. */
const MAX_GIVEN_UP = 100;

/** The sessions of one connection that were given up, and that may still be there. */
export class GivenUpSessions {
  #ended: readonly Session[] = [];
  /** With Citus: the session whose COMMIT has had no answer. It may still commit. */
  inDoubt: Session | null = null;

  /** Adds one that was given up before its COMMIT. */
  add(session: Session): void {
    this.#ended = [...this.#ended, session].slice(-MAX_GIVEN_UP);
  }

  /** Those that commit nothing any more, whatever they wait for. */
  get ended(): readonly Session[] {
    return this.#ended;
  }

  /** Notes that the transaction of the session in doubt has ended, one way or the other. */
  noteEnded(): void {
    if (this.inDoubt !== null) this.add(this.inDoubt);
    this.inDoubt = null;
  }
}

/**
 * A session that waits for a node of Citus looks as if it waited for its client. Ended, it would keep its transaction until that node
 * answers; cancelled, it rolls back at once, and keeps entries of locks alone.
 */
const CANCELLED_IN_A_STATEMENT = `WHEN state = 'active' AND wait_event_type IN ('Client', 'Extension')
  THEN pg_catalog.pg_cancel_backend(pid)`;

/** Selects whether a session of `pg_stat_activity` is one of these. */
export function isOneOf(sessions: readonly Session[]): string {
  const listed = sessions.map(({ backend, begunAt }) => `(${backend}, ${begunAt}::bigint)`);
  return listed.length === 0 ? 'false' : `(pid, ${BEGUN_AT}) IN (${listed.join(', ')})`;
}

/** Returns a query that ends a session which waits for its client in the same transaction, or where `holds`, which is SQL, is true. */
export function endWaiting({ backend, begunAt }: Session, holds: string, isCitus: boolean): string {
  return `SELECT CASE ${isCitus ? CANCELLED_IN_A_STATEMENT : ''}
      WHEN wait_event_type = 'Client' THEN pg_catalog.pg_terminate_backend(pid) END
    FROM pg_catalog.pg_stat_get_activity(${backend}) WHERE ${BEGUN_AT} = ${begunAt} OR (${holds})`;
}

/** Returns a query that cancels the statement of a session in the same transaction. */
export function cancelled({ backend, begunAt }: Session): string {
  return `SELECT pg_catalog.pg_cancel_backend(pid)
    FROM pg_catalog.pg_stat_get_activity(${backend}) WHERE ${BEGUN_AT} = ${begunAt}`;
}
