/**
 * The settings of a transaction: whatever an operator has set for the server, the database or the role, a promise never depends on it.
 *
 * Invariants: every setting is local to its transaction, so that nothing leaks through a pooler to the next client. What an operator
 * sets to keep everybody from writing (`default_transaction_read_only`), or to say where files go (`default_tablespace`), stays.
 */

import { integer } from '../../staging/engine/sql.ts';

/** The server ends a session so long after this program has given up on its answer. */
const GIVEN_UP_AFTER_MS = 2_000;

/** The server checks after so much silence, so often, whether the other side of a connection is still there. */
const KEEP_ALIVE_S = 60;
const KEEP_ALIVE_EVERY_S = 10;
const KEEP_ALIVES = 6;

/** How statements are read, how values and names are written, and what is read: nothing is left out in silence. */
const MEANING: readonly string[] = [
  'SET LOCAL standard_conforming_strings = on',
  "SET LOCAL TimeZone = 'UTC'",
  "SET LOCAL DateStyle = 'ISO, YMD'",
  "SET LOCAL IntervalStyle = 'postgres'",
  'SET LOCAL extra_float_digits = 1',
  "SET LOCAL bytea_output = 'hex'",
  // Types and constraints are compared by the text that the server writes.
  'SET LOCAL quote_all_identifiers = off',
  // A policy that hides rows from the role is an error, and no answer.
  'SET LOCAL row_security = off',
  // The server refuses a statement, and not the session: its error is an answer.
  'SET LOCAL exit_on_error = off',
];

/** A session whose client is gone without a word keeps its locks until the server notices. A client that lives answers by itself. */
const NOTICED: readonly string[] = [
  `SET LOCAL tcp_keepalives_idle = ${KEEP_ALIVE_S}`,
  `SET LOCAL tcp_keepalives_interval = ${KEEP_ALIVE_EVERY_S}`,
  `SET LOCAL tcp_keepalives_count = ${KEEP_ALIVES}`,
];

/** What the server does on its nodes is done there with the same settings, and however many rows a statement sends to them. */
const ON_NODES: readonly string[] = [
  "SET LOCAL citus.propagate_set_commands = 'local'",
  'SET LOCAL citus.max_intermediate_result_size = -1',
];

interface ForNodes {
  /** Whether Citus is there. */
  readonly isCitus?: boolean;
}

export interface Waits {
  /**
   * A statement that has no answer after so long closes the connection: the network is lost. The server ends the session soon after.
   * Without it, TCP decides.
   */
  readonly answerMs?: number;
  /** A statement fails where a lock is not free after so long; without it, it waits as long as for an answer. */
  readonly lockWaitMs?: number;
}

interface Beginning extends Waits, ForNodes {
  readonly isReadOnly?: boolean;
  /** Whether all statements see the same state. */
  readonly isSnapshot?: boolean;
}

/** What a transaction is stands in its first statement: a node is sent it before any setting. */
function begin(isSnapshot: boolean): string {
  return `BEGIN ISOLATION LEVEL ${isSnapshot ? 'REPEATABLE READ' : 'READ COMMITTED'}`;
}

/**
 * Returns the first statements of a transaction: literals have no escapes, and no name means an object of another schema.
 * `searchPath` is SQL.
 */
export function firstStatements(
  searchPath: string,
  { answerMs, lockWaitMs, isCitus = false, isReadOnly = false, isSnapshot = false }: Beginning,
): readonly string[] {
  return [
    `${begin(isSnapshot)}${isReadOnly ? ' READ ONLY' : ''}`,
    ...(isCitus ? ON_NODES : []),
    // A server may have a limit that is over before the others are set.
    ...limits(answerMs),
    ...(lockWaitMs === undefined ? [] : [waitAtMost(lockWaitMs)]),
    ...MEANING,
    'SET LOCAL default_table_access_method = heap',
    'SET LOCAL client_min_messages = error',
    `SET LOCAL search_path = ${searchPath}`,
  ];
}

/** The server counts in so many bits. */
const MAX_LOCK_TIMEOUT_MS = 2 ** 31 - 1;
/** A shorter wait would be over before a lock could come free that nobody keeps. */
export const LEAST_LOCK_WAIT_MS = 200;

/** Returns the statement after which those of the transaction wait so long for a lock. The server takes zero for no limit. */
export function waitAtMost(lockWaitMs: number): string {
  const ms = Math.min(MAX_LOCK_TIMEOUT_MS, Math.max(LEAST_LOCK_WAIT_MS, Math.round(lockWaitMs)));
  return `SET LOCAL lock_timeout = ${integer(ms)}`;
}

function limits(answerMs: number | undefined): readonly string[] {
  const limitMs = answerMs === undefined ? 0 : integer(answerMs + GIVEN_UP_AFTER_MS);
  return [
    `SET LOCAL statement_timeout = ${limitMs}`,
    `SET LOCAL lock_timeout = ${limitMs}`,
    `SET LOCAL idle_in_transaction_session_timeout = ${limitMs}`,
    ...NOTICED,
    ...(answerMs === undefined ? [] : [`SET LOCAL tcp_user_timeout = ${limitMs}`]),
  ];
}

/** Returns the first statements of a transaction that shows an operator the result of a statement. `searchPath` is SQL. */
export function firstStatementsOfQuery(
  searchPath: string,
  {
    isReadOnly,
    isCitus,
    limitMs,
  }: Required<ForNodes> & { readonly isReadOnly: boolean; readonly limitMs: number },
): readonly string[] {
  return [
    `${begin(true)} ${isReadOnly ? 'READ ONLY' : 'READ WRITE'}`,
    ...(isCitus ? ON_NODES : []),
    `SET LOCAL statement_timeout = ${integer(limitMs)}`,
    ...NOTICED,
    ...MEANING,
    `SET LOCAL search_path = ${searchPath}`,
  ];
}

/** Selects whether the role may set what only superusers may. */
const IS_SUPERUSER = '(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)';

/**
 * Selects the process of the server, and when the transaction began, in microseconds; and sets what cannot always be set. Since
 * version 17 a server can limit whole transactions; it knows the setting by its name alone. A commit that its server may forget is
 * none. Where triggers are off, so are the foreign keys of readers.
 */
export const SELECT_BEGUN = `SELECT pg_catalog.pg_backend_pid(), (extract(epoch FROM pg_catalog.now()) * 1000000)::bigint,
  CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
    THEN pg_catalog.set_config('transaction_timeout', '0', true) END,
  CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
    THEN pg_catalog.set_config('synchronous_commit', 'on', true) END,
  CASE WHEN pg_catalog.current_setting('session_replication_role') = 'replica' AND ${IS_SUPERUSER}
    THEN pg_catalog.set_config('session_replication_role', 'origin', true) END`;
