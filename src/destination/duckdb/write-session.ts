/**
 * The write session in which the mirror's file is attached. Outside it the file is free for readers.
 *
 * Invariants: the file is detached whatever happened inside; a failed statement is always followed by ROLLBACK,
 * because DuckDB would commit what came before it; a write session that committed anything ends with a CHECKPOINT, also where
 * it is asked to stop: only the work on rows is interrupted.
 */

import type { Clock } from '../../lib/clock.ts';
import { durable } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, mirrorFailure } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import { IN_OUR_FORMAT, MIRROR } from './catalog/schema.ts';
import { interrupted, mirrorFileState, quarantine, type WaitOptions, waitForFile } from './mirror-file.ts';

/** From so much work on, its checkpoint has enough to do for all threads: to send them away and bring them back takes some milliseconds. */
export const MUCH_WORK_MS = 500;

export interface WriteSessionOptions extends WaitOptions {
  readonly engine: Engine;
  /** Shared by all write sessions of the file. */
  readonly readerGracePeriod: ReaderGracePeriod;
  /** For messages: the numeric id of the user. */
  readonly uid?: number | null;
  readonly log: Log;
}

/** COMMIT was refused: only the destination itself knows whether the transaction is in it. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError';
  override readonly cause: DuckDbError;

  constructor(cause: DuckDbError) {
    super(cause.message);
    this.cause = cause;
  }
}

/** After a failure the mirror could not be attached again: nothing more can be done in this write session. */
export class WriteSessionLostError extends Error {
  override readonly name = 'WriteSessionLostError';
  override readonly cause: Error;

  constructor(cause: Error) {
    super(cause.message);
    this.cause = cause;
  }
}

export interface WaitForReaders {
  /** How long to wait for whoever else has the file open, instead of what the options of the write session say. */
  readonly lockWaitMs?: number;
}

/** What a transaction writes beside the catalog: its COMMIT is an effect of its own. */
type Purpose = 'jobs' | 'progress';

export interface WriteSession {
  /**
   * How long further work may be waited for, in milliseconds: as long as it is better done in this write session than in one of its
   * own. Null: it is not.
   */
  waitForNext(): number | null;

  /**
   * Runs `work` in a transaction of its own and commits what it did. Afterwards the write session can be used again, unless
   * it was lost.
   * @throws what `work` throws, after ROLLBACK; OutcomeUnknownError where COMMIT failed; WriteSessionLostError.
   */
  transaction<T>(work: (engine: Engine) => Promise<T>, purpose?: Purpose): Promise<T>;
}

export class WriteSessions {
  readonly #options: WriteSessionOptions;
  readonly #engine: Engine;
  /** What DuckDB took to open the file the last time, without the wait for others. */
  #openingMs = 0;

  constructor(options: WriteSessionOptions) {
    this.#options = options;
    this.#engine = options.engine;
  }

  /**
   * Runs `work` with the mirror attached for reading, in one transaction. Null where there is no mirror; none is made.
   * A mirror that turns out to be unreadable is set aside.
   */
  async read<T>(work: (engine: Engine) => Promise<T>, wait: WaitForReaders = {}): Promise<T | null> {
    if ((await mirrorFileState(this.#options.path)) === 'absent') return null;
    if (!(await this.#attach('read', wait))) return null;
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
    await this.#quarantine(unreadable);
    return null;
  }

  /** Runs `work` with the mirror attached for writing; it is created where it is missing. */
  async write<T>(work: (session: WriteSession) => Promise<T>, wait: WaitForReaders = {}): Promise<T> {
    try {
      return await this.#attachedForWriting(work, wait);
    } catch (error) {
      throw await this.#translated(error);
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
    const { clock } = this.#options;
    await this.#options.readerGracePeriod.over();
    await mirrorFileState(this.#options.path);
    await this.#attach('write', wait);
    const openedMs = clock.monotonicMs();
    const waitMs = () => (lost ? null : waitForNext(this.#openingMs, clock.monotonicMs() - openedMs));
    try {
      try {
        return await work({ transaction, waitForNext: waitMs });
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
      // A checkpoint that DuckDB does within COMMIT may have failed: the file then has to be attached again.
      await this.#detach();
      await this.#attachAgain(error);
      throw error instanceof DuckDbError ? new OutcomeUnknownError(error) : error;
    }
    return result;
  }

  #commit(purpose: Purpose): Promise<void> {
    switch (purpose) {
      case 'jobs':
        return durable('destination.commit', () => this.#engine.finish('COMMIT'));
      case 'progress':
        return durable('destination.store-progress', () => this.#engine.finish('COMMIT'));
    }
  }

  /** Makes the write session usable again after a failure inside a transaction. */
  async #recover(error: unknown): Promise<void> {
    await this.#rollBack();
    if (this.#engine.invalidated) await this.#attachAgain(error);
  }

  async #attachAgain(error: unknown): Promise<void> {
    const { log, path } = this.#options;
    log.error({ path, why: String(error) }, 'DuckDB gave up on a transaction; the mirror is opened again.');
    try {
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
      // No transaction is left after a refused COMMIT or BEGIN; and an instance that gives up here is opened again.
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
      log.warn(
        { path, why: String(error) },
        'A checkpoint failed; the mirror is opened again for another one.',
      );
      // Opened again it has the space back that undone transactions took. What was committed is safe in the log.
      await this.#detach();
      await this.#attach('write');
      await checkpoint();
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

  /** False: what was there could not be read and is set aside (for reading only; for writing a new one is made). */
  async #attach(mode: 'read' | 'write', wait: WaitForReaders = {}): Promise<boolean> {
    for (let attempt = 1; ; attempt += 1) {
      const error = await this.#tryAttach(mode, wait);
      if (error === null) return true;
      // An instance may give up for another reason once; when it does so again, the file is the reason.
      if (error.fault === 'gave-up' && attempt === 1) continue;
      if (error.fault !== 'unreadable' && error.fault !== 'gave-up') throw await this.#failure(error);
      await this.#quarantine(error);
      if (mode === 'read') return false;
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
    try {
      await this.#engine.finish(`ATTACH ${target} ${IN_OUR_FORMAT}`);
    } catch (error) {
      if (!(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
      // A file that somebody has written again in a later format stays in that.
      await this.#engine.finish(`ATTACH ${target}`);
    }
  }

  /** What left a write session in an error of its own, as an error of the model. */
  async #translated(error: unknown): Promise<unknown> {
    if (error instanceof WriteSessionLostError) return error.cause;
    const cause = error instanceof OutcomeUnknownError ? error.cause : error;
    return cause instanceof DuckDbError ? await this.#failure(cause) : cause;
  }

  #quarantine(error: DuckDbError): Promise<void> {
    return quarantine(this.#options.path, error.message, this.#options.clock.now(), this.#options.log);
  }

  #failure(error: DuckDbError): Promise<Error> {
    return mirrorFailure(error, this.#options);
  }
}

/** Below it another write session costs so little that the file is rather left to readers. */
const LITTLE_MS = 100;
/** Work in a write session may take so many times what opening it took. */
const WORK_FOR_OPENING = 20;
/** The next job is waited for so much of what opening took. */
const WAIT_FOR_OPENING = 1 / 5;
/** Whatever it took: so long nobody else can look at the mirror, and what was taken last comes on top. */
const MAX_KEPT_OPEN_MS = 10_000;

/** How long the next job may be waited for; null where the write session is to end. `openForMs`: how long ago it was opened. */
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

/** Of all write sessions of one file. */
export class ReaderGracePeriod {
  readonly #options: ReaderGraceOptions;
  /** On the monotonic clock. */
  #sinceMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReaderGraceOptions) {
    this.#options = options;
  }

  /** A write session that writes has ended. */
  begin(): void {
    this.#sinceMs = this.#options.clock.monotonicMs();
  }

  /** Windows that follow each other without a pause would keep a reader out who tries again at times. */
  async over(): Promise<void> {
    const { clock, readerGraceMs = 0, path, signal } = this.#options;
    const restMs = this.#sinceMs + readerGraceMs - clock.monotonicMs();
    if (restMs <= 0) return;
    await clock.sleep(restMs, signal).catch((cause: unknown) => {
      throw interrupted(path, cause);
    });
  }
}
