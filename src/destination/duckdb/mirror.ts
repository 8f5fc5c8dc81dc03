/**
 * The mirror: a DuckDB file as a destination. The file is attached only inside windows; between them it is free for
 * readers. Operations on it go one after another; files are examined beside them, in an instance of their own, so
 * that a hostile one can hurt no commit.
 */

import { dirname, resolve } from 'node:path';
import pLimit from 'p-limit';
import { assert } from '../../lib/assert.ts';
import type { Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { HistoryPosition } from '../../model/commits.ts';
import { BusyError } from '../../model/errors.ts';
import type { ChangesUnit, ReadAhead, Unit } from '../../model/write-jobs.ts';
import {
  Engine,
  type EngineOptions,
  temporaryDirectories,
  temporaryDirectory,
} from '../../staging/engine/engine.ts';
import { literalPattern } from '../../staging/engine/sql.ts';
import type { Destination, Enrolment, Held, Prepared, StoredProgress, UnitQueue } from '../destination.ts';
import type { HistoryLimits, HistoryPage, Outlet, Publication } from '../publication.ts';
import { NO_HISTORY, readHistory } from './catalog/commits.ts';
import { EMPTY, ensureSchema, isEnrolled, readHeld, writeEnrolment } from './catalog/observed-state.ts';
import { storeBesideCommits, storeProgress } from './catalog/progress.ts';
import { commitUnits } from './commit.ts';
import { clearUnfinished } from './compact.ts';
import { mirrorPath } from './mirror-file.ts';
import { type CopyPlace, Publisher, type PublishOptions, publishTarget } from './publish.ts';
import { Examination, type PreparedUnit } from './validate.ts';
import {
  AttachWindow,
  LeftFree,
  type LeftFreeOptions,
  type WaitForReaders,
  type WindowOptions,
  type WriteWindow,
} from './write-session.ts';

/** The most memory for the examination of files, which reads footers and finds single values. */
const MAX_EXAMINING_BYTES = 512_000_000;

/**
 * Every window ends with a checkpoint. One at a COMMIT within it, which DuckDB does by itself from 16 MiB of log on, writes what is
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
  /** How long a window waits for whoever else has the file open. */
  readonly lockWaitMs: number;
  /** How long the file is left to readers between two windows that write; no time by default. */
  readonly leftFreeMs?: number;
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
export async function openMirror(options: MirrorOptions): Promise<Destination & Outlet> {
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
  const room = { folders: [dirname(path), dataDirectory], reserveBytes, clock };
  const windows = await Windows.open(
    { ...options, path, dataDirectory },
    { ...engineOptions, maxLogBytes: MAX_LOG_BYTES, ...(reserveBytes > 0 ? { room } : {}) },
  );
  const openExaminer = (purpose: 'examining' | 'reading-ahead'): Promise<Engine> =>
    Engine.open({
      ...engineOptions,
      threads: 1,
      memoryLimitBytes: Math.min(options.memoryLimitBytes, MAX_EXAMINING_BYTES),
      temporaryDirectory: temporaryDirectory(dataDirectory, purpose),
    });
  const hasRoomForTwo = options.memoryLimitBytes >= 2 * MAX_EXAMINING_BYTES;
  const openSecond = hasRoomForTwo ? () => openExaminer('reading-ahead') : null;
  const examination = new Examination(await openExaminer('examining'), openSecond);
  return new Mirror({ ...options, path }, windows, examination, copy);
}

async function copyPlace(options: MirrorOptions, publish: PublishOptions, path: string): Promise<CopyPlace> {
  const { memoryLimitBytes, uid = null, signal } = options;
  const dataDirectory = resolve(options.dataDirectory);
  const looking = {
    memoryLimitBytes,
    temporaryDirectory: temporaryDirectory(dataDirectory, 'looking'),
    ...(signal === undefined ? {} : { signal }),
  };
  const keptPaths = [...publish.keptPaths, ...temporaryDirectories(dataDirectory)];
  const target = await publishTarget({ ...publish, keptPaths }, { path, uid }, looking);
  return { ...looking, ...publish, target };
}

interface Failed {
  readonly unit: PreparedUnit;
  readonly error: unknown;
}

interface Opened {
  readonly window: WriteWindow;
  /** Of the tables that are written in it. */
  readonly size: TableSize;
  readonly queue: UnitQueue;
  /** Whether units that were taken are left for a window after this one. */
  readonly isNotLast: boolean;
}

interface Ended {
  /** Why is looked for once the mirror is let go. */
  readonly failed: readonly Failed[];
  /** What was taken for the other window. */
  readonly setAside: readonly PreparedUnit[];
}

class Mirror implements Destination, Outlet {
  readonly #options: MirrorOptions;
  readonly #windows: Windows;
  readonly #examination: Examination;
  readonly #inTurn = pLimit(1);
  readonly #publisher: Publisher | null;
  /** What was enrolled last: a mirror that has to be built anew in the middle of a run gets the same names. */
  #enrolment: Enrolment | null = null;
  /** The mirror was made anew since `has` was called: progress that was known until then describes lost tables. */
  #isMadeAnew = false;

  constructor(options: MirrorOptions, windows: Windows, examination: Examination, copy: CopyPlace | null) {
    const { path } = options;
    this.#options = options;
    this.#windows = windows;
    this.#examination = examination;
    const window = windows.of('small');
    const inTurn = <T>(work: () => Promise<T>): Promise<T> => this.#inTurn(work);
    this.#publisher = copy === null ? null : new Publisher({ ...copy, path, window, inTurn });
  }

  has(): Promise<Held> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      const held = (await this.#windows.of('small').read((engine) => readHeld(engine, path))) ?? EMPTY;
      this.#isMadeAnew = false;
      return held;
    });
  }

  enroll(enrolment: Enrolment): Promise<void> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      this.#enrolment = enrolment;
      // A reader may have the file open for long: nothing is written where nothing is new.
      if (await this.#windows.of('small').read((engine) => isEnrolled(engine, path, enrolment))) return;
      await this.#windows.of('small').write((window) =>
        window.transaction(async (engine) => {
          await ensureSchema(engine, path);
          await writeEnrolment(engine, path, enrolment);
        }),
      );
    });
  }

  prepare(unit: Unit): Promise<Prepared> {
    return this.#examination.examine(unit);
  }

  readAhead(unit: ChangesUnit): Promise<ReadAhead | null> {
    return this.#examination.readAhead(unit);
  }

  async commit(queue: UnitQueue): Promise<void> {
    let waiting = queue.take().map(ownPrepared);
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const size = sizeOf(first.tableRows);
      const others = waiting.filter(({ tableRows }) => sizeOf(tableRows) !== size);
      const its = waiting.filter((unit) => !others.includes(unit));
      const { failed, setAside } = await this.#inTurn(() =>
        this.#windows
          .of(size)
          .write((window) =>
            this.#commitWhileOpen({ window, size, queue, isNotLast: others.length > 0 }, its),
          ),
      );
      for (const { unit, error } of failed) {
        const explained = this.#examination.use((engine) => unit.explain(engine, error, this.#options));
        queue.tell(unit, { kind: 'failed', datasetId: unit.unit.datasetId, error: await explained });
      }
      waiting = [...others, ...setAside];
    }
  }

  async #commitWhileOpen(opened: Opened, first: readonly PreparedUnit[]): Promise<Ended> {
    const { window, size, queue, isNotLast } = opened;
    const { clock, signal } = this.#options;
    const failed: Failed[] = [];
    const setAside: PreparedUnit[] = [];
    if (await window.transaction((engine) => this.#enrollAgain(engine))) this.#isMadeAnew = true;
    for (let units = first; units.length > 0; ) {
      const context = { window, appliedAt: clock.now(), ...(signal === undefined ? {} : { signal }) };
      for await (const { unit, result } of commitUnits(context, units)) {
        if (result.kind === 'failed') failed.push({ unit, error: result.error });
        else queue.tell(unit, { ...result, datasetId: unit.unit.datasetId });
      }
      const next = await this.#next(window, queue);
      units = next.filter(({ tableRows }) => sizeOf(tableRows) === size);
      setAside.push(...next.filter((unit) => !units.includes(unit)));
    }
    const isTold = !this.#isMadeAnew && !isNotLast && failed.length === 0 && setAside.length === 0;
    if (isTold) await storeBesideCommits(window, queue, this.#options);
    return { failed, setAside };
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
    if (this.#isMadeAnew) return false;
    return await storeProgress(this.#windows.of('small'), this.#options.path, progress, wait);
  }

  /** None where the window is to end. */
  async #next(window: WriteWindow, queue: UnitQueue): Promise<readonly PreparedUnit[]> {
    const waitMs = window.waitForNext();
    if (waitMs === null) return [];
    const hasArrived = new AbortController();
    const patience = this.#options.clock.sleep(waitMs, hasArrived.signal).catch(() => {});
    await Promise.race([queue.arrival(), patience]);
    hasArrived.abort();
    return queue.take().map(ownPrepared);
  }

  progress(): number {
    return this.#windows.progress + this.#examination.progress + (this.#publisher?.progress ?? 0);
  }

  history(after: HistoryPosition | null, limits: HistoryLimits): Promise<HistoryPage> {
    return this.#inTurn(
      async () =>
        (await this.#windows.of('small').read((engine) => readHistory(engine, after, limits))) ?? NO_HISTORY,
    );
  }

  publish(): Promise<Publication> {
    assert(this.#publisher !== null, 'a copy is published where the mirror was told to');
    return this.#publisher.publish();
  }

  async close(): Promise<void> {
    await this.#inTurn(() => this.#windows.close());
    await this.#examination.close();
  }

  /** Whatever became of the mirror since it was enrolled. Resolves to whether it is a new one. */
  async #enrollAgain(engine: Engine): Promise<boolean> {
    const { path } = this.#options;
    const isNew = await ensureSchema(engine, path);
    if (isNew && this.#enrolment !== null) await writeEnrolment(engine, path, this.#enrolment);
    return isNew;
  }
}

function ownPrepared(prepared: Prepared): PreparedUnit {
  assert('carryOut' in prepared, 'a unit is committed by the destination that prepared it');
  return prepared as PreparedUnit;
}

/** The most rows that a table has in one row group. */
const ROW_GROUP_ROWS = 122_880;

type TableSize = 'small' | 'large';

/** By which window a table of so many rows is written. */
export function sizeOf(tableRows: number): TableSize {
  return tableRows <= ROW_GROUP_ROWS ? 'small' : 'large';
}

interface WindowsOptions
  extends Omit<WindowOptions, 'engine' | 'leftFree'>,
    Pick<LeftFreeOptions, 'leftFreeMs'> {
  readonly dataDirectory: string;
}

class Windows {
  readonly #engines: readonly Engine[];
  readonly #windows: Readonly<Record<TableSize, AttachWindow>>;

  private constructor(options: WindowsOptions, small: Engine, large: Engine) {
    const leftFree = new LeftFree(options);
    this.#engines = [...new Set([small, large])];
    this.#windows = {
      small: new AttachWindow({ ...options, leftFree, engine: small }),
      large: new AttachWindow({ ...options, leftFree, engine: large }),
    };
  }

  /** Opens no file yet. @throws DuckDbError */
  static async open(
    options: WindowsOptions,
    engineOptions: Omit<EngineOptions, 'temporaryDirectory'>,
  ): Promise<Windows> {
    const openEngine = (size: TableSize, threads: number): Promise<Engine> =>
      Engine.open({
        ...engineOptions,
        threads,
        inAnyOrder: size === 'large',
        temporaryDirectory: temporaryDirectory(options.dataDirectory, size),
      });
    const small = await openEngine('small', 1);
    const { threads } = engineOptions;
    return new Windows(options, small, threads === 1 ? small : await openEngine('large', threads));
  }

  of(size: TableSize): AttachWindow {
    return this.#windows[size];
  }

  /** Another number whenever a statement of any of them has ended, or reads on. */
  get progress(): number {
    return this.#engines.reduce((sum, engine) => sum + engine.progress, 0);
  }

  close(): void {
    for (const engine of this.#engines) engine.close();
  }
}
