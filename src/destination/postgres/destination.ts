/**
 * PostgreSQL as a destination, which `open.ts` opens. Jobs are validated beside the work on the database; each is a transaction of its
 * own: the lease is held → the rows are staged, compared, written in place and proven → the catalog is written → COMMIT.
 */

import pLimit from 'p-limit';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { RunProgram } from '../../lib/run-program.ts';
import type { Secret } from '../../lib/secret.ts';
import type { CommitPosition } from '../../model/commits.ts';
import { BusyError } from '../../model/errors.ts';
import type { ChangesJob, ObservedTable, ReadAhead, WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError } from '../../staging/engine/errors.ts';
import { bookmarkWrites } from '../catalog/commits.ts';
import { hasEnrolment, serviceWrites } from '../catalog/enrolment.ts';
import { PastLimit } from '../catalog/past-limit.ts';
import { replaceOwed, replaceProgress } from '../catalog/progress.ts';
import { type HistoryOptions, NO_HISTORY } from '../catalog/undo-logs.ts';
import { KnownUnions, type RecordedUnion, type UnionOptions, type WrittenUnion } from '../catalog/unions.ts';
import type {
  ChecksumRenewal,
  Destination,
  Enrolment,
  Forgotten,
  JobQueue,
  JobResult,
  ObservedState,
  OwedReload,
  RenewedChecksums,
  StoredChecksum,
  StoredProgress,
  TableChecksum,
  ValidatedJob,
} from '../destination.ts';
import type { CommitLimits, CommitPage, CommitSource, ExportSource } from '../publication.ts';
import { Validation } from '../validation.ts';
import { validateChanges, validateChangesTogether } from './apply-changes.ts';
import { BesideJobs } from './beside-jobs.ts';
import { DatabaseCandidates } from './candidates.ts';
import { readCommits } from './catalog/commits.ts';
import { makeCatalog, makeSchemas } from './catalog/make-catalog.ts';
import { LIVE_SCHEMA } from './catalog/names.ts';
import {
  giveNames,
  hasCatalog,
  readMeta,
  readNames,
  readProgress,
  readSchemas,
  readWithMissing,
  type SchemaOf,
} from './catalog/observed-state.ts';
import { statementsOf } from './catalog/rows.ts';
import { unpinned } from './catalog/schema.ts';
import { type Committing, commitWithRetries } from './commit.ts';
import type { Connection, Transaction } from './connection.ts';
import { destinationError, isOfNode } from './errors.ts';
import { exportTable } from './export-table.ts';
import { grantReaders } from './grants.ts';
import type { ValidatedWrite } from './job.ts';
import type { Lease } from './lease.ts';
import { validateSnapshot } from './load-snapshot.ts';
import { alterPatiently, LockPatience } from './lock-waits.ts';
import type { NodeWatch } from './node-watch.ts';
import { pruneHistory, readOldestEnd } from './past/prune-history.ts';
import { renewFunctions } from './past/renew-functions.ts';
import { validateRollback } from './past/rollback.ts';
import type { Pipe } from './pipe.ts';
import { renewChecksums, storeChecksum } from './renew-checksums.ts';
import { validateRepair } from './repair.ts';
import { DatabaseRequests } from './requests.ts';
import { validateRetirement } from './retire.ts';
import { stagingFailure } from './staging-failure.ts';
import type { Indexes } from './tables.ts';
import { type Postgis, searchPath } from './types.ts';
import { configureUnions, readUnions } from './unions.ts';

export interface PostgresOptions {
  /** `postgres://…`, with the password. */
  readonly url: Secret;
  readonly dataDirectory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  readonly reserveBytes: number;
  /** How long another writer, and a lock of a reader, are waited for. */
  readonly lockWaitMs: number;
  readonly leaseMs: number;
  /** Roles that may read every table of the mirror. */
  readonly readers: readonly string[];
  /** The indexes of new tables. */
  readonly indexes: Indexes;
  /** Returns the schema of a dataset that has no table yet; by default `feeds`. */
  readonly schemaOf?: SchemaOf;
  /** The datasets that keep their history, and for how long; none by default. */
  readonly history?: HistoryOptions;
  /** Views over many tables; none by default. */
  readonly unions?: readonly UnionOptions[];
  /** Random, different for each process. */
  readonly token: string;
  /** Names this process for people. */
  readonly holder: string;
  /** Called with the holder each time that another writer is found at work; with it, that one is waited for without end. */
  readonly onStandby?: (holder: string) => void;
  /** Called once when another writer has taken over. */
  readonly onSuperseded?: (error: BusyError) => void;
  /** The folder of the export; null when nothing is exported. */
  readonly exportFolder?: string | null;
  readonly runProgram: RunProgram;
  /** The PATH in which `mkfifo` is looked up. */
  readonly programPath: string;
  readonly signal?: AbortSignal;
  readonly clock: Clock;
  readonly log: Log;
}

/** The parts of a destination that is open. */
export interface Opened {
  readonly place: string;
  readonly connection: Connection;
  readonly lease: Lease;
  readonly postgis: Postgis | null;
  /** Null without Citus. */
  readonly nodes: NodeWatch | null;
  readonly pipe: Pipe;
  readonly validating: Engine;
  /** Reads changes ahead beside a validation; null where the memory is too small for it. */
  readonly readingAhead: Engine | null;
  readonly writing: Engine;
}

export class PostgresDestination implements Destination, CommitSource, ExportSource {
  readonly #options: PostgresOptions;
  readonly #opened: Opened;
  readonly #validation: Validation<ValidatedWrite>;
  readonly #inTurn = pLimit(1);
  readonly #unions: KnownUnions;
  readonly #pastLimit: PastLimit;
  readonly #patience: LockPatience;
  readonly #schemaOf: SchemaOf;
  readonly #besideJobs: BesideJobs;
  readonly requests: DatabaseRequests;
  readonly candidates: DatabaseCandidates;

  constructor(options: PostgresOptions, opened: Opened) {
    this.#options = options;
    this.#opened = opened;
    const { url, clock, log, unions = [], history = NO_HISTORY } = options;
    this.#pastLimit = new PastLimit(history.keepMs, clock);
    this.#unions = new KnownUnions(unions, log);
    this.#patience = new LockPatience(options);
    this.#schemaOf = options.schemaOf ?? (() => LIVE_SCHEMA);
    this.requests = new DatabaseRequests({ url, clock }, opened.lease);
    this.#besideJobs = new BesideJobs({ url, clock });
    this.candidates = new DatabaseCandidates(this.#besideJobs, opened.lease);
    const { place, validating, readingAhead } = opened;
    const validate = (engine: Engine, job: WriteJob) => validateJob(engine, job, place);
    const validateTogether = (engine: Engine, jobs: readonly ChangesJob[]) =>
      validateChangesTogether(engine, jobs, place);
    this.#validation = new Validation({ validate, validateTogether }, validating, readingAhead);
  }

  has(): Promise<ObservedState> {
    const { place } = this.#opened;
    return this.#read(async (transaction) => {
      await this.#unions.read(() => readUnions(transaction));
      const observed = await readWithMissing(transaction, place);
      await this.#pastLimit.measure(() => readOldestEnd(transaction));
      return observed;
    });
  }

  /** Unions come first, so that no dataset gets the name of one. */
  async enroll(enrolment: Enrolment): Promise<void> {
    const { place, postgis } = this.#opened;
    const { datasetIds } = enrolment;
    let written: readonly WrittenUnion[] = [];
    const schemas = new Set([LIVE_SCHEMA, ...datasetIds.map(this.#schemaOf)]);
    await this.#makeSchemas(schemas);
    await this.#write(async (transaction) => {
      const { service } = await readMeta(transaction, place);
      const alter = alterPatiently(transaction, this.#options, async () => []);
      written = await configureUnions({ transaction, alter, postgis }, this.#unions.options, datasetIds);
      await renewFunctions(transaction, postgis);
      if (hasEnrolment({ service, names: await readNames(transaction) }, enrolment)) return;
      for (const statement of statementsOf(serviceWrites(service, enrolment)))
        await transaction.run(statement);
      await giveNames(transaction, datasetIds, [...schemas]);
    });
    this.#unions.wrote(written);
  }

  /** With Citus a schema takes all nodes. While one is missing, only the datasets wait that need it. */
  async #makeSchemas(schemas: ReadonlySet<string>): Promise<void> {
    const { place } = this.#opened;
    const { readers, log } = this.#options;
    try {
      await this.#write(async (transaction) => {
        await makeMissingCatalog(transaction);
        if (!(await makeSchemas(transaction, schemas))) return;
        await grantReaders(transaction, readers, [...schemas, ...(await readSchemas(transaction))], place);
      });
    } catch (error) {
      if (!isOfNode(error)) throw error;
      await this.#write(makeMissingCatalog);
      log.warn({ path: place, why: String(error) }, 'Schemas could not be made: a node is missing.');
    }
  }

  validate(job: WriteJob): Promise<ValidatedJob> {
    return this.#validation.validate(job);
  }

  readAhead(job: ChangesJob): Promise<ReadAhead | null> {
    return this.#validation.readAhead(job);
  }

  async commit(queue: JobQueue): Promise<void> {
    const failed: (readonly [job: ValidatedWrite, error: unknown])[] = [];
    await this.#inTurn(async () => {
      for (let jobs = queue.take(); jobs.length > 0; jobs = queue.take()) {
        for (const validated of jobs) {
          const job = ownValidated(validated);
          await this.#reopenWriting();
          const result = await commitWithRetries(this.#committing(), job);
          if (result instanceof Error) failed.push([job, result]);
          else queue.report(job, result);
        }
      }
      if (failed.length === 0) await this.#storeBesideCommits(queue);
      await this.#pruneBesideCommits();
    });
    for (const [job, cause] of failed) {
      const { datasetId } = job.job;
      const error = await this.#explained(job, cause);
      queue.report(job, { kind: 'failed', datasetId, error } satisfies JobResult);
    }
  }

  /** The instance that gave up on the rows of one dataset refuses those of the others. */
  async #reopenWriting(): Promise<void> {
    const { writing } = this.#opened;
    if (writing.invalidated) await writing.reopen();
  }

  async #explained(job: ValidatedWrite, cause: unknown): Promise<Error> {
    const error = await this.#validation.use((engine) => job.explain(engine, cause));
    if (!(error instanceof DuckDbError)) return error;
    return await stagingFailure(error, job.job.datasetId, this.#options.dataDirectory);
  }

  #committing(): Committing {
    const { clock, indexes, history = NO_HISTORY, signal } = this.#options;
    return {
      ...this.#opened,
      clock,
      patience: this.#patience,
      indexes,
      history,
      unions: this.#unions,
      schemaOf: this.#schemaOf,
      ...(signal === undefined ? {} : { signal }),
    };
  }

  /** A failure is only logged, because the jobs are committed. */
  async #storeBesideCommits(queue: JobQueue): Promise<void> {
    const progress = (await queue.progressToStore?.()) ?? null;
    if (progress === null) return;
    try {
      await this.#storeProgress(progress);
    } catch (error) {
      const { place: path } = this.#opened;
      this.#options.log.warn(
        { path, why: String(error) },
        'The progress was not stored in the mirror; its tables are committed.',
      );
    }
  }

  /** A failure is only logged, because the jobs are committed. */
  async #pruneBesideCommits(): Promise<void> {
    try {
      await this.#prune();
    } catch (error) {
      this.#pastLimit.waitAgain();
      const { place: path } = this.#opened;
      const { log } = this.#options;
      log.warn({ path, why: String(error) }, 'The past of tables could not be pruned; tables are committed.');
    }
  }

  async forgetPast(): Promise<Forgotten> {
    if (!this.#pastLimit.isKnown) await this.has();
    if (this.#isBusy || this.#pastLimit.before() === null) return 'nothing';
    try {
      return await this.#inTurn(() => this.#translated(() => this.#prune()));
    } catch (error) {
      // A reader has a past that is to go. One who has taken over is met by the next commit, too.
      if (error instanceof BusyError) return 'nothing';
      throw error;
    }
  }

  async #prune(): Promise<Forgotten> {
    const before = this.#pastLimit.before();
    if (before === null) return 'nothing';
    const { nodes, place: path } = this.#opened;
    const inTransaction = <T>(
      work: (transaction: Transaction) => Promise<T>,
      schemaName?: string,
    ): Promise<T> =>
      this.#held(async (transaction) => {
        if (schemaName !== undefined) await nodes?.begin(transaction, schemaName);
        return await work(transaction);
      });
    const isAwaited = () => this.#inTurn.pendingCount > 0;
    const { log } = this.#options;
    const { forgotten, isAnyForgotten, error, staying } = await pruneHistory(
      inTransaction,
      this.#pastLimit,
      before,
      isAwaited,
    );
    for (const each of staying)
      log.warn({ path, ...each }, 'A log stays: an object of a reader hangs on it.');
    if (isAnyForgotten)
      log.info({ path, before }, 'Forgot the past of tables that is older than history.keep.');
    // After the answer `part` the caller asks for the rest at once.
    if (error !== null && !(forgotten === 'part' && isAnyForgotten)) throw error;
    return forgotten;
  }

  get #isBusy(): boolean {
    return this.#inTurn.activeCount + this.#inTurn.pendingCount > 0;
  }

  async liveTables(): Promise<readonly ObservedTable[]> {
    return [...(await this.has()).datasets.values()];
  }

  writeTable(datasetId: string, to: string): Promise<ObservedTable | null> {
    const exported = (): Promise<ObservedTable | null> =>
      this.#patience.waiting((lockWaitMs) =>
        this.#watched(() => exportTable({ ...this.#opened, lockWaitMs }, datasetId, to)),
      );
    return this.#inTurn(async () => {
      await this.#reopenWriting();
      return await this.#translated(exported);
    });
  }

  /** A server reports damage itself, by the error of a statement. */
  async findDamage(): Promise<readonly []> {
    return [];
  }

  async unpin(datasetId: string): Promise<void> {
    await this.#write(async (transaction) => void (await transaction.run(unpinned(datasetId))));
  }

  async storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean> {
    if (mode === 'if-free' && this.#isBusy) return false;
    return await this.#inTurn(() => this.#translated(() => this.#storeProgress(progress)));
  }

  async #storeProgress(progress: StoredProgress): Promise<boolean> {
    const { connection, lease } = this.#opened;
    return await connection.transaction(async (transaction) => {
      await lease.holdAlone(transaction);
      const writes = replaceProgress(await readProgress(transaction), progress);
      for (const statement of statementsOf(writes)) await transaction.run(statement);
      return true;
    });
  }

  async keepResyncs(resyncs: readonly OwedReload[]): Promise<void> {
    await this.#besideJobs.write(this.#opened.lease, statementsOf(replaceOwed(resyncs)));
  }

  storeChecksum(checksum: TableChecksum): Promise<StoredChecksum> {
    return this.#write((transaction) => storeChecksum(transaction, checksum));
  }

  /** Only a server that hashes otherwise leaves checksums of another version. */
  async renewChecksums({ datasetIds }: ChecksumRenewal): Promise<RenewedChecksums> {
    return await renewChecksums((work) => this.#write(work), this.#opened.postgis, datasetIds);
  }

  commits(after: CommitPosition | null, limits: CommitLimits): Promise<CommitPage> {
    return this.#read((transaction) => readCommits(transaction, after, limits));
  }

  async storeBookmark(position: CommitPosition): Promise<void> {
    if (this.#isBusy) return;
    await this.#write(async (transaction) => {
      for (const statement of statementsOf(bookmarkWrites(position))) await transaction.run(statement);
    });
  }

  unions(): readonly RecordedUnion[] {
    return this.#unions.all;
  }

  progress(): number {
    const { connection, writing } = this.#opened;
    return connection.progress + writing.progress + this.#validation.progress;
  }

  async close(): Promise<void> {
    const { connection, lease, writing } = this.#opened;
    await this.requests.close();
    await this.#besideJobs.close();
    await this.#inTurn(async () => {
      await lease.release();
      await connection.close();
    });
    await this.#validation.close();
    writing.close();
  }

  #read<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const { connection } = this.#opened;
    const read = (lockWaitMs: number): Promise<T> =>
      connection.transaction(work, { isReadOnly: true, isSnapshot: true, lockWaitMs });
    return this.#inTurn(() => this.#translated(() => this.#patience.waiting(read)));
  }

  #write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#inTurn(() => this.#translated(() => this.#held(work)));
  }

  /** Runs `work` in a transaction that writes the mirror. */
  #held<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const { connection, lease, postgis } = this.#opened;
    const held = async (transaction: Transaction): Promise<T> => {
      await lease.holdAlone(transaction);
      return await work(transaction);
    };
    return this.#watched(() => connection.transaction(held, { searchPath: searchPath(postgis) }));
  }

  #watched<T>(work: () => Promise<T>): Promise<T> {
    const { nodes } = this.#opened;
    return nodes === null ? work() : nodes.during(work);
  }

  async #translated<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw destinationError(error, this.#opened.place);
    }
  }
}

async function makeMissingCatalog(transaction: Transaction): Promise<void> {
  if (!(await hasCatalog(transaction))) await makeCatalog(transaction);
}

function ownValidated(validated: ValidatedJob): ValidatedWrite {
  assert('execute' in validated, 'a validated job is committed by the destination that validated it');
  return validated as ValidatedWrite;
}

/** @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError, ConfigurationError */
async function validateJob(engine: Engine, job: WriteJob, place: string): Promise<ValidatedWrite> {
  switch (job.kind) {
    case 'snapshot':
      return await validateSnapshot(engine, job, place);
    case 'changes':
      return await validateChanges(engine, job, place);
    case 'retirement':
      return await validateRetirement(engine, job, place);
    case 'rollback':
      return await validateRollback(engine, job, place);
    case 'repair':
      return await validateRepair(engine, job, place);
  }
}
