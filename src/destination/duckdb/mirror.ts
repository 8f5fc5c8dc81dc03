/**
 * The mirror: a DuckDB file as a destination. The file is attached only inside write sessions; between them it is free for
 * readers. Operations on it go one after another; files are validated beside them, in an instance of their own, so
 * that a hostile one can hurt no commit.
 */

import { dirname, resolve } from 'node:path';
import pLimit from 'p-limit';
import { assert } from '../../lib/assert.ts';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { CommitPosition } from '../../model/commits.ts';
import { BusyError } from '../../model/errors.ts';
import type { ChangesJob, ReadAhead, WriteJob } from '../../model/write-jobs.ts';
import {
  Engine,
  type EngineOptions,
  temporaryDirectories,
  temporaryDirectory,
} from '../../staging/engine/engine.ts';
import { literalPattern } from '../../staging/engine/sql.ts';
import type {
  Destination,
  Enrolment,
  JobQueue,
  ObservedState,
  StoredProgress,
  ValidatedJob,
} from '../destination.ts';
import type { CommitLimits, CommitPage, PostCommitSource, Publication } from '../publication.ts';
import { NO_COMMITS, readCommits } from './catalog/commits.ts';
import {
  EMPTY,
  ensureSchema,
  isEnrolled,
  readFormat,
  readObservedState,
  writeEnrolment,
} from './catalog/observed-state.ts';
import { storeBesideCommits, storeProgress } from './catalog/progress.ts';
import { commitJobs } from './commit.ts';
import { clearUnfinished } from './compact.ts';
import { mirrorPath } from './mirror-file.ts';
import { type CopyPlace, Publisher, type PublishOptions, publishTarget } from './publish.ts';
import { type ValidatedWrite, Validation } from './validate.ts';
import {
  type ReaderGraceOptions,
  ReaderGracePeriod,
  type WaitForReaders,
  type WriteSession,
  type WriteSessionOptions,
  WriteSessions,
} from './write-session.ts';

/** The most memory for the examination of files, which reads footers and finds single values. */
const MAX_EXAMINING_BYTES = 512_000_000;

/**
 * Every write session ends with a checkpoint. One at a COMMIT within it, which DuckDB does by itself from 16 MiB of log on, writes what is
 * known of every table once more: it is left for a log that is as long as this.
 */
const MAX_LOG_BYTES = 256_000_000;

export interface MirrorOptions {
  readonly path: string;
  /** Snapshots lie somewhere below it, and DuckDB puts into it what does not fit into memory. */
  readonly dataDirectory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** What is kept free on the disks while a snapshot is loaded; nothing by default. */
  readonly reserveBytes?: number;
  /** How long a write session waits for whoever else has the file open. */
  readonly lockWaitMs: number;
  /** How long the file is left to readers between two write sessions that write; no time by default. */
  readonly readerGraceMs?: number;
  /** For messages: the numeric id of the user. */
  readonly uid?: number | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal?: AbortSignal;
  /** The copy for readers that stay open; none without it. */
  readonly publish?: PublishOptions | null;
}

/** Opens no file yet: the mirror is created by what is first written. @throws StorageError, ConfigurationError */
export async function openMirror(options: MirrorOptions): Promise<Destination & PostCommitSource> {
  const dataDirectory = resolve(options.dataDirectory);
  const path = await mirrorPath(options.path);
  await clearUnfinished(path);
  const engineOptions = {
    threads: options.threads,
    memoryLimitBytes: options.memoryLimitBytes,
    // A reader of files is given patterns, and DuckDB compares those, too, with the folders.
    directories: [dataDirectory, literalPattern(dataDirectory), dirname(path)],
    clock: options.clock,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  };
  const { publish = null } = options;
  const copy = publish === null ? null : await copyPlace(options, publish, path);
  const { reserveBytes = 0, clock } = options;
  const guard = { folders: [dirname(path), dataDirectory], reserveBytes, clock };
  const sessions = await WriteSessionsBySize.open(
    { ...options, path, dataDirectory },
    { ...engineOptions, maxLogBytes: MAX_LOG_BYTES, ...(reserveBytes > 0 ? { guard } : {}) },
  );
  const openExaminer = (purpose: 'validating' | 'reading-ahead'): Promise<Engine> =>
    Engine.open({
      ...engineOptions,
      threads: 1,
      memoryLimitBytes: Math.min(options.memoryLimitBytes, MAX_EXAMINING_BYTES),
      temporaryDirectory: temporaryDirectory(dataDirectory, purpose),
    });
  const fitsTwoSessions = options.memoryLimitBytes >= 2 * MAX_EXAMINING_BYTES;
  const openSecond = fitsTwoSessions ? () => openExaminer('reading-ahead') : null;
  const validation = new Validation(await openExaminer('validating'), openSecond);
  return new Mirror({ ...options, path }, sessions, validation, copy);
}

async function copyPlace(options: MirrorOptions, publish: PublishOptions, path: string): Promise<CopyPlace> {
  const { memoryLimitBytes, uid = null, signal } = options;
  const dataDirectory = resolve(options.dataDirectory);
  const looking = {
    memoryLimitBytes,
    temporaryDirectory: temporaryDirectory(dataDirectory, 'inspecting'),
    ...(signal === undefined ? {} : { signal }),
  };
  const keptPaths = [...publish.keptPaths, ...temporaryDirectories(dataDirectory)];
  const target = await publishTarget({ ...publish, keptPaths }, { path, uid }, looking);
  return { ...looking, ...publish, target };
}

interface Failed {
  readonly job: ValidatedWrite;
  readonly error: unknown;
}

interface Opened {
  readonly session: WriteSession;
  /** Of the tables that are written in it. */
  readonly size: TableSize;
  readonly queue: JobQueue;
  /** Whether jobs that were taken are left for a write session after this one. */
  readonly isNotLast: boolean;
}

interface Ended {
  /** Why is looked for once the mirror is let go. */
  readonly failed: readonly Failed[];
  /** What was taken for the other write session. */
  readonly quarantine: readonly ValidatedWrite[];
}

class Mirror implements Destination, PostCommitSource {
  readonly #options: MirrorOptions;
  readonly #sessions: WriteSessionsBySize;
  readonly #validation: Validation;
  readonly #inTurn = pLimit(1);
  readonly #publisher: Publisher | null;
  /** What was enrolled last: a mirror that has to be built again in the middle of a run gets the same names. */
  #enrolment: Enrolment | null = null;
  /** The mirror was made again since `has` was called: progress that was known until then describes lost tables. */
  #isCreatedAgain = false;

  constructor(
    options: MirrorOptions,
    sessions: WriteSessionsBySize,
    validation: Validation,
    copy: CopyPlace | null,
  ) {
    const { path } = options;
    this.#options = options;
    this.#sessions = sessions;
    this.#validation = validation;
    const session = sessions.of('small');
    const inTurn = <T>(work: () => Promise<T>): Promise<T> => this.#inTurn(work);
    this.#publisher = copy === null ? null : new Publisher({ ...copy, path, session, inTurn });
  }

  has(): Promise<ObservedState> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      const observed =
        (await this.#sessions.of('small').read((engine) => readObservedState(engine, path))) ?? EMPTY;
      this.#isCreatedAgain = false;
      return observed;
    });
  }

  enroll(enrolment: Enrolment): Promise<void> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      this.#enrolment = enrolment;
      // A reader may have the file open for long: nothing is written where nothing is new.
      if (await this.#sessions.of('small').read((engine) => isEnrolled(engine, path, enrolment))) return;
      await this.#sessions.of('small').write((session) =>
        session.transaction(async (engine) => {
          await ensureSchema(engine, path);
          await writeEnrolment(engine, path, enrolment);
        }),
      );
    });
  }

  validate(job: WriteJob): Promise<ValidatedJob> {
    return this.#validation.validate(job);
  }

  readAhead(job: ChangesJob): Promise<ReadAhead | null> {
    return this.#validation.readAhead(job);
  }

  async commit(queue: JobQueue): Promise<void> {
    let waiting = queue.take().map(ownValidated);
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const size = sizeOf(first.tableRows);
      const others = waiting.filter(({ tableRows }) => sizeOf(tableRows) !== size);
      const its = waiting.filter((job) => !others.includes(job));
      const { failed, quarantine } = await this.#inTurn(() =>
        this.#sessions
          .of(size)
          .write((session) =>
            this.#commitWhileOpen({ session, size, queue, isNotLast: others.length > 0 }, its),
          ),
      );
      for (const { job, error } of failed) {
        const explained = this.#validation.use((engine) => job.explain(engine, error, this.#options));
        queue.report(job, { kind: 'failed', datasetId: job.job.datasetId, error: await explained });
      }
      waiting = [...others, ...quarantine];
    }
  }

  async #commitWhileOpen(opened: Opened, first: readonly ValidatedWrite[]): Promise<Ended> {
    const { session, size, queue, isNotLast } = opened;
    const { clock, signal } = this.#options;
    const failed: Failed[] = [];
    const quarantine: ValidatedWrite[] = [];
    if (await session.transaction((engine) => this.#enrollAgain(engine))) this.#isCreatedAgain = true;
    for (let jobs = first; jobs.length > 0; ) {
      const context = { session, appliedAt: clock.now(), ...(signal === undefined ? {} : { signal }) };
      for await (const { job, result } of commitJobs(context, jobs)) {
        if (result.kind === 'failed') failed.push({ job, error: result.error });
        else queue.report(job, result);
      }
      const next = await this.#next(session, queue);
      jobs = next.filter(({ tableRows }) => sizeOf(tableRows) === size);
      quarantine.push(...next.filter((job) => !jobs.includes(job)));
    }
    const isReported = !this.#isCreatedAgain && !isNotLast && failed.length === 0 && quarantine.length === 0;
    if (isReported) await storeBesideCommits(session, queue, this.#options);
    return { failed, quarantine };
  }

  async storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean> {
    if (mode === 'wait') return await this.#inTurn(() => this.#storeProgress(progress, {}));
    if (this.#inTurn.activeCount + this.#inTurn.pendingCount > 0) return false;
    try {
      return await this.#inTurn(() => this.#storeProgress(progress, { lockWaitMs: 0 }));
    } catch (error) {
      if (error instanceof BusyError) return false;
      throw error;
    }
  }

  async #storeProgress(progress: StoredProgress, wait: WaitForReaders): Promise<boolean> {
    if (this.#isCreatedAgain) return false;
    return await storeProgress(this.#sessions.of('small'), this.#options.path, progress, wait);
  }

  /** None where the write session is to end. */
  async #next(session: WriteSession, queue: JobQueue): Promise<readonly ValidatedWrite[]> {
    const waitMs = session.waitForNext();
    if (waitMs === null) return [];
    const hasArrived = new AbortController();
    const patience = this.#options.clock.sleep(waitMs, hasArrived.signal).catch(() => {});
    await Promise.race([queue.arrival(), patience]);
    hasArrived.abort();
    return queue.take().map(ownValidated);
  }

  progress(): number {
    return this.#sessions.progress + this.#validation.progress + (this.#publisher?.progress ?? 0);
  }

  commits(after: CommitPosition | null, limits: CommitLimits): Promise<CommitPage> {
    const read = async (engine: Engine): Promise<CommitPage> => {
      const format = await readFormat(engine, this.#options.path);
      return format === null ? NO_COMMITS : await readCommits(engine, format, after, limits);
    };
    return this.#inTurn(async () => (await this.#sessions.of('small').read(read)) ?? NO_COMMITS);
  }

  publish(): Promise<Publication> {
    assert(this.#publisher !== null, 'a copy is published where the mirror was told to');
    return this.#publisher.publish();
  }

  async close(): Promise<void> {
    await this.#inTurn(() => this.#sessions.close());
    await this.#validation.close();
  }

  /** Whatever became of the mirror since it was enrolled. Resolves to whether it is a new one. */
  async #enrollAgain(engine: Engine): Promise<boolean> {
    const { path } = this.#options;
    const isNew = await ensureSchema(engine, path);
    if (isNew && this.#enrolment !== null) await writeEnrolment(engine, path, this.#enrolment);
    return isNew;
  }
}

function ownValidated(validated: ValidatedJob): ValidatedWrite {
  assert('execute' in validated, 'a unit is committed by the destination that prepared it');
  return validated as ValidatedWrite;
}

/** The most rows that a table has in one row group. */
const ROW_GROUP_ROWS = 122_880;

type TableSize = 'small' | 'large';

/** By which write session a table of so many rows is written. */
export function sizeOf(tableRows: number): TableSize {
  return tableRows <= ROW_GROUP_ROWS ? 'small' : 'large';
}

interface WriteSessionsOptions
  extends Omit<WriteSessionOptions, 'engine' | 'readerGracePeriod'>,
    Pick<ReaderGraceOptions, 'readerGraceMs'> {
  readonly dataDirectory: string;
}

class WriteSessionsBySize {
  readonly #engines: readonly Engine[];
  readonly #sessions: Readonly<Record<TableSize, WriteSessions>>;

  private constructor(options: WriteSessionsOptions, small: Engine, large: Engine) {
    const readerGracePeriod = new ReaderGracePeriod(options);
    this.#engines = [...new Set([small, large])];
    this.#sessions = {
      small: new WriteSessions({ ...options, readerGracePeriod, engine: small }),
      large: new WriteSessions({ ...options, readerGracePeriod, engine: large }),
    };
  }

  /** Opens no file yet. @throws DuckDbError */
  static async open(
    options: WriteSessionsOptions,
    engineOptions: Omit<EngineOptions, 'temporaryDirectory'>,
  ): Promise<WriteSessionsBySize> {
    const openEngine = (size: TableSize, threads: number): Promise<Engine> =>
      Engine.open({
        ...engineOptions,
        threads,
        inAnyOrder: size === 'large',
        temporaryDirectory: temporaryDirectory(options.dataDirectory, size),
      });
    const small = await openEngine('small', 1);
    const { threads } = engineOptions;
    return new WriteSessionsBySize(
      options,
      small,
      threads === 1 ? small : await openEngine('large', threads),
    );
  }

  of(size: TableSize): WriteSessions {
    return this.#sessions[size];
  }

  /** Another number whenever a statement of any of them has ended, or reads on. */
  get progress(): number {
    return this.#engines.reduce((sum, engine) => sum + engine.progress, 0);
  }

  close(): void {
    for (const engine of this.#engines) engine.close();
  }
}
