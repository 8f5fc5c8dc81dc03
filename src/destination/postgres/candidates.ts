/**
 * The candidates in the database: content that waits for approval, seen by every instance, and by the one that takes over.
 *
 * Invariants: only the holder of the lease writes them. A commit removes the candidate of its dataset in its own transaction, so
 * that none outlives the table that it was judged on.
 */

import type { Candidate } from '../../model/candidate.ts';
import { candidateFromText, candidateText } from '../../model/candidate-text.ts';
import { booleanAt, integer, text, textAt } from '../../staging/engine/sql.ts';
import type { StoredCandidates } from '../destination.ts';
import { BesideJobs } from './beside-jobs.ts';
import { catalogTable } from './catalog/names.ts';
import { hasTable, timeOf } from './catalog/schema.ts';
import type { ConnectionOptions, Transaction } from './connection.ts';
import type { Lease } from './lease.ts';

const CANDIDATES = catalogTable('candidates');

export class DatabaseCandidates implements StoredCandidates {
  readonly #besideJobs: BesideJobs;
  readonly #lease: Lease;

  constructor(besideJobs: BesideJobs, lease: Lease) {
    this.#besideJobs = besideJobs;
    this.#lease = lease;
  }

  all(): Promise<readonly Candidate[]> {
    return this.#besideJobs.read(readCandidates);
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
    await this.#besideJobs.write(this.#lease, [
      deleteCandidate(datasetId),
      `INSERT INTO ${CANDIDATES} (dataset_id, version, content, since, approved_at, candidate)
        VALUES (${values.join(', ')})`,
    ]);
  }

  async remove(datasetId: string): Promise<void> {
    await this.#besideJobs.write(this.#lease, [deleteCandidate(datasetId)]);
  }
}

/** Reads the candidates for a command of any instance. None: there is no catalog yet, or one of an earlier version. */
export async function candidatesOf(options: ConnectionOptions): Promise<readonly Candidate[]> {
  const besideJobs = new BesideJobs(options);
  try {
    return await besideJobs.read(readCandidates);
  } finally {
    await besideJobs.close();
  }
}

/** Returns the statement by which a commit ends what was judged on the table before it. */
export function deleteCandidate(datasetId: string): string {
  return `DELETE FROM ${CANDIDATES} WHERE dataset_id = ${text(datasetId)}`;
}

async function readCandidates(transaction: Transaction): Promise<readonly Candidate[]> {
  const [row = []] = await transaction.rows(hasTable('candidates'));
  if (!booleanAt(row, 0)) return [];
  const rows = await transaction.rows(`SELECT candidate FROM ${CANDIDATES} ORDER BY dataset_id COLLATE "C"`);
  return rows.flatMap((each) => candidateFromText(textAt(each, 0)) ?? []);
}
