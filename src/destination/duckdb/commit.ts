/**
 * Commits validated jobs inside one write session. A batch that fails is rolled back and its jobs are repeated one by one, so
 * that the error of one dataset stays its own.
 */

import { assert, present } from '../../lib/assert.ts';
import type { Log } from '../../lib/log.ts';
import { asError, InterruptedError } from '../../model/errors.ts';
import { lostBy } from '../../model/lost-past.ts';
import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine, Row } from '../../staging/engine/engine.ts';
import { integer, numberAt, numberOrNullAt, textAt, textOrNullAt } from '../../staging/engine/sql.ts';
import { netAt } from '../catalog/commits.ts';
import { type CatalogEntry, KINDS_OF_JOB, observedAfter, refuseIfPinned } from '../catalog/entries.ts';
import { writeEntries } from '../catalog/entry-writes.ts';
import type { KnownUnions, MemberChange, WrittenUnion } from '../catalog/unions.ts';
import type { JobResult } from '../destination.ts';
import { committed, versionAfter } from '../results.ts';
import { readNewestNumber } from './catalog/commits.ts';
import { readObservedTables } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import { catalogTable, FORMAT_VERSION } from './catalog/schema.ts';
import { type Current, readCurrent } from './catalog/tables.ts';
import { IncomparableError, ranOutOfMemory, whyIncomparable } from './difference.ts';
import { readLogs } from './history.ts';
import { placeOf } from './retire.ts';
import { readUnions, writeOutdatedUnions } from './unions.ts';
import type { ValidatedWrite } from './validate.ts';
import { OutcomeUnknownError, type WriteSession, WriteSessionLostError } from './write-session.ts';

interface CommitContext {
  readonly session: WriteSession;
  readonly appliedAt: Date;
  readonly keepsHistory: (datasetId: string) => boolean;
  readonly unions: KnownUnions;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

interface CommittedJob {
  readonly job: ValidatedWrite;
  readonly result: JobResult;
}

/**
 * Yields the results as soon as they are certain, in the order of the jobs. Never throws for a job: one that failed carries the
 * error as it came, because its cause in the data is looked for after the mirror is released.
 */
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
    for (const [index, job] of batch.entries()) yield { job, result: results[index] ?? failed(job, lost) };
  }
}

function failed({ job: { datasetId } }: ValidatedWrite, error: unknown): JobResult {
  return { kind: 'failed', datasetId, error: asError(error) };
}

async function commitBatch(
  context: CommitContext,
  batch: readonly ValidatedWrite[],
): Promise<readonly JobResult[]> {
  const numbers = new Map<string, number>();
  try {
    return await commitComparing(context, batch, numbers);
  } catch (error) {
    if (error instanceof WriteSessionLostError) throw error;
    const found =
      error instanceof OutcomeUnknownError ? await findCommitted(context, batch, numbers) : new Map();
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) {
      return [found.get(only.job.datasetId) ?? failed(only, causeOf(error))];
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

/** Where a commit awaits approval, the batch is rolled back and repeated without it. */
class AwaitsApproval extends Error {
  override readonly name = 'AwaitsApproval';
  readonly result: JobResult;

  constructor(result: JobResult) {
    super('A commit awaits approval.');
    this.result = result;
  }
}

/** The numbers that the last transaction has given to its commits, by dataset id. */
type CommitNumbers = Map<string, number>;

/** Where a table cannot be compared, the batch is repeated without comparing that table. */
async function commitComparing(
  context: CommitContext,
  batch: readonly ValidatedWrite[],
  numbers: CommitNumbers,
): Promise<readonly JobResult[]> {
  const incomparable = new Map<string, string>();
  const results = new Map<string, JobResult>();
  for (;;) {
    const others = batch.filter(({ job }) => !results.has(job.datasetId));
    try {
      for (const result of await commitTogether(context, others, incomparable, numbers)) {
        results.set(result.datasetId, result);
      }
      return batch.map(({ job }) => present(results.get(job.datasetId), 'every job has a result'));
    } catch (error) {
      if (error instanceof AwaitsApproval) results.set(error.result.datasetId, error.result);
      else {
        noteIncomparable(error, incomparable);
        if (ranOutOfMemory(error)) await context.session.startAfresh();
      }
    }
  }
}

/** @throws every other error, and that of a table which fails without a comparison, too. */
function noteIncomparable(error: unknown, incomparable: Map<string, string>): void {
  if (!(error instanceof IncomparableError)) throw error;
  if (incomparable.has(error.datasetId)) throw error.cause;
  incomparable.set(error.datasetId, whyIncomparable(error));
}

async function commitTogether(
  { session, appliedAt, keepsHistory, unions, log, signal }: CommitContext,
  batch: readonly ValidatedWrite[],
  incomparable: ReadonlyMap<string, string>,
  numbers: CommitNumbers,
): Promise<readonly JobResult[]> {
  numbers.clear();
  if (batch.length === 0) return [];
  // Checked each time, because an interrupted batch must not be repeated job by job.
  if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
  const rehashed: string[] = [];
  const written: WrittenUnion[] = [];
  const all = await session.transaction(async (engine) => {
    const current = await readCurrent(
      engine,
      batch.map(({ job }) => job),
    );
    const newest = await readNewestNumber(engine, FORMAT_VERSION);
    const entries: CatalogEntry[] = [];
    const results: JobResult[] = [];
    const changes: MemberChange[] = [];
    for (const each of batch) {
      const { datasetId } = each.job;
      const ofDataset = present(current.get(datasetId), 'every dataset of the batch was read');
      const commitNumber = newest + entries.length + 1;
      const entry = await each.execute(engine, ofDataset, {
        commitNumber,
        appliedAt,
        incomparable: incomparable.get(datasetId) ?? null,
        keepsHistory: keepsHistory(datasetId),
      });
      if (entry?.kind === 'awaiting') throw new AwaitsApproval({ ...entry, datasetId });
      if (entry !== null) {
        refuseIfPinned(entry, ofDataset);
        entries.push(entry);
        numbers.set(datasetId, commitNumber);
        changes.push({ before: ofDataset.live, entry });
        if (isRehashed(entry, ofDataset)) rehashed.push(datasetId);
      }
      results.push(resultOf(each, entry, ofDataset, commitNumber));
    }
    for (const statement of statementsOf(writeEntries(entries, newest, 'main'))) await engine.run(statement);
    written.push(...(await writeOutdatedUnions(engine, unions.options, changes)));
    return await withLostPasts(engine, results, current);
  });
  for (const dataset of rehashed) {
    log.info({ dataset }, 'The hash of DuckDB is another: the checksum of the table was computed again.');
  }
  unions.wrote(written);
  return all;
}

/** Adds why commits have lost the past of their tables. */
async function withLostPasts(
  engine: Engine,
  results: readonly JobResult[],
  current: ReadonlyMap<string, Current>,
): Promise<readonly JobResult[]> {
  const closings = new Map(
    [...current].flatMap(([id, { closing }]) => (closing === null ? [] : [[id, closing]])),
  );
  const logs = await readLogs(engine, [...closings.keys()]);
  return results.map((result) => {
    if (result.kind !== 'committed') return result;
    const { datasetId } = result;
    const lost = lostBy(closings.get(datasetId) ?? null, logs.get(datasetId)?.closing ?? null);
    return lost === null ? result : { ...result, committed: { ...result.committed, lostPast: lost } };
  });
}

function isRehashed(entry: CatalogEntry, { checksum }: Current): boolean {
  return entry.kind === 'live' && checksum !== null && checksum.version !== entry.checksum.version;
}

/** `entry` is null when the plan is stale. */
function resultOf(
  { job }: ValidatedWrite,
  entry: CatalogEntry | null,
  { live }: Current,
  commitNumber: number,
): JobResult {
  const { datasetId } = job;
  if (entry === null) return { kind: 'stale-plan', datasetId };
  if (entry.kind === 'live') {
    const { fromVersion, net } = entry.commit;
    return committed(job, fromVersion, net, observedAfter(entry, live, commitNumber));
  }
  return retired(job, entry.tableName);
}

/**
 * After a COMMIT that was refused: which of the jobs the mirror has nevertheless, as its catalog says. By dataset id. Nobody but the
 * instance that holds the lock gives numbers, so they are those of these commits or of none.
 */
async function findCommitted(
  { session, unions }: CommitContext,
  batch: readonly ValidatedWrite[],
  numbers: CommitNumbers,
): Promise<ReadonlyMap<string, JobResult>> {
  return await session.transaction(async (engine) => {
    const found = await findRows(engine, batch, numbers);
    const observed = await readObservedTables(engine, [...found.keys()]);
    await unions.read(() => readUnions(engine));
    const results = batch.flatMap(({ job }): [string, JobResult][] => {
      const row = found.get(job.datasetId);
      if (row === undefined) return [];
      if (job.kind === 'retirement') return [[job.datasetId, retired(job, textOrNullAt(row, 7))]];
      const table = present(observed.get(job.datasetId), 'a table that was committed is live');
      return [[job.datasetId, committed(job, numberOrNullAt(row, 3), netAt(row, 4), table)]];
    });
    return new Map(results);
  });
}

function retired(job: WriteJob, tableName: string | null): JobResult {
  assert(job.kind === 'retirement', 'only a retirement retires a table');
  const { datasetId, plannedFrom } = job;
  return { kind: 'retired', datasetId, table: placeOf(tableName, tableName === plannedFrom.tableName) };
}

function causeOf(error: unknown): unknown {
  return error instanceof OutcomeUnknownError ? error.cause : error;
}

/** The most jobs in one transaction. */
export const MAX_BATCH_JOBS = 100;
/** The most rows in a transaction of several jobs. */
const MAX_BATCH_ROWS = 500_000;
/** The most file bytes in a transaction of several jobs. */
const MAX_BATCH_BYTES = 64_000_000;

interface Sized {
  readonly rowCount: number;
  readonly bytes: number;
}

/** Cuts the jobs, in their order, into batches within the limits. A job above the limits becomes a batch of its own. */
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

/** Returns the rows of the commits that the jobs have made, by dataset id. */
async function findRows(
  engine: Engine,
  batch: readonly ValidatedWrite[],
  numbers: CommitNumbers,
): Promise<ReadonlyMap<string, Row>> {
  if (numbers.size === 0) return new Map();
  const rows = await engine.rows(selectCommits([...numbers.values()]));
  const found = new Map<string, Row>();
  for (const { job } of batch) {
    const commit = rows.find(
      (row) =>
        textAt(row, 0) === job.datasetId &&
        numberAt(row, 8) === numbers.get(job.datasetId) &&
        KINDS_OF_JOB[job.kind].some((kind) => kind === textAt(row, 1)) &&
        numberAt(row, 2) === versionAfter(job),
    );
    if (commit !== undefined) found.set(job.datasetId, commit);
  }
  return found;
}

/** Selects the commits of these numbers, each with the name of the archived table of a retired dataset. */
function selectCommits(numbers: readonly number[]): string {
  return `SELECT c.dataset_id, c.kind, c.to_version, c.from_version, c.added, c.changed, c.removed, a.table_name, c.commit_number
    FROM ${catalogTable('commits')} c
    LEFT JOIN ${catalogTable('archived')} a ON a.dataset_id = c.dataset_id AND a.archived_at = c.applied_at
    WHERE c.commit_number IN (${numbers.map(integer).join(', ')})`;
}
