/**
 * Commits validated jobs inside one write session. A batch that fails is rolled back and its jobs are repeated one by one, so
 * that the error of one dataset stays its own.
 */

import { assert, present } from '../../lib/assert.ts';
import type { Log } from '../../lib/log.ts';
import { asError, InterruptedError } from '../../model/errors.ts';
import { lostBy } from '../../model/lost-past.ts';
import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { type CatalogEntry, observedAfter, refuseIfPinned } from '../catalog/entries.ts';
import { writeEntries } from '../catalog/entry-writes.ts';
import type { KnownUnions, MemberChange, WrittenUnion } from '../catalog/unions.ts';
import type { JobResult } from '../destination.ts';
import { committed } from '../results.ts';
import { readNewestNumber } from './catalog/commits.ts';
import { statementsOf } from './catalog/rows.ts';
import { FORMAT_VERSION } from './catalog/schema.ts';
import { IncomparableError, ranOutOfMemory, whyIncomparable } from './difference.ts';
import { readLogs } from './past/history.ts';
import { placeOf } from './retire.ts';
import { type Current, readCurrent } from './tables.ts';
import { writeOutdatedUnions } from './unions.ts';
import type { Turn, ValidatedWrite } from './validate.ts';
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
 * error as it came, because the data is searched for its cause after the mirror is released.
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
  try {
    return await commitComparing(context, batch);
  } catch (error) {
    if (error instanceof WriteSessionLostError) throw error;
    const [only] = batch;
    if (batch.length === 1 && only !== undefined) return [failed(only, error)];
    const results: JobResult[] = [];
    for (const job of batch) results.push(...(await commitBatch(context, [job])));
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

/** Where a table cannot be compared, the batch is repeated without comparing that table. */
async function commitComparing(
  context: CommitContext,
  batch: readonly ValidatedWrite[],
): Promise<readonly JobResult[]> {
  const incomparable = new Map<string, Comparing>();
  const results = new Map<string, JobResult>();
  for (;;) {
    const others = batch.filter(({ job }) => !results.has(job.datasetId));
    try {
      for (const result of await commitTogether(context, others, incomparable)) {
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

/** Whether a table is compared. */
type Comparing = Pick<Turn, 'incomparable' | 'comparesKeys'>;

const COMPARED: Comparing = { incomparable: null, comparesKeys: true };

/**
 * A gate judges the keys where whole rows need too much memory. @throws every other error, and that of a table which fails without a
 * comparison, too.
 */
function noteIncomparable(error: unknown, incomparable: Map<string, Comparing>): void {
  if (!(error instanceof IncomparableError)) throw error;
  const before = incomparable.get(error.datasetId);
  if (before !== undefined && !before.comparesKeys) throw error.cause;
  const comparesKeys = before === undefined && error.compared === 'rows' && ranOutOfMemory(error);
  incomparable.set(error.datasetId, { incomparable: whyIncomparable(error), comparesKeys });
}

async function commitTogether(
  { session, appliedAt, keepsHistory, unions, log, signal }: CommitContext,
  batch: readonly ValidatedWrite[],
  incomparable: ReadonlyMap<string, Comparing>,
): Promise<readonly JobResult[]> {
  if (batch.length === 0) return [];
  // Checked each time, because an interrupted batch must not be repeated job by job.
  if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
  const rehashed: string[] = [];
  const { results, written } = await attempted(session, async (engine) => {
    const current = await readCurrent(
      engine,
      batch.map(({ job }) => job),
    );
    const newest = await readNewestNumber(engine, FORMAT_VERSION);
    const entries: CatalogEntry[] = [];
    const made: JobResult[] = [];
    const changes: MemberChange[] = [];
    for (const each of batch) {
      const { datasetId } = each.job;
      const ofDataset = present(current.get(datasetId), 'every dataset of the batch was read');
      const commitNumber = newest + entries.length + 1;
      const entry = await each.execute(engine, ofDataset, {
        commitNumber,
        appliedAt,
        ...(incomparable.get(datasetId) ?? COMPARED),
        keepsHistory: keepsHistory(datasetId),
      });
      if (entry?.kind === 'awaiting') throw new AwaitsApproval({ ...entry, datasetId });
      if (entry !== null) {
        refuseIfPinned(entry, ofDataset);
        entries.push(entry);
        changes.push({ before: ofDataset.live, entry });
        if (isRehashed(entry, ofDataset)) rehashed.push(datasetId);
      }
      made.push(resultOf(each, entry, ofDataset, commitNumber));
    }
    for (const statement of statementsOf(writeEntries(entries, newest))) await engine.run(statement);
    return {
      written: await writeOutdatedUnions(engine, unions.options, changes),
      results: await withLostPasts(engine, made, current),
      newest: newest + entries.length,
    };
  });
  for (const dataset of rehashed) {
    log.info({ dataset }, 'The hash of DuckDB is another: the checksum of the table was computed again.');
  }
  unions.wrote(written);
  return results;
}

/** The result of a transaction, should its COMMIT take effect. */
interface Attempted {
  readonly results: readonly JobResult[];
  readonly written: readonly WrittenUnion[];
  /** The number of the newest commit of the mirror. */
  readonly newest: number;
}

/**
 * After a COMMIT that was refused, the catalog shows whether the transaction took effect: nobody but the instance that holds the lock
 * gives numbers, so the newest one is that of this transaction or an earlier one.
 * @throws the reason of the refusal where it took none.
 */
async function attempted(
  session: WriteSession,
  work: (engine: Engine) => Promise<Attempted>,
): Promise<Attempted> {
  let attempt = null as Attempted | null;
  try {
    return await session.transaction(async (engine) => {
      attempt = await work(engine);
      return attempt;
    });
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError) || attempt === null) throw error;
    const newest = await session.transaction((engine) => readNewestNumber(engine, FORMAT_VERSION));
    if (newest < attempt.newest) throw error.cause;
    return attempt;
  }
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

function retired(job: WriteJob, tableName: string | null): JobResult {
  assert(job.kind === 'retirement', 'only a retirement retires a table');
  const { datasetId, plannedFrom } = job;
  return { kind: 'retired', datasetId, table: placeOf(tableName, tableName === plannedFrom.tableName) };
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
