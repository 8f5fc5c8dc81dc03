/**
 * The requests of operators in the database: a command of any instance asks there, and the instance that holds the lease performs.
 *
 * Invariants: only the holder of the lease begins a request, in a transaction that holds it. A request that a holder began and did
 * not answer waits again once another instance has taken over: whoever performs requests must stand that. A commit that uses an
 * approval says so in its request, in its own transaction. Times are the server's.
 */

import type {
  OperatorRequest,
  RequestAnswer,
  RequestState,
  Requests,
  Withdrawal,
} from '../../checkpoint/requests.ts';
import { MAX_REQUESTS, MAX_SILENCE_MS } from '../../checkpoint/requests.ts';
import { present } from '../../lib/assert.ts';
import { placeOfDatabase } from '../../lib/secret.ts';
import { booleanAt, integer, text, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import { catalogTable } from './catalog/names.ts';
import { hasCatalog } from './catalog/observed-state.ts';
import { hasTable } from './catalog/schema.ts';
import { Connection, type ConnectionOptions, SMALL_ANSWER_MS, type Transaction } from './connection.ts';
import { destinationError } from './errors.ts';
import { type Lease, readHolder } from './lease.ts';

const REQUESTS = catalogTable('requests');
const HOLDER = `(SELECT token FROM ${catalogTable('lease')})`;
/** The state of a request whose approval was used, and that was not answered. */
const COMMITTED = 'committed';
const WAITING = `'waiting', '${COMMITTED}'`;
const IS_WAITING = `state IN (${WAITING}) AND begun_by IS DISTINCT FROM ${HOLDER}`;
/** Its command still waits for the answer. */
const IS_AWAITED = `asked_at > clock_timestamp() - interval '${integer(MAX_SILENCE_MS)} milliseconds'`;

/** Returns the statement by which a commit says, in the requests that approved its content, that it used the approval. */
export function markCommitted(datasetId: string, version: number, digest: string): string {
  return `UPDATE ${REQUESTS} SET state = '${COMMITTED}' WHERE dataset_id = ${text(datasetId)}
    AND command = 'approve' AND state = 'waiting' AND begun_by IS NOT NULL
    AND arguments::jsonb ->> 'version' = '${integer(version)}'
    AND starts_with(${text(digest)}, arguments::jsonb ->> 'content')`;
}

export class DatabaseRequests implements Requests {
  readonly #connection: Connection;
  readonly #place: string;
  readonly #lease: Lease | null;
  /** Requests that this instance began and has not answered. One that it never heard of is not among them. */
  readonly #begun = new Set<string>();
  /** Answers that the database does not have yet: the connection was broken. */
  readonly #unsent = new Map<string, RequestAnswer>();

  /** `lease`: of the instance that performs requests; null for one that asks. */
  constructor(options: ConnectionOptions, lease: Lease | null) {
    this.#connection = new Connection({ answerMs: SMALL_ANSWER_MS, ...options });
    this.#place = placeOfDatabase(options.url);
    this.#lease = lease;
  }

  /** Names the instance that holds the lease, for people; null: none does, or there is no catalog yet. */
  async holder(): Promise<string | null> {
    return await this.#reading(async (transaction) => {
      if (!(await hasCatalog(transaction))) return null;
      // An instance of a version without requests is asked for nothing.
      const [row = []] = await transaction.rows(hasTable('requests'));
      return booleanAt(row, 0) ? ((await readHolder(transaction))?.holder ?? null) : null;
    });
  }

  async ask({ requestId, datasetId, command, parameters }: OperatorRequest): Promise<void> {
    const values = [requestId, datasetId, command, JSON.stringify(parameters)].map(text).join(', ');
    await this.#writing(async (transaction) => {
      const repeated = await transaction.run(
        `UPDATE ${REQUESTS} SET asked_at = clock_timestamp() WHERE request_id = ${text(requestId)}`,
      );
      if (repeated > 0) return;
      await transaction.run(`INSERT INTO ${REQUESTS}
        (request_id, dataset_id, command, arguments, requested_at, asked_at, state)
        VALUES (${values}, clock_timestamp(), clock_timestamp(), 'waiting')`);
      await transaction.run(`DELETE FROM ${REQUESTS} WHERE request_id IN
        (SELECT request_id FROM ${REQUESTS} ORDER BY requested_at DESC OFFSET ${integer(MAX_REQUESTS)})`);
    });
  }

  async withdraw(requestId: string): Promise<Withdrawal> {
    const [row] = await this.#writing((transaction) =>
      transaction.rows(`DELETE FROM ${REQUESTS} WHERE request_id = ${text(requestId)}
        AND state <> '${COMMITTED}' AND ${IS_WAITING} RETURNING begun_by IS NOT NULL`),
    );
    return row === undefined ? { kind: 'kept' } : { kind: 'removed', wasBegun: booleanAt(row, 0) };
  }

  async state(requestId: string): Promise<RequestState | null> {
    const [row] = await this.#reading((transaction) =>
      transaction.rows(`SELECT answer, ${IS_WAITING} FROM ${REQUESTS} WHERE request_id = ${text(requestId)}`),
    );
    if (row === undefined) return null;
    const answer = textOrNullAt(row, 0);
    if (answer !== null) return JSON.parse(answer) as RequestAnswer;
    return booleanAt(row, 1) ? { kind: 'waiting' } : { kind: 'begun' };
  }

  async waitingDatasets(): Promise<readonly string[]> {
    await this.#send();
    const rows = await this.#reading((transaction) =>
      transaction.rows(`SELECT dataset_id FROM ${REQUESTS} WHERE ${this.#isWaiting()} AND ${IS_AWAITED}
        GROUP BY dataset_id ORDER BY min(requested_at)`),
    );
    return rows.map((row) => textAt(row, 0));
  }

  async begin(datasetId: string): Promise<OperatorRequest | null> {
    const lease = this.#ownLease();
    const [row] = await this.#writing(async (transaction) => {
      await lease.hold(transaction);
      return await transaction.rows(`UPDATE ${REQUESTS} SET begun_by = ${HOLDER} WHERE request_id =
        (SELECT request_id FROM ${REQUESTS} WHERE dataset_id = ${text(datasetId)} AND ${this.#isWaiting()} AND ${IS_AWAITED}
          ORDER BY requested_at LIMIT 1 FOR UPDATE) RETURNING request_id, command, arguments, state = '${COMMITTED}'`);
    });
    if (row === undefined) return null;
    const parameters: unknown = JSON.parse(textAt(row, 2));
    const isCommitted = booleanAt(row, 3);
    this.#begun.add(textAt(row, 0));
    return { requestId: textAt(row, 0), datasetId, command: textAt(row, 1), parameters, isCommitted };
  }

  /** An answer that cannot be stored now is stored by the next poll of requests. */
  async answer(requestId: string, answer: RequestAnswer): Promise<void> {
    this.#unsent.set(requestId, answer);
    await this.#send().catch(() => {});
  }

  async #send(): Promise<void> {
    for (const [requestId, answer] of this.#unsent) {
      await this.#writing(async (transaction) => {
        await this.#ownLease().hold(transaction);
        await transaction.run(`UPDATE ${REQUESTS} SET state = ${text(answer.kind)},
          answer = ${text(JSON.stringify(answer))}, finished_at = clock_timestamp() WHERE request_id = ${text(requestId)}`);
      });
      this.#unsent.delete(requestId);
      this.#begun.delete(requestId);
    }
  }

  /** Selects the requests that wait for this instance, also one whose connection broke when this instance began it. */
  #isWaiting(): string {
    const begun = [...this.#begun].map(text).join(', ');
    return `(${IS_WAITING} OR state IN (${WAITING}) AND request_id <> ALL (ARRAY[${begun}]::text[]))`;
  }

  #ownLease(): Lease {
    return present(this.#lease, 'only the instance that works on the database performs requests');
  }

  async #reading<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return await this.#translated(this.#connection.transaction(work, { isReadOnly: true }));
  }

  async #writing<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return await this.#translated(this.#connection.transaction(work));
  }

  async #translated<T>(transaction: Promise<T>): Promise<T> {
    try {
      return await transaction;
    } catch (error) {
      throw destinationError(error, this.#place);
    }
  }

  async close(): Promise<void> {
    await this.#send().catch(() => {});
    await this.#connection.close();
  }
}
