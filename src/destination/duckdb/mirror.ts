/**
 * The mirror: a DuckDB file as a destination. The file is attached only inside write sessions; between them readers can open
 * it. The mirror runs its operations one after another. A separate instance validates downloaded files, so a hostile file
 * cannot harm a commit.
 */

import { dirname, resolve } from 'node:path';
import pLimit from 'p-limit';
import { assert } from '../../lib/assert.ts';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { CommitPosition } from '../../model/commits.ts';
import { BusyError, InterruptedError } from '../../model/errors.ts';
import type { ScrubbedSlice, ScrubPosition } from '../../model/scrub.ts';
import type { ChangesJob, ObservedTable, ReadAhead, WriteJob } from '../../model/write-jobs.ts';
import { Engine, isAmpleMemory, stagedDirectories, temporaryDirectory } from '../../staging/engine/engine.ts';
import { NO_COMMITS } from '../catalog/commits.ts';
import { EMPTY } from '../catalog/observed-state.ts';
import { type HistoryOptions, NO_HISTORY } from '../catalog/undo-logs.ts';
import { KnownUnions, type RecordedUnion, type UnionOptions, type WrittenUnion } from '../catalog/unions.ts';
import type {
  ChecksumRenewal,
  DamagedTable,
  Destination,
  Enrolment,
  Forgotten,
  JobQueue,
  ObservedState,
  RenewedChecksums,
  Scrubbing,
  StoredChecksum,
  StoredProgress,
  TableChecksum,
  ValidatedJob,
} from '../destination.ts';
import type {
  CommitLimits,
  CommitPage,
  ExportSource,
  PostCommitSource,
  Publication,
} from '../publication.ts';
import { Validation } from '../validation.ts';
import { validateChangesTogether } from './apply-changes.ts';
import { readCommits, readNewestTime, storeBookmark } from './catalog/commits.ts';
import { ensureSchema, readFormat } from './catalog/format.ts';
import { isEnrolled, readObservedState, readWithMissing, writeEnrolment } from './catalog/observed-state.ts';
import { storeBesideCommits, storeProgress } from './catalog/progress.ts';
import { unpinned } from './catalog/schema.ts';
import { commitJobs } from './commit.ts';
import { clearUnfinished } from './copies/compact.ts';
import { exportTable } from './copies/export-table.ts';
import { type CopyPlace, Publisher } from './copies/publish.ts';
import { copyPlace, type PublishOptions } from './copies/publish-place.ts';
import { findDamage } from './damage/damage.ts';
import { scrubSlice } from './damage/scrub.ts';
import { mirrorPath } from './mirror-file.ts';
import { HistoryPruning } from './past/prune-history.ts';
import { hasOurFunctions, renewFunctions } from './past/renew-functions.ts';
import { renewChecksums, storeChecksum } from './renew-checksums.ts';
import { sizeOf, type TableSize, WriteSessionsBySize } from './sessions-by-size.ts';
import { configureUnions, hasUnions, readUnions } from './unions.ts';
import { type ValidatedWrite, validateJob } from './validate.ts';
import { type Purpose, QuarantinedError, type WaitForReaders, type WriteSession } from './write-session.ts';

/** Memory for validation, which reads Parquet footers and searches for single values. */
const MAX_VALIDATION_MEMORY_BYTES = 512_000_000;

/**
 * DuckDB does a checkpoint at a COMMIT when the log exceeds 16 MiB, and rewrites the metadata of every table each time. The
 * limit is higher here because every write session ends with a checkpoint anyway.
 */
const MAX_LOG_BYTES = 256_000_000;

export interface MirrorOptions {
  readonly path: string;
  /** Contains the downloaded snapshots and DuckDB's spill files. */
  readonly dataDirectory: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  /** Disk space that loading a snapshot must leave free; none by default. */
  readonly reserveBytes?: number;
  /** How long a write session waits for a process that has the file open. */
  readonly lockWaitMs: number;
  /** How long the file is left to readers between two write sessions; no time by default. */
  readonly readerGraceMs?: number;
  /** The numeric id of the user, for messages. */
  readonly uid?: number | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal?: AbortSignal;
  /** The datasets that keep their history, and for how long; none by default. */
  readonly history?: HistoryOptions;
  /** The views over several tables; none by default. */
  readonly unions?: readonly UnionOptions[];
  /** Called when a commit cannot be brought into the file for a reason that no table shows; does nothing by default. */
  readonly onSuspect?: () => void;
  /** Settings of the published copy; null when none is published. */
  readonly publish?: PublishOptions | null;
  /** The folder of the export, which the mirror may write to; null when nothing is exported. */
  readonly exportFolder?: string | null;
}

/** Opens no file yet: the first write creates the mirror. @throws StorageError, ConfigurationError */
export async function openMirror(
  options: MirrorOptions,
): Promise<Destination & PostCommitSource & ExportSource> {
  const dataDirectory = resolve(options.dataDirectory);
  const path = await mirrorPath(options.path);
  await clearUnfinished(path);
  const engineOptions = {
    threads: options.threads,
    memoryLimitBytes: options.memoryLimitBytes,
    directories: [...stagedDirectories(dataDirectory), dirname(path)],
    clock: options.clock,
    keepsMemory: isAmpleMemory(options.memoryLimitBytes),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  };
  const { publish = null, reserveBytes = 0, clock, exportFolder = null } = options;
  const copy = publish === null ? null : await copyPlace(options, publish, path);
  const guard = { folders: [dirname(path), dataDirectory], reserveBytes, clock };
  const sessions = new WriteSessionsBySize(
    { ...options, path, dataDirectory },
    {
      ...engineOptions,
      directories: [...engineOptions.directories, ...(exportFolder === null ? [] : [exportFolder])],
      maxLogBytes: MAX_LOG_BYTES,
      ...(reserveBytes > 0 ? { guard } : {}),
    },
  );
  const examiner = (purpose: 'validating' | 'reading-ahead'): Engine =>
    new Engine({
      ...engineOptions,
      threads: 1,
      memoryLimitBytes: Math.min(options.memoryLimitBytes, MAX_VALIDATION_MEMORY_BYTES),
      temporaryDirectory: temporaryDirectory(dataDirectory, purpose),
    });
  const fitsTwoSessions = options.memoryLimitBytes >= 2 * MAX_VALIDATION_MEMORY_BYTES;
  const validation = new Validation(
    {
      validate: (engine, job) => validateJob(engine, job.kind, job),
      validateTogether: validateChangesTogether,
    },
    examiner('validating'),
    fitsTwoSessions ? examiner('reading-ahead') : null,
  );
  return new Mirror({ ...options, path }, sessions, validation, copy);
}

interface Failed {
  readonly job: ValidatedWrite;
  readonly error: unknown;
}

interface Opened {
  readonly session: WriteSession;
  /** The size of the tables that this session writes. */
  readonly size: TableSize;
  readonly queue: JobQueue;
  /** True when collected jobs remain for a later write session. */
  readonly isNotLast: boolean;
}

interface Ended {
  /** Jobs that failed. Their errors are explained after the mirror is detached. */
  readonly failed: readonly Failed[];
  /** Jobs that were collected for the other write session. */
  readonly forOtherSession: readonly ValidatedWrite[];
}

class Mirror implements Destination, PostCommitSource, ExportSource {
  readonly #options: MirrorOptions;
  readonly #sessions: WriteSessionsBySize;
  readonly #validation: Validation<ValidatedWrite>;
  readonly #turns = pLimit(1);
  readonly #unions: KnownUnions;
  /** The running slice of a scrub, which stops for everything else. */
  #slice: AbortController | null = null;
  readonly scrubbing: Scrubbing = {
    readSlice: (from) => this.#readSlice(from),
    suspect: () => this.#options.onSuspect?.(),
  };
  readonly #publisher: Publisher | null;
  /** The time of the newest commit: times never fall, so that each time names one state. Null: to be read from the mirror. */
  #appliedAt: Date | null = null;
  readonly #pruning: HistoryPruning;
  /** The last enrolment: a mirror that is rebuilt in the middle of a run gets the same table names. */
  #enrolment: Enrolment | null = null;
  /**
   * True when the mirror was created again after `has` was called. Progress that was computed before then describes lost
   * tables.
   */
  #isCreatedAgain = false;

  constructor(
    options: MirrorOptions,
    sessions: WriteSessionsBySize,
    validation: Validation<ValidatedWrite>,
    copy: CopyPlace | null,
  ) {
    const { path, unions = [], log } = options;
    this.#options = options;
    this.#unions = new KnownUnions(unions, log);
    this.#pruning = new HistoryPruning(options);
    this.#sessions = sessions;
    this.#validation = validation;
    const session = sessions.of('small');
    const inTurn = <T>(work: () => Promise<T>): Promise<T> => this.#inTurn(work);
    this.#publisher = copy === null ? null : new Publisher({ ...copy, path, session, inTurn });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#slice?.abort(new InterruptedError('Other work on the mirror comes first.'));
    return this.#turns(work);
  }

  get #isAwaited(): boolean {
    return this.#turns.pendingCount > 0;
  }

  get #isBusy(): boolean {
    return this.#turns.activeCount + this.#turns.pendingCount > 0;
  }

  has(): Promise<ObservedState> {
    return this.#inTurn(async () => {
      const observed = await this.#readAgain(async (engine) => {
        await this.#unions.read(() => readUnions(engine));
        const state = await readWithMissing(engine, this.#options.path);
        await this.#pruning.measure(engine);
        return state;
      });
      if (observed === null) {
        await this.#unions.read(async () => []);
        this.#pruning.limit.note(null);
      }
      this.#isCreatedAgain = false;
      this.#appliedAt = null;
      return observed ?? EMPTY;
    });
  }

  /** Reads what is left after a file was quarantined: first the log goes, then the mirror, then there is none. */
  async #readAgain<T>(work: (engine: Engine) => Promise<T>): Promise<T | null> {
    for (;;) {
      try {
        return await this.#sessions.of('small').read(work);
      } catch (error) {
        if (!(error instanceof QuarantinedError)) throw error;
      }
    }
  }

  findDamage(): Promise<readonly DamagedTable[] | null> {
    return this.#inTurn(async () => {
      const { path, dataDirectory, memoryLimitBytes } = this.#options;
      const temporary = temporaryDirectory(resolve(dataDirectory), 'inspecting');
      const reading = { memoryLimitBytes, temporaryDirectory: temporary };
      try {
        return await findDamage(this.#sessions.of('small'), path, reading);
      } catch (error) {
        if (error instanceof QuarantinedError) return null;
        throw error;
      }
    });
  }

  async #readSlice(from: ScrubPosition | null): Promise<ScrubbedSlice> {
    const { path, dataDirectory, memoryLimitBytes } = this.#options;
    if (this.#isBusy) return { position: from, isAtEnd: false, damage: null };
    const slice = new AbortController();
    this.#slice = slice;
    const temporary = temporaryDirectory(resolve(dataDirectory), 'inspecting');
    const options = { path, memoryLimitBytes, temporaryDirectory: temporary, signal: slice.signal };
    return await this.#turns(() => scrubSlice(options, from));
  }

  enroll(enrolment: Enrolment): Promise<void> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      this.#enrolment = enrolment;
      // A reader may keep the file open for long, so the file is opened for writing only when something is new.
      const isDone = async (engine: Engine) =>
        (await isEnrolled(engine, path, enrolment)) &&
        (await hasUnions(engine, this.#unions.options)) &&
        (await hasOurFunctions(engine));
      if (await this.#sessions.of('small').read(isDone)) return;
      this.#unions.wrote(await this.#write((engine) => this.#writeEnrolment(engine, enrolment)));
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
      // Only the first job works ahead, because the memory is limited.
      const ahead = first.ahead?.((this.#options.history ?? NO_HISTORY).keeps(first.job.datasetId)) ?? null;
      const { failed, forOtherSession } = await this.#inTurn(() =>
        this.#sessions
          .of(size)
          .writeAfter(ahead, (session) =>
            this.#commitWhileOpen({ session, size, queue, isNotLast: others.length > 0 }, its),
          ),
      );
      for (const { job, error } of failed) {
        const explained = this.#validation.use((engine) => job.explain(engine, error, this.#options));
        queue.report(job, { kind: 'failed', datasetId: job.job.datasetId, error: await explained });
      }
      waiting = [...others, ...forOtherSession];
    }
  }

  async #commitWhileOpen(opened: Opened, first: readonly ValidatedWrite[]): Promise<Ended> {
    const { session, size, queue, isNotLast } = opened;
    const { clock, log, signal, history = NO_HISTORY } = this.#options;
    const failed: Failed[] = [];
    const forOtherSession: ValidatedWrite[] = [];
    await this.#enrollAgain(session);
    for (let jobs = first; jobs.length > 0; ) {
      const appliedAt = later(clock.now(), this.#appliedAt);
      this.#appliedAt = appliedAt;
      const context = {
        session,
        appliedAt,
        keepsHistory: (datasetId: string) => history.keeps(datasetId),
        unions: this.#unions,
        log,
        ...(signal === undefined ? {} : { signal }),
      };
      for await (const { job, result } of commitJobs(context, jobs)) {
        if (result.kind === 'failed') failed.push({ job, error: result.error });
        else queue.report(job, result);
      }
      const next = await this.#next(session, queue);
      jobs = next.filter(({ tableRows }) => sizeOf(tableRows) === size);
      forOtherSession.push(...next.filter((job) => !jobs.includes(job)));
    }
    const isReported =
      !this.#isCreatedAgain && !isNotLast && failed.length === 0 && forOtherSession.length === 0;
    if (isReported) await storeBesideCommits(session, queue, this.#options);
    await this.#pruning.pruneBesideCommits(session, () => this.#isAwaited);
    return { failed, forOtherSession };
  }

  async forgetPast(): Promise<Forgotten> {
    const { limit } = this.#pruning;
    if (!limit.isKnown) await this.has();
    if (limit.before() === null) return 'nothing';
    const sessions = this.#sessions.of('small');
    const prune = (wait: WaitForReaders) => this.#pruning.pruneAlone(sessions, () => this.#isAwaited, wait);
    return (await this.#ifFree(prune)) ?? 'nothing';
  }

  unpin(datasetId: string): Promise<void> {
    return this.#inTurn(() => this.#write((engine) => engine.run(unpinned(datasetId)), 'pin'));
  }

  async storeProgress(progress: StoredProgress, mode: 'wait' | 'if-free'): Promise<boolean> {
    if (mode === 'wait') return await this.#inTurn(() => this.#storeProgress(progress, {}));
    return (await this.#ifFree((wait) => this.#storeProgress(progress, wait))) ?? false;
  }

  /** Null: a reader has the file, or other work is under way. */
  async #ifFree<T>(work: (wait: WaitForReaders) => Promise<T>): Promise<T | null> {
    if (this.#isBusy) return null;
    try {
      return await this.#inTurn(() => work({ lockWaitMs: 0 }));
    } catch (error) {
      if (error instanceof BusyError) return null;
      throw error;
    }
  }

  async #storeProgress(progress: StoredProgress, wait: WaitForReaders): Promise<boolean> {
    if (this.#isCreatedAgain) return false;
    return await storeProgress(this.#sessions.of('small'), this.#options.path, progress, wait);
  }

  storeChecksum(checksum: TableChecksum): Promise<StoredChecksum> {
    return this.#inTurn(() => this.#write((engine) => storeChecksum(engine, checksum), 'checksums'));
  }

  renewChecksums(renewal: ChecksumRenewal): Promise<RenewedChecksums> {
    const { path, clock } = this.#options;
    return this.#inTurn(() => renewChecksums(this.#sessions.of('large'), path, renewal, clock));
  }

  /** In one transaction of a session of its own. */
  #write<T>(work: (engine: Engine) => Promise<T>, purpose?: Purpose): Promise<T> {
    return this.#sessions.of('small').write((session) =>
      session.transaction(async (engine) => {
        await ensureSchema(engine, this.#options.path);
        return await work(engine);
      }, purpose),
    );
  }

  /** Returns null when the write session should end. */
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

  async storeBookmark(position: CommitPosition): Promise<void> {
    const { path } = this.#options;
    await this.#ifFree((wait) => storeBookmark(this.#sessions.of('small'), path, position, wait));
  }

  publish(): Promise<Publication> {
    assert(this.#publisher !== null, 'a copy is published where destination.publish is set');
    return this.#publisher.publish();
  }

  liveTables(): Promise<readonly ObservedTable[]> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      const observed = await this.#sessions.of('small').read((engine) => readObservedState(engine, path));
      return [...(observed?.datasets.values() ?? [])];
    });
  }

  writeTable(datasetId: string, to: string): Promise<ObservedTable | null> {
    const { path } = this.#options;
    return this.#inTurn(() =>
      this.#sessions.of('large').read((engine) => exportTable(engine, path, datasetId, to)),
    );
  }

  unions(): readonly RecordedUnion[] {
    return this.#unions.all;
  }

  async close(): Promise<void> {
    await this.#inTurn(async () => this.#sessions.close());
    await this.#validation.close();
  }

  /** Enrols the mirror again, whatever happened to the file meanwhile. */
  async #enrollAgain(session: WriteSession): Promise<void> {
    const written = await session.transaction(async (engine) => {
      const isNew = await ensureSchema(engine, this.#options.path);
      this.#appliedAt ??= await readNewestTime(engine);
      if (!isNew) return null;
      return this.#enrolment === null ? [] : await this.#writeEnrolment(engine, this.#enrolment);
    });
    if (written === null) return;
    this.#isCreatedAgain = true;
    this.#unions.wrote(written);
  }

  /** Unions come first, so that no dataset gets the name of one. */
  async #writeEnrolment(engine: Engine, enrolment: Enrolment): Promise<readonly WrittenUnion[]> {
    const written = await configureUnions(engine, this.#unions.options);
    await writeEnrolment(engine, this.#options.path, enrolment);
    await renewFunctions(engine);
    return written;
  }
}

function ownValidated(validated: ValidatedJob): ValidatedWrite {
  assert('execute' in validated, 'a validated job is committed by the destination that validated it');
  return validated as ValidatedWrite;
}

function later(left: Date, right: Date | null): Date {
  return right === null || left > right ? left : right;
}
