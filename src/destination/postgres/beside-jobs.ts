/**
 * Small transactions beside the jobs, over a connection of their own: an operator who asks for something does not wait for the load
 * of another dataset.
 *
 * Invariant: only the holder of the lease writes.
 */

import { placeOfDatabase } from '../../lib/secret.ts';
import { Connection, type ConnectionOptions, SMALL_ANSWER_MS, type Transaction } from './connection.ts';
import { destinationError } from './errors.ts';
import type { Lease } from './lease.ts';

export class BesideJobs {
  readonly #connection: Connection;
  readonly #place: string;

  constructor(options: ConnectionOptions) {
    this.#connection = new Connection({ answerMs: SMALL_ANSWER_MS, ...options });
    this.#place = placeOfDatabase(options.url);
  }

  read<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#translated(this.#connection.transaction(work, { isReadOnly: true }));
  }

  /** @throws BusyError where another instance holds the lease. */
  async write(lease: Lease, statements: readonly string[]): Promise<void> {
    const writing = this.#connection.transaction(async (transaction) => {
      await lease.hold(transaction);
      for (const statement of statements) await transaction.run(statement);
    });
    await this.#translated(writing);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #translated<T>(transaction: Promise<T>): Promise<T> {
    try {
      return await transaction;
    } catch (error) {
      throw destinationError(error, this.#place);
    }
  }
}
