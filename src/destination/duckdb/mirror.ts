/**
 * The mirror: a DuckDB file as a destination. The file is attached only inside windows; between them it is free for
 * readers. Operations on it go one after another; files are examined beside them, in an instance of their own, so
 * that a hostile one can hurt no commit.
 */

import { dirname, join, resolve } from 'node:path';
import pLimit from 'p-limit';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import type { HistoryPosition } from '../../model/history.ts';
import type { Destination, Enrolment, Held, Prepared, Unit, UnitQueue } from '../destination.ts';
import type { HistoryLimits, HistoryPage, Outlet, Publication } from '../outlet.ts';
import { AttachWindow, type WriteWindow } from './attach-window.ts';
import { commitUnits } from './commit-units.ts';
import { clearUnfinished } from './compact/unfinished.ts';
import { Engine } from './engine.ts';
import { mirrorPath } from './mirror-path.ts';
import { EMPTY, ensureSchema, isEnrolled, readHeld, writeEnrolment } from './mirror-state.ts';
import { prepareUnit } from './prepare.ts';
import type { PreparedUnit } from './prepared.ts';
import { type CopyPlace, Publisher } from './publish/publish.ts';
import { type PublishOptions, publishTarget } from './publish/publish-target.ts';
import { literalPattern } from './quoting.ts';
import { NO_HISTORY, readHistory } from './read-history.ts';

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
    temporaryDirectory: join(dataDirectory, 'duckdb-temporary'),
    // A reader of files is given patterns, and DuckDB compares those, too, with the folders.
    directories: [dataDirectory, literalPattern(dataDirectory), dirname(path)],
    ...(options.signal === undefined ? {} : { signal: options.signal, clock: options.clock }),
  };
  const { publish = null } = options;
  const place = { path, uid: options.uid ?? null };
  const copy =
    publish === null
      ? null
      : { ...engineOptions, ...publish, target: await publishTarget(publish, place, engineOptions) };
  const { reserveBytes = 0, clock } = options;
  const room = { folders: [dirname(path), dataDirectory], reserveBytes, clock };
  const engine = await Engine.open({
    ...engineOptions,
    maxLogBytes: MAX_LOG_BYTES,
    ...(reserveBytes > 0 ? { room } : {}),
  });
  const examiner = await Engine.open({
    ...engineOptions,
    threads: 1,
    memoryLimitBytes: Math.min(options.memoryLimitBytes, MAX_EXAMINING_BYTES),
  });
  return new Mirror({ ...options, path }, engine, examiner, copy);
}

interface Failed {
  readonly unit: PreparedUnit;
  readonly error: unknown;
}

class Mirror implements Destination, Outlet {
  readonly #options: MirrorOptions;
  readonly #engine: Engine;
  readonly #examiner: Engine;
  readonly #window: AttachWindow;
  readonly #inTurn = pLimit(1);
  readonly #examining = pLimit(1);
  readonly #publisher: Publisher | null;
  /** What was enrolled last: a mirror that has to be built anew in the middle of a run gets the same names. */
  #enrolment: Enrolment | null = null;

  constructor(options: MirrorOptions, engine: Engine, examiner: Engine, copy: CopyPlace | null) {
    const { path } = options;
    this.#options = options;
    this.#engine = engine;
    this.#examiner = examiner;
    this.#window = new AttachWindow({ ...options, engine });
    const inTurn = <T>(work: () => Promise<T>): Promise<T> => this.#inTurn(work);
    this.#publisher = copy === null ? null : new Publisher({ ...copy, path, window: this.#window, inTurn });
  }

  has(): Promise<Held> {
    const { path } = this.#options;
    return this.#inTurn(async () => (await this.#window.read((engine) => readHeld(engine, path))) ?? EMPTY);
  }

  enroll(enrolment: Enrolment): Promise<void> {
    const { path } = this.#options;
    return this.#inTurn(async () => {
      this.#enrolment = enrolment;
      // A reader may have the file open for long: nothing is written where nothing is new.
      if (await this.#window.read((engine) => isEnrolled(engine, path, enrolment))) return;
      await this.#window.write((window) =>
        window.transaction(async (engine) => {
          await ensureSchema(engine, path);
          await writeEnrolment(engine, path, enrolment);
        }),
      );
    });
  }

  prepare(unit: Unit): Promise<Prepared> {
    return this.#examining(() => prepareUnit(this.#examiner, unit.kind, unit));
  }

  async commit(queue: UnitQueue): Promise<void> {
    const first = queue.take();
    if (first.length === 0) return;
    const failed = await this.#inTurn(() =>
      this.#window.write((window) => this.#commitWhileOpen(window, first, queue)),
    );
    for (const { unit, error } of failed) {
      const explain = () => unit.explain(this.#examiner, error, this.#options);
      const { datasetId } = unit.unit;
      queue.tell(unit, { kind: 'failed', datasetId, error: await this.#examining(explain) });
    }
  }

  /** Those that failed: why is looked for once the mirror is let go. */
  async #commitWhileOpen(
    window: WriteWindow,
    first: readonly Prepared[],
    queue: UnitQueue,
  ): Promise<readonly Failed[]> {
    const { clock, signal } = this.#options;
    const failed: Failed[] = [];
    await window.transaction((engine) => this.#enrollAgain(engine));
    for (let units = first; units.length > 0; units = await this.#next(window, queue)) {
      const context = { window, appliedAt: clock.now(), ...(signal === undefined ? {} : { signal }) };
      for await (const { unit, result } of commitUnits(context, units.map(ownPrepared))) {
        if (result.kind === 'failed') failed.push({ unit, error: result.error });
        else queue.tell(unit, { ...result, datasetId: unit.unit.datasetId });
      }
    }
    return failed;
  }

  /** None where the window is to end. */
  async #next(window: WriteWindow, queue: UnitQueue): Promise<readonly Prepared[]> {
    const waitMs = window.waitForNext();
    if (waitMs === null) return [];
    const hasArrived = new AbortController();
    const patience = this.#options.clock.sleep(waitMs, hasArrived.signal).catch(() => {});
    await Promise.race([queue.arrival(), patience]);
    hasArrived.abort();
    return queue.take();
  }

  progress(): number {
    return this.#engine.progress + this.#examiner.progress + (this.#publisher?.progress ?? 0);
  }

  history(after: HistoryPosition | null, limits: HistoryLimits): Promise<HistoryPage> {
    return this.#inTurn(
      async () => (await this.#window.read((engine) => readHistory(engine, after, limits))) ?? NO_HISTORY,
    );
  }

  publish(): Promise<Publication> {
    assert(this.#publisher !== null, 'a copy is published where the mirror was told to');
    return this.#publisher.publish();
  }

  async close(): Promise<void> {
    await this.#inTurn(() => this.#engine.close());
    await this.#examining(() => this.#examiner.close());
  }

  /** Whatever became of the mirror since it was enrolled. */
  async #enrollAgain(engine: Engine): Promise<void> {
    const { path } = this.#options;
    const isNew = await ensureSchema(engine, path);
    if (isNew && this.#enrolment !== null) await writeEnrolment(engine, path, this.#enrolment);
  }
}

function ownPrepared(prepared: Prepared): PreparedUnit {
  assert('carryOut' in prepared, 'a unit is committed by the destination that prepared it');
  return prepared as PreparedUnit;
}
