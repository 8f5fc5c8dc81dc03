/**
 * The candidates in the database: content that waits for approval, seen by every instance, and by the one that takes over.
 *
 * Invariants: only the holder of the lease writes them. A commit removes the candidate of its dataset in its own transaction, so
 * that none outlives the table that it was judged on.
 */

import { placeOfDatabase } from '../../lib/secret.ts';
import type { Candidate } from '../../model/candidate.ts';
import { candidateFromText, candidateText } from '../../model/candidate-text.ts';
import { booleanAt, integer, text, textAt } from '../../staging/engine/sql.ts';
import type { StoredCandidates } from '../destination.ts';
import { catalogTable } from './catalog/names.ts';
import { hasTable, timeOf } from './catalog/schema.ts';
import { Connection, type ConnectionOptions, SMALL_ANSWER_MS, type Transaction } from './connection.ts';
import { destinationError } from './errors.ts';
import type { Lease } from './lease.ts';

const CANDIDATES = catalogTable('candidates');

export class DatabaseCandidates implements StoredCandidates {
  /** Its own connection, so that an operator who approves does not wait for the load of another dataset. */
  readonly #connection: Connection;
  readonly #place: string;
  readonly #lease: Lease;

  constructor(options: ConnectionOptions, lease: Lease) {
    this.#connection = new Connection({ answerMs: SMALL_ANSWER_MS, ...options });
    this.#place = placeOfDatabase(options.url);
    this.#lease = lease;
  }

  all(): Promise<readonly Candidate[]> {
    return readCandidates(this.#connection, this.#place);
  }

  async keep(candidate: Candidate): Promise<void> {
    const { datasetId, version, judged, since, approvedAt } = candidate;
    const values = [
      text(datasetId),
      integer(version),
      text(judged.digest),
      timeOf(since),
      timeOf(approvedAt),
      text(candidateText(candidate)),
    ];
    // An index that somebody may have dropped is needed for neither.
    await this.#write(`${deleteCandidate(datasetId)};
      INSERT INTO ${CANDIDATES} (dataset_id, version, content, since, approved_at, candidate)
      VALUES (${values.join(', ')})`);
  }

  async remove(datasetId: string): Promise<void> {
    await this.#write(deleteCandidate(datasetId));
  }

  async #write(statement: string): Promise<void> {
    const writing = this.#connection.transaction(async (transaction) => {
      await this.#lease.hold(transaction);
      await transaction.run(statement);
    });
    await translated(writing, this.#place);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

/** Reads the candidates for a command of any instance. None: there is no catalog yet, or one of an earlier version. */
export async function candidatesOf(options: ConnectionOptions): Promise<readonly Candidate[]> {
  const connection = new Connection({ answerMs: SMALL_ANSWER_MS, ...options });
  try {
    return await readCandidates(connection, placeOfDatabase(options.url));
  } finally {
    await connection.close();
  }
}

/** Returns the statement by which a commit ends what was judged on the table before it. */
export function deleteCandidate(datasetId: string): string {
  return `DELETE FROM ${CANDIDATES} WHERE dataset_id = ${text(datasetId)}`;
}

function readCandidates(connection: Connection, place: string): Promise<readonly Candidate[]> {
  const read = async (transaction: Transaction): Promise<readonly Candidate[]> => {
    const [row = []] = await transaction.rows(hasTable('candidates'));
    if (!booleanAt(row, 0)) return [];
    const rows = await transaction.rows(
      `SELECT candidate FROM ${CANDIDATES} ORDER BY dataset_id COLLATE "C"`,
    );
    return rows.flatMap((each) => candidateFromText(textAt(each, 0)) ?? []);
  };
  return translated(connection.transaction(read, { isReadOnly: true }), place);
}

async function translated<T>(transaction: Promise<T>, place: string): Promise<T> {
  try {
    return await transaction;
  } catch (error) {
    throw destinationError(error, place);
  }
}
