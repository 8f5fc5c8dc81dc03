/**
 * One connection to the server, and transactions on it.
 *
 * Invariants: every setting is SET LOCAL, so that nothing leaks through a pooler to the next client. A statement that failed is
 * followed by ROLLBACK. The answer to COMMIT is checked: for a failed transaction it is ROLLBACK. A connection that ended is
 * opened again by the next transaction, and by no statement within one: that would take effect by itself.
 */

import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pLimit from 'p-limit';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/files.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { announcedBackend, answeredWithin, forDriver, isUnanswered, TYPES } from './driver.ts';
import { diagnose, OutcomeUnknownError, PostgresError, unusableAddress } from './errors.ts';
import { cancelled, endWaiting, GivenUpSessions, type Session } from './sessions.ts';
import { firstStatements, SELECT_BEGUN, type Waits } from './settings.ts';

/** The server's answer to the end of a transaction in which a statement failed. */
const ROLLED_BACK = 'ROLLBACK';
/** The server ended a session on which nothing ran for as long as `idle_session_timeout` says. */
const ENDED_IDLE = '57P05';
const CONNECT_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_AFTER_MS = 10_000;
/** After a statement was cancelled, the server gets so long to end it before the connection is closed. */
const CANCEL_PATIENCE_MS = 5_000;
/** Once this program is to stop, a COMMIT gets so long: whether it took effect is worth waiting for. */
const COMMIT_PATIENCE_MS = 20_000;
/** A server that has nothing to do answers at once. */
const END_PATIENCE_MS = 2_000;

/** So much of a COPY waits at most at each step, so that its source works on while the server does, and the other way round. */
export const COPY_BUFFER_BYTES = 1_048_576;

/** For connections whose statements are small, and wait for small ones. */
export const SMALL_ANSWER_MS = 10_000;
/** How long a reading transaction waits where somebody keeps a table from being read: nobody does so for long on purpose. */
const READER_LOCK_WAIT_MS = 10_000;
/** A server rolls back at once, unless a node of Citus has fallen silent. */
const READER_ROLL_BACK_MS = 10_000;
/** For connections that only read. */
export const OF_READER = { lockWaitMs: READER_LOCK_WAIT_MS, rollBackMs: READER_ROLL_BACK_MS };

export interface ConnectionOptions extends Waits {
  /** `postgres://…`, with the password. */
  readonly url: Secret;
  /** Ends the running statement when aborted. */
  readonly signal?: AbortSignal;
  /** Called before a statement. Rejects where it would wait without end. */
  readonly beforeStatement?: (sql: string) => Promise<void>;
  /** A ROLLBACK that has no answer after so long closes the connection; without it, it is waited for. */
  readonly rollBackMs?: number;
  readonly clock: Clock;
}

/** The operations of a transaction. */
export interface Transaction {
  /** Returns the rows of a small result: whole numbers as bigint, times as text. @throws PostgresError */
  rows(sql: string): Promise<readonly Row[]>;
  /** Runs statements. Resolves to the number of rows that the last of them touched. @throws PostgresError */
  run(sql: string): Promise<number>;
  /** Runs statements without results, one after another. @throws PostgresError */
  runAll(statements: readonly string[]): Promise<void>;
  /** Feeds a COPY to its end, and resolves to the number of its rows. @throws PostgresError, or the error of the source */
  copyIn(sql: string, source: Readable): Promise<number>;
  /** Feeds what a COPY writes to its end into a stream, and ends that. @throws PostgresError, or the error of the stream */
  copyOut(sql: string, sink: Writable): Promise<void>;
}

interface TransactionOptions extends Pick<Waits, 'lockWaitMs'> {
  readonly searchPath?: string;
  readonly isReadOnly?: boolean;
  readonly isSnapshot?: boolean;
  /** Whether all that `work` writes is rolled back. */
  readonly isDiscarded?: boolean;
}

export class Connection implements Transaction {
  readonly #options: ConnectionOptions;
  #client: pg.Client | null = null;
  /** The client that is being connected, for all statements that need one meanwhile. */
  #connecting: Promise<pg.Client> | null = null;
  /** The client that is being connected, or was last. */
  #newest: pg.Client | null = null;
  #isAbandoned = false;
  #isCitus = false;
  /** The process of the server that runs the transaction: behind a pooler another one than the connection was given at its start. */
  #backend: bigint | null = null;
  #isInTransaction = false;
  /** When the server began its transaction, in microseconds. */
  #begunAt: bigint | null = null;
  /** The session whose transaction this connection has lost: the server may not have noticed, and keeps its locks. */
  #lost: Session | null = null;
  readonly givenUp = new GivenUpSessions();
  /** The reason for which the transaction is being given up. */
  #reason: PostgresError | null = null;
  #isCommitting = false;
  #underWay = 0;
  #ended = 0;
  readonly #inTurn = pLimit(1);

  /** Opens no connection yet. */
  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** A number that changes whenever a statement ends, passes bytes on, or is seen at work by `noteWork`. */
  get progress(): number {
    return this.#ended;
  }

  /** Asks over another connection whether the server works on the statement of the transaction, and waits neither for a lock nor for us. */
  async noteWork(beside: Transaction): Promise<void> {
    if (this.#underWay === 0 || this.#backend === null) return;
    // A server that tracks no activities shows all the same what its processes wait for; SyncRep is its own standby.
    const working = `SELECT 1 FROM pg_catalog.pg_stat_get_activity(${this.#backend}) WHERE state IN ('active', 'disabled')
      AND coalesce(wait_event_type, '') NOT IN ('Lock', 'Client') AND wait_event IS DISTINCT FROM 'SyncRep'`;
    this.#ended += (await beside.rows(working)).length;
  }

  /**
   * Ends over another connection the session that this one has lost in a transaction, where the server waits for its statements all
   * the same: nobody else ends it for hours, and what comes next waits for its locks, also for those of a transaction that only reads.
   * Behind a pooler the process may serve another program by now: it is the session where its transaction is the one that was lost, or,
   * where the server shows no times, where `holds`, which is SQL, is true of the session `pid`.
   */
  async endLost(beside: Transaction, holds: string): Promise<void> {
    const lost = this.#lost;
    if (lost === null) return;
    const found = endWaiting(lost, holds, this.#isCitus);
    if ((await beside.rows(found)).length === 0 && this.#lost === lost) this.#lost = null;
  }

  /**
   * Runs `work` in a transaction and commits it; `isReadOnly` transactions are rolled back. `searchPath` is SQL. With `isSnapshot` all
   * statements see the same state. Transactions of one connection run one after another: `work` begins none.
   * @throws any error of `work`, after ROLLBACK; PostgresError; OutcomeUnknownError.
   */
  transaction<T>(
    work: (transaction: Transaction) => Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    return this.#inTurn(() => this.#transaction(work, options));
  }

  async #transaction<T>(
    work: (transaction: Transaction) => Promise<T>,
    {
      searchPath = 'pg_catalog',
      isReadOnly = false,
      isSnapshot = false,
      isDiscarded = isReadOnly,
      ...waits
    }: TransactionOptions,
  ): Promise<T> {
    const isCitus = this.#isCitus;
    const beginning = { ...this.#options, ...waits, isCitus, isReadOnly, isSnapshot };
    await this.begin(firstStatements(searchPath, beginning));
    let result: T;
    try {
      result = await work(this);
    } catch (error) {
      await this.rollBack();
      throw error;
    }
    if (isDiscarded) await this.rollBack();
    else await this.#commit();
    return result;
  }

  /**
   * Runs the first statements of a transaction, and asks which process of the server runs it. A session that the server ended because
   * nothing ran on it has begun nothing, so they are repeated on another. @throws PostgresError
   */
  async begin(statements: readonly string[]): Promise<void> {
    try {
      await this.#begin(statements);
    } catch (error) {
      if (!(error instanceof PostgresError) || error.sqlState !== ENDED_IDLE) throw error;
      await this.#begin(statements);
    }
  }

  async #begin(statements: readonly string[]): Promise<void> {
    this.#isInTransaction = false;
    this.#reason = null;
    await this.#stoppable(async () => {
      this.#isInTransaction = true;
    });
    try {
      const [row = []] = await this.rows([...statements, SELECT_BEGUN].join(';'));
      this.#backend = row[0] as bigint;
      this.#begunAt = row[1] as bigint;
      if (this.#backend === this.#lost?.backend) this.#lost = null;
    } catch (error) {
      await this.rollBack();
      throw error;
    }
  }

  async rows(sql: string): Promise<readonly Row[]> {
    // The driver returns what its parsers make of the values, which are those of a row.
    return (await this.#query({ text: sql, rowMode: 'array', types: TYPES })).rows as readonly Row[];
  }

  async run(sql: string): Promise<number> {
    return (await this.#query({ text: sql })).rowCount ?? 0;
  }

  async runAll(statements: readonly string[]): Promise<void> {
    const texts = this.#isCitus ? statements : statements.length === 0 ? [] : [statements.join(';\n')];
    for (const text of texts) await this.run(text);
  }

  /** Notes whether the server has Citus, which sends a statement to its nodes with all that came in one text. */
  noteCitus(isCitus: boolean): void {
    this.#isCitus = isCitus;
  }

  get isCitus(): boolean {
    return this.#isCitus;
  }

  async copyIn(sql: string, source: Readable): Promise<number> {
    return await this.#stoppable(async (client) => {
      const copy = client.query(copyFrom(sql, { highWaterMark: COPY_BUFFER_BYTES }));
      const copied = pipeline(source, copy);
      source.on('data', this.#noteBytes);
      await copied;
      return copy.rowCount;
    });
  }

  async copyOut(sql: string, sink: Writable): Promise<void> {
    await this.#stoppable(async (client) => {
      const copy = client.query(copyTo(sql));
      const copied = pipeline(copy, sink);
      copy.on('data', this.#noteBytes);
      try {
        await copied;
      } catch (error) {
        // The server may have more to write, and nobody reads it.
        this.#drop(client);
        throw error;
      }
    });
  }

  /** Whether a pooler stands between: a pooler announces a number of its own for the process of the server. Null outside a transaction. */
  get isPooled(): boolean | null {
    if (this.#client === null || this.#backend === null) return null;
    return BigInt(announcedBackend(this.#client)) !== this.#backend;
  }

  readonly #noteBytes = (): void => {
    this.#ended += 1;
  };

  /** Runs one statement, however many the text holds: the server refuses more. Values are as the server writes them. */
  async query(sql: string): Promise<pg.QueryArrayResult> {
    const asText = { getTypeParser: () => String };
    return await this.#query({ text: sql, rowMode: 'array', types: asText, queryMode: 'extended' });
  }

  async #query(
    config: pg.QueryConfig & { rowMode?: 'array'; queryMode?: 'extended' },
  ): Promise<pg.QueryArrayResult> {
    await this.#options.beforeStatement?.(config.text);
    return await this.#stoppable(async (client) => {
      // The types of the driver know no mode beside a text.
      const result = (await client.query(config)) as unknown as pg.QueryArrayResult | pg.QueryArrayResult[];
      const last = Array.isArray(result) ? result.at(-1) : result;
      return last as pg.QueryArrayResult;
    });
  }

  async #commit(): Promise<void> {
    const client = this.#client;
    if (client === null) {
      await this.rollBack();
      throw endedWithin();
    }
    this.#isCommitting = true;
    if (this.#isCitus) this.givenUp.inDoubt = this.#session;
    try {
      const commit = () => durable('destination.commit-postgres', () => client.query('COMMIT'));
      const answer = await this.#answered(client, COMMIT_PATIENCE_MS, commit);
      if (answer.command === ROLLED_BACK) {
        throw new PostgresError('conflict', 'the server has rolled the transaction back', answer);
      }
      this.#backend = null;
      this.givenUp.inDoubt = null;
      this.#isInTransaction = false;
    } catch (error) {
      const diagnosed = diagnose(error);
      if (diagnosed.fault === 'unavailable') {
        await this.close();
        this.#isInTransaction = false;
        throw new OutcomeUnknownError(this.#reason ?? diagnosed);
      }
      this.givenUp.inDoubt = null;
      await this.rollBack();
      throw diagnosed;
    } finally {
      this.#isCommitting = false;
    }
  }

  /** Ends a transaction. A connection that cannot roll back is closed: the server then rolls back by itself. */
  async rollBack(): Promise<void> {
    const client = this.#client;
    this.#isInTransaction = false;
    try {
      const { rollBackMs } = this.#options;
      const rollBack = rollBackMs === undefined ? 'ROLLBACK' : answeredWithin(rollBackMs, 'ROLLBACK');
      await this.#answered(client, CANCEL_PATIENCE_MS, async () => client?.query(rollBack));
      // Behind a pooler the process may serve another program from now on.
      this.#backend = null;
    } catch {
      await this.close();
    }
  }

  /** Calls the driver; an abortion cancels the statement in the server, and closes the connection where that does not help. */
  async #stoppable<T>(call: (client: pg.Client) => Promise<T>): Promise<T> {
    const { signal } = this.#options;
    signal?.throwIfAborted();
    const client = await this.#connected();
    const cancel = () => void this.#cancel(this.#backend ?? BigInt(announcedBackend(client)));
    signal?.addEventListener('abort', cancel);
    try {
      return await this.#answered(client, CANCEL_PATIENCE_MS, () => call(client));
    } catch (error) {
      if (isUnanswered(error)) this.#drop(client);
      if (this.#reason !== null) throw this.#reason;
      throw error instanceof SourceError ? error.cause : diagnose(error);
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Calls the driver; after an abortion the server has this time to answer before the connection is closed. */
  async #answered<T>(client: pg.Client | null, patienceMs: number, call: () => Promise<T>): Promise<T> {
    const { signal, clock } = this.#options;
    const ended = new AbortController();
    const drop = (): void => {
      if (client !== null) this.#drop(client);
    };
    const stop = (): void => void clock.sleep(patienceMs, ended.signal).then(drop, () => {});
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop);
    this.#underWay += 1;
    try {
      return await call();
    } finally {
      this.#underWay -= 1;
      this.#ended += 1;
      signal?.removeEventListener('abort', stop);
      ended.abort();
    }
  }

  async #connected(): Promise<pg.Client> {
    if (this.#isAbandoned) throw new PostgresError('unavailable', 'the connection was given up', null);
    if (this.#client !== null) return this.#client;
    if (this.#isInTransaction) throw endedWithin();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return await this.#connecting;
  }

  async #connect(): Promise<pg.Client> {
    const client = this.#newClient();
    this.#newest = client;
    // An error beside a statement means that the connection is gone; the next statement says so.
    client.on('error', () => this.#forget(client));
    client.on('end', () => this.#forget(client));
    try {
      await client.connect();
    } catch (error) {
      throw diagnose(error);
    }
    this.#client = client;
    return client;
  }

  /** @throws PostgresError where the driver cannot use the address: it names a file that cannot be read */
  #newClient(): pg.Client {
    const { url, answerMs } = this.#options;
    try {
      return new pg.Client({
        connectionString: forDriver(url.reveal()),
        application_name: 'feed-sync',
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
        ...(answerMs === undefined ? {} : { query_timeout: answerMs }),
      });
    } catch (error) {
      throw unusableAddress(error);
    }
  }

  /** Asks the server by a connection of its own, and by the number of its process: a pooler knows only its own numbers. */
  #cancel(backend: bigint): Promise<void> {
    return this.#runBeside(`SELECT pg_catalog.pg_cancel_backend(${backend})`);
  }

  /** Runs a statement on a connection of its own. Never rejects. */
  async #runBeside(statement: string): Promise<void> {
    const beside = new Connection({ url: this.#options.url, clock: this.#options.clock });
    await beside.run(statement).catch(() => {});
    await beside.close();
  }

  #forget(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#lose();
  }

  /** Forgets the client. A transaction that it had begun may go on in the server. */
  #lose(): void {
    this.#client = null;
    this.#lost = this.#session ?? this.#lost;
    this.#backend = null;
  }

  #drop(client: pg.Client): void {
    this.#forget(client);
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
  }

  get #session(): Session | null {
    return this.#backend === null ? null : { backend: this.#backend, begunAt: this.#begunAt };
  }

  /**
   * Ends the transaction with the error; where its COMMIT was sent, the session is in doubt. The server rolls back what waits for a
   * node of Citus; the session keeps its locks until that node answers.
   */
  giveUp(error: PostgresError): void {
    const client = this.#client;
    const session = this.#session;
    if (client === null || session === null) return;
    if (!this.#isCommitting) this.givenUp.add(session);
    this.#reason = error;
    this.#drop(client);
    void this.#runBeside(cancelled(session));
  }

  /** Closes the connection without a word to the server, for good: what runs on it fails at once. */
  abandon(): void {
    this.#isAbandoned = true;
    if (this.#newest !== null) this.#drop(this.#newest);
  }

  /** A transaction that is under way ends with an error. */
  async close(): Promise<void> {
    await this.#connecting?.catch(() => {});
    const client = this.#client;
    this.#lose();
    if (client === null) return;
    try {
      // Where nobody answers any more, the end of the connection would be waited for without end.
      await client.query(answeredWithin(END_PATIENCE_MS, ''));
      await client.end();
    } catch {
      this.#drop(client);
    }
  }
}

/** The server has rolled the transaction back. */
function endedWithin(): PostgresError {
  return new PostgresError('unavailable', 'the connection ended within a transaction', null);
}

/** The source of a COPY failed. The server was notified, and keeps none of its rows. */
export class SourceError extends Error {
  override readonly name = 'SourceError';
  override readonly cause: unknown;

  constructor(cause: unknown) {
    super('The source of a COPY failed.');
    this.cause = cause;
  }
}
