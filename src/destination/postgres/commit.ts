/** Commits one job in one transaction, and finds out what became of it where the answer to COMMIT was lost. */

import type { Clock } from '../../lib/clock.ts';
import { asError, InterruptedError } from '../../model/errors.ts';
import type { JudgedCommit } from '../../model/gate.ts';
import { lostBy } from '../../model/lost-past.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { integer } from '../../staging/engine/sql.ts';
import { type CatalogEntry, observedAfter, refuseIfPinned } from '../catalog/entries.ts';
import { writeEntries } from '../catalog/entry-writes.ts';
import type { HistoryOptions } from '../catalog/undo-logs.ts';
import type { KnownUnions, WrittenUnion } from '../catalog/unions.ts';
import type { JobResult } from '../destination.ts';
import { committed, versionAfter } from '../results.ts';
import { deleteCandidate } from './candidates.ts';
import { refuseWithoutSchema, writeState } from './catalog/distributed.ts';
import { ARCHIVE_SCHEMA, catalogTable, LIVE_SCHEMA, namedAs } from './catalog/names.ts';
import { type Current, readCurrent, readLiveLog, type SchemaOf } from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import type { Connection, Transaction } from './connection.ts';
import { destinationError, isOfNode, OutcomeUnknownError, PostgresError } from './errors.ts';
import { copyInto, type Turn, type ValidatedWrite } from './job.ts';
import type { Lease } from './lease.ts';
import { alterPatiently, isLocked, type LockPatience } from './lock-waits.ts';
import { type NodeWatch, SilentNodeError } from './node-watch.ts';
import type { Pipe } from './pipe.ts';
import { markCommitted } from './requests.ts';
import { waitAtMost } from './settings.ts';
import { emptyStage } from './stage.ts';
import { dropKey, exceedsAnIndex, type Indexes } from './tables.ts';
import { type Postgis, searchPath } from './types.ts';
import { locksOfUnions, writeOutdatedUnions } from './unions.ts';

export interface Committing {
  /** The database without its password, for messages. */
  readonly place: string;
  readonly connection: Connection;
  readonly lease: Lease;
  readonly postgis: Postgis | null;
  readonly pipe: Pipe;
  /** Writes the rows of files. */
  readonly writing: Engine;
  readonly clock: Clock;
  readonly patience: LockPatience;
  readonly indexes: Indexes;
  readonly history: HistoryOptions;
  readonly unions: KnownUnions;
  readonly schemaOf: SchemaOf;
  /** Null without Citus. */
  readonly nodes: NodeWatch | null;
  readonly signal?: AbortSignal;
}

/** How often a transaction is repeated that the server ended for the sake of another one, or whose connection broke. */
const MAX_ATTEMPTS = 5;
const PAUSE_MS = 500;

/** Rolls the transaction back. */
class AwaitsApproval extends Error {
  override readonly name = 'AwaitsApproval';
  readonly judged: JudgedCommit;

  constructor(judged: JudgedCommit) {
    super('The commit awaits approval.');
    this.judged = judged;
  }
}

/** The result of a transaction, should its COMMIT take effect. */
interface Attempted {
  readonly commitNumber: number;
  readonly result: JobResult;
  readonly written: readonly WrittenUnion[];
}

/** A COMMIT was sent, and whether it took effect could not be found out, because of the cause. */
class SentCommit extends Error {
  override readonly name = 'SentCommit';
  readonly attempted: Attempted;

  constructor(attempted: Attempted, cause: unknown) {
    super('The outcome of a COMMIT is not known.', { cause });
    this.attempted = attempted;
  }
}

/** The knowledge that an attempt leaves for the next one. */
interface Repetition {
  /** The attempt whose COMMIT may have taken effect; null: none got so far. */
  readonly sent: Attempted | null;
  /** The table goes without the index of its key, which cannot hold a value. */
  readonly dropsKey: boolean;
  /** Whether an attempt has failed. */
  readonly isRepeated: boolean;
}

/**
 * Commits a job, in up to five attempts. Never throws for the job: an error is returned as it came, because the caller searches
 * the data for its cause. A COMMIT whose outcome is unknown is looked up before a retry, also where the database is away for a while.
 */
export async function commitWithRetries(
  committing: Committing,
  job: ValidatedWrite,
): Promise<JobResult | Error> {
  const { clock, signal } = committing;
  let repetition: Repetition = { sent: null, dropsKey: false, isRepeated: false };
  for (let attempt = 1; ; attempt += 1) {
    try {
      if (signal?.aborted) throw new InterruptedError('The commit was interrupted.');
      return await repeated(committing, job, repetition);
    } catch (thrown) {
      if (isLocked(thrown)) committing.patience.noteVain();
      await recover(committing, thrown);
      const next = attempt < attemptsFor(thrown) ? repetitionAfter(thrown, repetition) : null;
      if (next === null) return lastError(thrown, repetition);
      repetition = { ...next, isRepeated: true };
      await clock.sleep(PAUSE_MS * attempt, signal).catch(() => {});
    }
  }
}

async function repeated(
  committing: Committing,
  job: ValidatedWrite,
  repetition: Repetition,
): Promise<JobResult> {
  const { sent } = repetition;
  if (sent !== null && (await hasTakenEffect(committing, sent))) return completed(committing, sent);
  return await attemptOf(committing, job, repetition);
}

/** A node that was restarted is there at once; one that is down, or silent, holds up nobody. */
function attemptsFor(thrown: unknown): number {
  if (thrown instanceof SilentNodeError) return 1;
  return isOfNode(thrown) ? 2 : MAX_ATTEMPTS;
}

/** What a node has prepared, and does not end, keeps the rows of a dataset locked. */
async function recover({ nodes }: Committing, thrown: unknown): Promise<void> {
  if (isOfNode(thrown) && !(thrown instanceof SilentNodeError)) await nodes?.recover();
}

/** Null: a repetition does not help. */
function repetitionAfter(thrown: unknown, before: Repetition): Repetition | null {
  if (thrown instanceof SentCommit) {
    return isRepeatable(thrown.cause) ? { ...before, sent: thrown.attempted } : null;
  }
  if (exceedsAnIndex(thrown)) return before.dropsKey ? null : { ...before, dropsKey: true };
  return isRepeatable(thrown) ? before : null;
}

function lastError(thrown: unknown, { dropsKey }: Repetition): Error {
  if (thrown instanceof SentCommit) return asError(thrown.cause);
  // Without its key the table has no such index but those that readers made.
  if (dropsKey && exceedsAnIndex(thrown))
    return new PostgresError('depended-on', thrown.message, thrown.cause);
  return asError(thrown);
}

function isRepeatable(error: unknown): boolean {
  if (isOfNode(error)) return true;
  return error instanceof PostgresError && (error.fault === 'conflict' || error.fault === 'unavailable');
}

async function attemptOf(
  committing: Committing,
  job: ValidatedWrite,
  repetition: Repetition,
): Promise<JobResult> {
  const { place, connection, lease, postgis, schemaOf, clock, nodes } = committing;
  const path = searchPath(postgis);
  const now = clock.now();
  let attempted = null as Attempted | null;
  nodes?.start();
  try {
    const done = await connection.transaction(
      async (transaction) => {
        const current = await forAll(place, async () => {
          await lease.holdAlone(transaction);
          return await readCurrent(transaction, job.job.datasetId, postgis, schemaOf);
        });
        // Times never fall, so that each time names one state.
        const appliedAt = now > current.newestTime ? now : current.newestTime;
        attempted = await executed(committing, { transaction, job, current, appliedAt, ...repetition });
        return attempted;
      },
      { searchPath: path },
    );
    return completed(committing, done);
  } catch (error) {
    if (isOfNode(error)) nodes?.noteLost();
    if (error instanceof AwaitsApproval) {
      return { kind: 'awaiting', datasetId: job.job.datasetId, judged: error.judged };
    }
    // A lock that COMMIT waits for is one of the reader whose constraint is checked so late.
    if (attempted !== null && isOfAll(error) && !isLocked(error)) throw destinationError(error, place);
    if (!(error instanceof OutcomeUnknownError) || attempted === null) throw error;
    const sent = attempted;
    const isFound = await hasTakenEffect(committing, sent).catch((why: unknown) => {
      throw new SentCommit(sent, why);
    });
    if (!isFound) throw error.cause;
    return completed(committing, sent);
  } finally {
    nodes?.end();
  }
}

function completed({ unions }: Committing, { result, written }: Attempted): JobResult {
  unions.wrote(written);
  return result;
}

/**
 * Reads in the catalog whether a COMMIT without an answer took effect. Nobody but the instance that holds the lease gives numbers, and
 * it gives them one after another, so the number is that of this commit or of none.
 */
async function hasTakenEffect(
  { connection, lease }: Committing,
  { commitNumber }: Attempted,
): Promise<boolean> {
  return await connection.transaction(
    async (transaction) => {
      // The server may still be at the COMMIT.
      await lease.waitForEarlier(transaction);
      const made = `SELECT 1 FROM ${catalogTable('commits')} WHERE commit_number = ${integer(commitNumber)}`;
      const isMade = (await transaction.rows(made)).length > 0;
      await lease.refuseIfLost(transaction);
      return isMade;
    },
    { isDiscarded: true },
  );
}

interface Attempt extends Pick<Repetition, 'dropsKey' | 'isRepeated'> {
  readonly transaction: Transaction;
  readonly job: ValidatedWrite;
  readonly current: Current;
  readonly appliedAt: Date;
}

async function executed(
  { place, writing, pipe, postgis, clock, patience, indexes, history, unions, nodes, schemaOf }: Committing,
  { transaction, job, current, appliedAt, dropsKey, isRepeated }: Attempt,
): Promise<Attempted> {
  const { datasetId } = job.job;
  const { lockWaitMs } = patience;
  const commitNumber = current.newestNumber + 1;
  const turn: Turn = {
    transaction,
    commitNumber,
    appliedAt,
    isRepeated,
    keepsHistory: history.keeps(datasetId),
    postgis,
    indexes,
    schemaOf,
    staging: writing,
    copy: copyInto(writing, pipe, { transaction, postgis }),
    alter: alterPatiently(transaction, { clock, lockWaitMs }, () =>
      locksOfUnions(transaction, unions.options, datasetId),
    ),
  };
  if (current.isDistributed) await nodes?.begin(transaction, current.schemaName);
  if (nodes !== null && current.found === null) await refuseWithoutSchema(transaction, current);
  await writeState(transaction, current, datasetId, commitNumber);
  await transaction.run(waitAtMost(lockWaitMs));
  if (dropsKey && current.found !== null) await turn.alter(dropKey(current, current.found));
  const entry = await job.execute(
    turn,
    dropsKey ? await readCurrent(transaction, datasetId, postgis, schemaOf) : current,
  );
  if (entry === null) return { commitNumber, result: { kind: 'stale-plan', datasetId }, written: [] };
  if (entry.kind === 'awaiting') throw new AwaitsApproval(entry.judged);
  refuseIfPinned(entry, current);
  const approved = approvedDigestOf(job.job);
  const statements = [
    ...statementsOf(writeEntries([entry], current.newestNumber)),
    deleteCandidate(datasetId),
    ...(approved === null ? [] : [markCommitted(datasetId, versionAfter(job.job), approved)]),
  ];
  await forAll(place, async () => {
    for (const statement of statements) await transaction.run(statement);
  });
  await emptyStage(transaction, current);
  const written = await writeOutdatedUnions(turn, unions.options, { before: current.live, entry });
  const log = current.log === null ? null : await readLiveLog(transaction, datasetId);
  const lostPast = lostBy(current.log?.closing ?? null, log?.closing ?? null);
  return { commitNumber, result: resultOf(job, entry, current, lostPast), written };
}

/** Runs what has nothing to do with the rows of the dataset. @throws BusyError, StorageError where it fails for every dataset alike */
async function forAll<T>(place: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isOfAll(error) ? destinationError(error, place) : error;
  }
}

/** Returns whether an error beside the rows of the dataset concerns all datasets. */
function isOfAll(error: unknown): boolean {
  return isLocked(error) || (error instanceof PostgresError && error.fault === 'storage');
}

/** The content that an operator has approved, and that the job commits. */
function approvedDigestOf(job: ValidatedWrite['job']): string | null {
  return job.kind === 'snapshot' || job.kind === 'changes' ? (job.gate?.approvedDigest ?? null) : null;
}

function resultOf(
  { job }: ValidatedWrite,
  entry: CatalogEntry,
  { live, newestNumber }: Current,
  lostPast: string | null,
): JobResult {
  if (entry.kind === 'retired') return retired(job, entry.tableName);
  const { fromVersion, net } = entry.commit;
  return committed(job, fromVersion, net, observedAfter(entry, live, newestNumber + 1), lostPast);
}

function retired(job: ValidatedWrite['job'], tableName: string | null): JobResult {
  const { datasetId } = job;
  if (tableName === null) return { kind: 'retired', datasetId, table: null };
  const usual = job.kind === 'retirement' && job.how === 'keep' ? LIVE_SCHEMA : ARCHIVE_SCHEMA;
  const named = namedAs(tableName, usual);
  return { kind: 'retired', datasetId, table: `${named.schemaName}.${named.tableName}` };
}
