/**
 * Commits validated jobs inside one write session. A batch that fails is undone and repeated one by one, so that one
 * dataset's failure stays its own.
 */

import { assert, present } from '../../lib/assert.ts';
import { InterruptedError } from '../../model/errors.ts';
import type { ObservedTable, WriteJob } from '../../model/write-jobs.ts';
import type { Engine, Row } from '../../staging/engine/engine.ts';
import {
  booleanAt,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  textOrNullAt,
  timestamp,
} from '../../staging/engine/sql.ts';
import type { Committed } from '../destination.ts';
import { readNewestNumber } from './catalog/commits.ts';
import { type CatalogEntry, KINDS_OF_JOB, observedAfter, writeEntries } from './catalog/entries.ts';
import { readObservedTables } from './catalog/observed-state.ts';
import { catalogTable, FORMAT_VERSION } from './catalog/schema.ts';
import { type Current, readCurrent } from './catalog/tables.ts';
import { placeOf } from './retire.ts';
import type { Done, ValidatedWrite, Write } from './validate.ts';
import { OutcomeUnknownError, type WriteSession, WriteSessionLostError } from './write-session.ts';

/** `failed` carries the error as it came; its cause in the data is looked for once the mirror is let go. */
type JobResult =
  | { readonly kind: 'committed'; readonly committed: Committed }
  | { readonly kind: 'retired'; readonly table: string | null }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'stale-plan' };

interface CommitContext {
  readonly session: WriteSession;
  readonly appliedAt: Date;
  readonly signal?: AbortSignal;
}

interface CommittedJob {
  readonly job: ValidatedWrite;
  readonly result: JobResult;
}

/** The results as soon as they are certain, in the order of the jobs. Never throws for a job. */
export async function* commitJobs(
  context: CommitContext,
  jobs: readonly ValidatedWrite[],
): AsyncGenerator<CommittedJob> {
  let lost: Error | null = null;
  for (const batch of batches(jobs, ({ job }) => job.datasetId)) {
    let results: readonly JobResult[] = [];
    try {
      if (lost === null) results = await commitBatch(context, batch);
    } catch (error) {
      if (!(error instanceof WriteSessionLostError)) throw error;
      lost = error.cause;
    }
    for (const [index, job] of batch.entries())
      yield { job, result: results[index] ?? { kind: 'failed', error: lost } };
  }
}

async function commitBatch(
  context: CommitContext,
  batch: readonly ValidatedWrite[],
): Promise<readonly JobResult[]> {
  try {
    return await commitTogether(context, batch);
  } catch (error) {
    if (error instanceof WriteSessionLostError) throw error;
    const found = error instanceof OutcomeUnknownError ? await findCommitted(context, batch) : new Map();
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) {
      return [found.get(only.job.datasetId) ?? { kind: 'failed', error: causeOf(error) }];
    }
    const results: JobResult[] = [];
    for (const job of batch) {
      const known = found.get(job.job.datasetId);
      if (known !== undefined) results.push(known);
      else results.push(...(await commitBatch(context, [job])));
    }
    return results;
  }
}

async function commitTogether(
  { session, appliedAt, signal }: CommitContext,
  batch: readonly ValidatedWrite[],
): Promise<readonly JobResult[]> {
  // Asked each time: a batch that was interrupted is not to be repeated one by one.
  if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
  return await session.transaction(async (engine) => {
    const current = await readCurrent(
      engine,
      batch.map(({ job }) => job),
    );
    const entries: CatalogEntry[] = [];
    const results: JobResult[] = [];
    for (const each of batch) {
      const ofDataset = present(current.get(each.job.datasetId), 'every dataset of the batch was read');
      const write = await each.execute(engine, ofDataset, appliedAt);
      if (write !== null) entries.push(write.entry);
      results.push(resultOf(write, ofDataset));
    }
    const newest = entries.length === 0 ? 0 : await readNewestNumber(engine, FORMAT_VERSION);
    for (const statement of writeEntries(entries, newest)) await engine.run(statement);
    return results;
  });
}

/** Null: stale. */
function resultOf(write: Write | null, { live }: Current): JobResult {
  if (write === null) return { kind: 'stale-plan' };
  const { done, entry } = write;
  if (done.kind === 'retired') return done;
  assert(entry.kind === 'live', 'what is committed is live');
  return { kind: 'committed', committed: committedFrom(done, observedAfter(entry, live)) };
}

/** After a COMMIT that was refused: which of the jobs the mirror holds nevertheless, as its catalog tell. By dataset id. */
async function findCommitted(
  { session, appliedAt }: CommitContext,
  batch: readonly ValidatedWrite[],
): Promise<ReadonlyMap<string, JobResult>> {
  return await session.transaction(async (engine) => {
    const found = await findDone(engine, batch, appliedAt);
    const observed = await readObservedTables(engine, [...found.keys()]);
    const results = [...found].map(([datasetId, done]): [string, JobResult] => {
      if (done.kind === 'retired') return [datasetId, done];
      const table = present(observed.get(datasetId), 'a table that was committed is live');
      return [datasetId, { kind: 'committed', committed: committedFrom(done, table) }];
    });
    return new Map(results);
  });
}

function committedFrom(
  { fromVersion, net }: Extract<Done, { kind: 'committed' }>,
  observed: ObservedTable,
): Committed {
  const { tableName, version, rowCount } = observed;
  return { tableName, fromVersion, toVersion: version, rowCount, net, observed };
}

function causeOf(error: unknown): unknown {
  return error instanceof OutcomeUnknownError ? error.cause : error;
}

/** The most jobs of one transaction. */
export const MAX_BATCH_JOBS = 100;
/** The most rows of one transaction that holds more than one job. */
const MAX_BATCH_ROWS = 500_000;
/** The most bytes of files of one transaction that holds more than one job. */
const MAX_BATCH_BYTES = 64_000_000;

interface Sized {
  readonly rowCount: number;
  readonly bytes: number;
}

/** The jobs in their order, cut into runs that keep the limits. A job above them is alone. */
export function batches<T extends Sized>(
  jobs: readonly T[],
  datasetIdOf: (job: T) => string,
): readonly (readonly T[])[] {
  const result: T[][] = [];
  const datasetIds = new Set<string>();
  let rows = 0;
  let bytes = 0;
  for (const job of jobs) {
    const current = result.at(-1);
    const datasetId = datasetIdOf(job);
    rows += job.rowCount;
    bytes += job.bytes;
    if (
      current !== undefined &&
      current.length < MAX_BATCH_JOBS &&
      !datasetIds.has(datasetId) &&
      rows <= MAX_BATCH_ROWS &&
      bytes <= MAX_BATCH_BYTES
    ) {
      current.push(job);
    } else {
      result.push([job]);
      datasetIds.clear();
      rows = job.rowCount;
      bytes = job.bytes;
    }
    datasetIds.add(datasetId);
  }
  return result;
}

/** By dataset id. What is not in it was not done. */
async function findDone(
  engine: Engine,
  batch: readonly ValidatedWrite[],
  appliedAt: Date,
): Promise<ReadonlyMap<string, Done>> {
  const rows = await engine.rows(selectCommits(batch, appliedAt));
  const done = new Map<string, Done>();
  for (const { job } of batch) {
    const commit = rows.find(
      (row) =>
        textAt(row, 0) === job.datasetId &&
        KINDS_OF_JOB[job.kind].some((kind) => kind === textAt(row, 1)) &&
        numberAt(row, 2) === versionAfter(job),
    );
    if (commit !== undefined) done.set(job.datasetId, doneFrom(job.kind, commit));
  }
  return done;
}

/** The commits of this time, each with the table of a retired dataset and whether that still has its own name. */
function selectCommits(batch: readonly ValidatedWrite[], appliedAt: Date): string {
  const ids = batch.map(({ job }) => text(job.datasetId)).join(', ');
  return `SELECT c.dataset_id, c.kind, c.to_version, c.from_version, c.added, c.changed, c.removed,
      a.table_name, coalesce(a.table_name = n.table_name, FALSE)
    FROM ${catalogTable('commits')} c
    LEFT JOIN ${catalogTable('archived')} a ON a.dataset_id = c.dataset_id AND a.archived_at = c.applied_at
    LEFT JOIN ${catalogTable('names')} n ON n.dataset_id = c.dataset_id
    WHERE c.applied_at = ${timestamp(appliedAt)} AND c.dataset_id IN (${ids})`;
}

function versionAfter(job: WriteJob): number {
  return job.kind === 'retirement' ? job.plannedFrom.version : job.version;
}

function doneFrom(kind: WriteJob['kind'], row: Row): Done {
  if (kind === 'retirement') {
    return { kind: 'retired', table: placeOf(textOrNullAt(row, 7), booleanAt(row, 8)) };
  }
  const counts = {
    added: numberOrNullAt(row, 4),
    changed: numberOrNullAt(row, 5),
    removed: numberOrNullAt(row, 6),
  };
  const { added, changed, removed } = counts;
  const isCounted = added !== null && changed !== null && removed !== null;
  const net = isCounted ? { added, changed, removed } : null;
  return { kind: 'committed', fromVersion: numberOrNullAt(row, 3), net };
}
