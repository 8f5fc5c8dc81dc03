/**
 * The write session in which the mirror's file is attached. Outside a session readers can open the file.
 *
 * Invariants: the file is detached whatever happened inside. A failed statement is always followed by ROLLBACK, because DuckDB
 * would commit the statements before it. A session that committed anything ends with a CHECKPOINT, even when the process is
 * asked to stop: only the work on rows is interrupted.
 */

import { dirname } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { durable, isThere, syncDirectory } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { StorageError } from '../../model/errors.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine, mirrorFailure } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import { IN_OUR_FORMAT, MIRROR, OUTSIDE_MIRROR } from './catalog/schema.ts';
import { IS_DAMAGE } from './count-tables.ts';
import {
  interrupted,
  mirrorFileState,
  quarantineLog,
  quarantineMirror,
  WAL_SUFFIX,
  type WaitOptions,
  waitForFile,
} from './mirror-file.ts';

/**
 * A checkpoint after this much work can occupy all threads. For less work, parking the threads and restarting them costs more
 * than it saves.
 */
export const MUCH_WORK_MS = 500;

export interface WriteSessionOptions extends WaitOptions {
  readonly engine: Engine;
  /** Shared by all write sessions of the file. */
  readonly readerGracePeriod: ReaderGracePeriod;
  /** The numeric id of the user, for messages. */
  readonly uid?: number | null;
  readonly log: Log;
  /** Called when DuckDB gives up on a checkpoint again and again; does nothing by default. */
  readonly onSuspect?: () => void;
}

/** The error where DuckDB refused the COMMIT. Only the catalog in the file shows whether the transaction took effect. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError';
  override readonly cause: DuckDbError;

  constructor(cause: DuckDbError) {
    super(cause.message);
    this.cause = cause;
  }
}

/** The mirror, or its log, could not be read and was quarantined: what was observed before is not true any more. */
export class QuarantinedError extends StorageError {
  override readonly name = 'QuarantinedError';
}

/** The mirror could not be attached again after a failure, so the write session cannot continue. */
export class WriteSessionLostError extends Error {
  override readonly name = 'WriteSessionLostError';
  override readonly cause: Error;

  constructor(cause: Error) {
    super(cause.message);
    this.cause = cause;
  }
}

export interface WaitForReaders {
  /** Overrides `lockWaitMs` of the session's options. */
  readonly lockWaitMs?: number;
}

/** The purpose of a transaction: the COMMIT of each is a crash point of its own. */
export type Purpose = 'jobs' | 'progress' | 'checksums' | 'past' | 'pin';

export interface WriteSession {
  /**
   * Returns how many milliseconds the session may wait for further jobs, or null when the session should end. Waiting pays
   * while reopening the file would cost more.
   */
  waitForNext(): number | null;

  /**
   * Runs `work` in a transaction and commits its changes. The session stays usable afterwards, unless it was lost.
   * @throws any error of `work`, after ROLLBACK; OutcomeUnknownError when COMMIT fails; WriteSessionLostError.
   */
  transaction<T>(work: (engine: Engine) => Promise<T>, purpose?: Purpose): Promise<T>;

  /**
   * Opens the file again in a new instance: the last one keeps memory after a statement that ran out of it, so that less work than
   * before may fail, too. Must be called outside of a transaction. @throws WriteSessionLostError
   */
  startAfresh(): Promise<void>;
}

/** Work that needs no mirror: done before the mirror is attached, it keeps no reader out. */
export interface WorkAhead {
  /** Works on the instance of the coming session, which does again whatever fails here, and fails with the same error. */
  prepare(engine: Engine): Promise<unknown>;
  /** Removes what the session has not used. */
  discard(engine: Engine): Promise<void>;
}

export class WriteSessions {
  readonly #options: WriteSessionOptions;
  readonly #engine: Engine;
  /** How long DuckDB took to open the file the last time, without waiting for other processes. */
  #openingMs = 0;
  /**
   * The folder was synced since the file was attached and its log begun. DuckDB syncs what it writes, but not the names of files
   * that it makes: a new mirror, and the log that the first commit after each CHECKPOINT begins.
   */
  #areEntriesSynced = false;

  constructor(options: WriteSessionOptions) {
    this.#options = options;
    this.#engine = options.engine;
  }

  /**
   * Runs `work` in one transaction with the mirror attached for reading. Returns null when the mirror does not exist; reading
   * never creates it.
   * @throws QuarantinedError where `work` cannot read what it needs.
   */
  async read<T>(work: (engine: Engine) => Promise<T>, wait: WaitForReaders = {}): Promise<T | null> {
    if ((await mirrorFileState(this.#options.path)) === 'absent') return null;
    await this.#attach('read', wait);
    let unreadable: DuckDbError;
    try {
      await this.#engine.run('BEGIN');
      return await work(this.#engine);
    } catch (error) {
      if (!(error instanceof DuckDbError)) throw error;
      if (error.fault !== 'unreadable') throw await this.#failure(error);
      unreadable = error;
    } finally {
      await this.#rollBack();
      await this.#detach();
    }
    throw await this.#quarantine(unreadable, 'reading');
  }

  /** Runs `work` with the mirror attached for writing, and creates the mirror when it is missing. */
  async write<T>(work: (session: WriteSession) => Promise<T>, wait: WaitForReaders = {}): Promise<T> {
    try {
      return await this.#attachedForWriting(work, wait);
    } catch (error) {
      throw await this.#translated(error);
    }
  }

  /** `write` after work that keeps no reader out. An error of that work only ends it. */
  async writeAfter<T>(ahead: WorkAhead | null, work: (session: WriteSession) => Promise<T>): Promise<T> {
    if (ahead === null) return await this.write(work);
    await this.#attempt((engine) => ahead.prepare(engine));
    try {
      return await this.write(work);
    } finally {
      await this.#attempt((engine) => ahead.discard(engine));
    }
  }

  async #attempt(work: (engine: Engine) => Promise<unknown>): Promise<void> {
    try {
      if (this.#engine.invalidated) await this.#engine.reopen();
      await work(this.#engine);
    } catch (error) {
      this.#options.log.debug({ why: String(error) }, 'Work beside the mirror was given up.');
    }
  }

  async #attachedForWriting<T>(
    work: (session: WriteSession) => Promise<T>,
    wait: WaitForReaders,
  ): Promise<T> {
    let committed = false;
    let lost = false;
    const transaction: WriteSession['transaction'] = async (body, purpose = 'jobs') => {
      try {
        const result = await this.#transaction(body, purpose);
        committed = true;
        return result;
      } catch (error) {
        lost ||= error instanceof WriteSessionLostError;
        throw error;
      }
    };
    const startAfresh = async (): Promise<void> => {
      try {
        await this.#attachOrLose('new');
      } catch (error) {
        lost = true;
        throw error;
      }
    };
    const { clock } = this.#options;
    await this.#options.readerGracePeriod.over();
    await mirrorFileState(this.#options.path);
    await this.#attach('write', wait);
    const openedMs = clock.monotonicMs();
    const waitMs = () => (lost ? null : waitForNext(this.#openingMs, clock.monotonicMs() - openedMs));
    try {
      try {
        return await work({ transaction, waitForNext: waitMs, startAfresh });
      } finally {
        if (committed) await this.#checkpoint(clock.monotonicMs() - openedMs);
      }
    } finally {
      await this.#detach();
      this.#options.readerGracePeriod.begin();
    }
  }

  async #transaction<T>(body: (engine: Engine) => Promise<T>, purpose: Purpose): Promise<T> {
    let result: T;
    try {
      await this.#engine.run('BEGIN');
      result = await body(this.#engine);
    } catch (error) {
      await this.#recover(error);
      throw error;
    }
    try {
      await this.#commit(purpose);
    } catch (error) {
      // A checkpoint that DuckDB does within COMMIT may have failed. The file then has to be attached again.
      await this.#detach();
      await this.#attachAgain(error);
      throw error instanceof DuckDbError ? new OutcomeUnknownError(error) : error;
    }
    return result;
  }

  async #commit(purpose: Purpose): Promise<void> {
    switch (purpose) {
      case 'jobs':
        await durable('destination.commit', () => this.#engine.finish('COMMIT'));
        break;
      case 'progress':
        await durable('destination.store-progress', () => this.#engine.finish('COMMIT'));
        break;
      case 'checksums':
        await durable('destination.store-checksums', () => this.#engine.finish('COMMIT'));
        break;
      case 'past':
        await durable('destination.forget-past', () => this.#engine.finish('COMMIT'));
        break;
      case 'pin':
        await durable('destination.lift-pin', () => this.#engine.finish('COMMIT'));
        break;
    }
    await this.#syncEntries();
  }

  async #syncEntries(): Promise<void> {
    if (this.#areEntriesSynced) return;
    const { path } = this.#options;
    await durable('destination.sync-entries', () => syncDirectory(dirname(path)));
    // A transaction without changes begins no log, and one of many changes may end with a checkpoint of its own.
    this.#areEntriesSynced = await isThere(path + WAL_SUFFIX);
  }

  /** Makes the write session usable again after a failure inside a transaction. */
  async #recover(error: unknown): Promise<void> {
    await this.#rollBack();
    if (this.#engine.invalidated) await this.#attachAgain(error);
    else await this.#engine.finish(OUTSIDE_MIRROR);
  }

  async #attachAgain(error: unknown): Promise<void> {
    const { log, path } = this.#options;
    log.error({ path, why: String(error) }, 'DuckDB gave up on a transaction; the mirror is opened again.');
    await this.#attachOrLose('same');
  }

  async #attachOrLose(instance: 'same' | 'new'): Promise<void> {
    try {
      if (instance === 'new') await this.#engine.reopen();
      await this.#attach('write');
    } catch (cause) {
      throw cause instanceof Error ? new WriteSessionLostError(cause) : cause;
    }
  }

  async #rollBack(): Promise<void> {
    if (this.#engine.invalidated) return;
    try {
      await this.#engine.finish('ROLLBACK');
    } catch {
      // A refused COMMIT or BEGIN leaves no transaction to roll back. An instance that gives up here is reopened.
    }
  }

  async #checkpoint(workedMs: number): Promise<void> {
    const finish = (sql: string): Promise<void> =>
      workedMs < MUCH_WORK_MS ? this.#engine.finish(sql) : this.#engine.finishWithAll(sql);
    const checkpoint = () =>
      durable('destination.checkpoint', () => finish(`CHECKPOINT ${identifier(MIRROR)}`));
    try {
      await checkpoint();
    } catch (error) {
      const { log, path } = this.#options;
      log.warn({ path, why: String(error) }, 'A checkpoint failed; the mirror is reopened for another one.');
      // DuckDB returns the space of undone transactions only when the file is reopened. The write-ahead log keeps the commits
      // safe.
      await this.#detach();
      await this.#attach('write');
      try {
        await checkpoint();
      } catch (again) {
        if (again instanceof DuckDbError && IS_DAMAGE.has(again.fault)) this.#options.onSuspect?.();
        throw again;
      }
    }
  }

  async #detach(): Promise<void> {
    if (!this.#engine.invalidated) {
      try {
        await this.#engine.finish(`DETACH DATABASE IF EXISTS ${identifier(MIRROR)}`);
        return;
      } catch (error) {
        this.#options.log.warn(
          { path: this.#options.path, why: String(error) },
          'The mirror could not be detached.',
        );
      }
    }
    await this.#engine.reopen();
  }

  /** In the mode `write` a missing mirror is created. @throws QuarantinedError where the file cannot be read. */
  async #attach(mode: 'read' | 'write', wait: WaitForReaders = {}): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const error = await this.#tryAttach(mode, wait);
      if (error === null) return;
      // An instance may give up once for an unrelated reason. When the new instance gives up, too, the file is the cause.
      if (error.fault === 'gave-up' && attempt === 1) continue;
      if (error.fault !== 'unreadable' && error.fault !== 'gave-up') throw await this.#failure(error);
      throw await this.#quarantine(error, 'opening');
    }
  }

  async #tryAttach(mode: 'read' | 'write', wait: WaitForReaders): Promise<DuckDbError | null> {
    if (this.#engine.invalidated) await this.#engine.reopen();
    const target = `${text(this.#options.path)} AS ${identifier(MIRROR)}`;
    const attach = async () => {
      const beganMs = this.#options.clock.monotonicMs();
      await (mode === 'read'
        ? this.#engine.finish(`ATTACH ${target} (READ_ONLY)`)
        : this.#attachForWriting(target));
      this.#openingMs = this.#options.clock.monotonicMs() - beganMs;
    };
    try {
      await waitForFile(
        { ...this.#options, ...wait },
        mode === 'read' ? attach : () => durable('destination.attach', attach),
      );
      return null;
    } catch (error) {
      if (error instanceof DuckDbError) return error;
      throw error;
    }
  }

  async #attachForWriting(target: string): Promise<void> {
    this.#areEntriesSynced = false;
    try {
      await this.#engine.finish(`ATTACH ${target} ${IN_OUR_FORMAT}`);
    } catch (error) {
      if (!(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
      // A file that another program rewrote in a later format keeps that format.
      await this.#engine.finish(`ATTACH ${target}`);
    }
  }

  /** Translates an error that leaves the write session into an error of the model. */
  async #translated(error: unknown): Promise<unknown> {
    if (error instanceof WriteSessionLostError) return error.cause;
    const cause = error instanceof OutcomeUnknownError ? error.cause : error;
    return cause instanceof DuckDbError ? await this.#failure(cause) : cause;
  }

  /**
   * Where the mirror cannot be opened, its log goes first: without it the mirror is as it was after its last checkpoint, and only
   * the commits since then are made again.
   */
  async #quarantine(error: DuckDbError, doing: 'opening' | 'reading'): Promise<QuarantinedError> {
    const { path, clock, log } = this.#options;
    const isLog = doing === 'opening' && (await isThere(path + WAL_SUFFIX));
    let what = 'It was quarantined, and is built again';
    if (isLog) {
      const done = await quarantineLog(path, error.message, clock.now(), log);
      what = `Its log was ${done === 'cut' ? 'cut' : 'quarantined'}, and the newest commits are made again`;
    } else {
      await quarantineMirror(path, error.message, clock.now(), log);
    }
    return new QuarantinedError(`The mirror ${path} could not be read. ${what}: ${firstLine(error)}`, {
      code: 'mirror_damaged',
      hint: 'Check the disk. What was quarantined lies beside the mirror.',
      cause: error,
    });
  }

  #failure(error: DuckDbError): Promise<Error> {
    return mirrorFailure(error, this.#options);
  }
}

/** When opening takes less than this, reopening is cheap, and the file is rather left to readers. */
const LITTLE_MS = 100;
/** The work in a session may take this many times the time that opening took. */
const WORK_FOR_OPENING = 20;
/** The session waits for the next job for this fraction of the time that opening took. */
const WAIT_FOR_OPENING = 1 / 5;
/** Bounds the time during which readers are kept out. The last batch and the checkpoint come on top. */
const MAX_KEPT_OPEN_MS = 10_000;

/** Returns how long to wait for the next job, or null when the session should end. `openForMs`: time since it was opened. */
function waitForNext(openingMs: number, openForMs: number): number | null {
  const restMs = Math.min(WORK_FOR_OPENING * openingMs, MAX_KEPT_OPEN_MS) - openForMs;
  return openingMs >= LITTLE_MS && restMs > 0 ? Math.min(WAIT_FOR_OPENING * openingMs, restMs) : null;
}

export interface ReaderGraceOptions {
  readonly path: string;
  /** No time by default. */
  readonly readerGraceMs?: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/** The pause between write sessions, shared by all sessions of one file. */
export class ReaderGracePeriod {
  readonly #options: ReaderGraceOptions;
  /** The end of the last write session, on the monotonic clock. */
  #sinceMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReaderGraceOptions) {
    this.#options = options;
  }

  /** Called when a write session ends. */
  begin(): void {
    this.#sinceMs = this.#options.clock.monotonicMs();
  }

  /** Without this pause, consecutive write sessions would keep out a reader that retries only now and then. */
  async over(): Promise<void> {
    const { clock, readerGraceMs = 0, path, signal } = this.#options;
    const restMs = this.#sinceMs + readerGraceMs - clock.monotonicMs();
    if (restMs <= 0) return;
    await clock.sleep(restMs, signal).catch((cause: unknown) => {
      throw interrupted(path, cause);
    });
  }
}
