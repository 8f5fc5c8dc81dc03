/**
 * Validates jobs one after another, beside the work on the mirror. Waiting jobs that need the same statements are validated
 * together.
 *
 * Invariant: each job ends as it would alone. When a joint validation fails, every job is validated again, one by one.
 *
 * Changes are read ahead on the same instance while it is idle, and on a second instance while it is busy.
 */

import pLimit from 'p-limit';
import { present } from '../lib/assert.ts';
import type { ChangesJob, ReadAhead, WriteJob } from '../model/write-jobs.ts';
import { readAhead } from '../staging/changes/decode.ts';
import { coalescedAlike, MAX_JOBS_TOGETHER } from '../staging/changes/net-change.ts';
import type { Engine } from '../staging/engine/engine.ts';

interface Waiting<Validated> {
  readonly job: WriteJob;
  /** Waiting jobs with the same value are validated together; null means alone. */
  readonly alike: string | null;
  readonly settle: PromiseWithResolvers<Validated>;
}

interface WaitingChanges<Validated> extends Waiting<Validated> {
  readonly job: ChangesJob;
}

/** How a destination validates jobs. */
export interface Validating<Validated> {
  /** @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError */
  readonly validate: (engine: Engine, job: WriteJob) => Promise<Validated>;
  /** Validates jobs that `coalescedAlike` found alike, in their order. Returns null when each has to be validated alone. */
  readonly validateTogether: (
    engine: Engine,
    jobs: readonly ChangesJob[],
  ) => Promise<readonly Validated[] | null>;
}

export class Validation<Validated> {
  readonly #validating: Validating<Validated>;
  readonly #engine: Engine;
  readonly #inTurn = pLimit(1);
  readonly #second: Engine | null;
  readonly #inTurnBeside = pLimit(1);
  #waiting: readonly Waiting<Validated>[] = [];

  /** Validates with one or two instances of DuckDB; `second` is null when memory is too small for a second instance. */
  constructor(validating: Validating<Validated>, engine: Engine, second: Engine | null) {
    this.#validating = validating;
    this.#engine = engine;
    this.#second = second;
  }

  get progress(): number {
    return this.#engine.progress + (this.#second?.progress ?? 0);
  }

  /** Validates a job. @throws the errors of `Validating.validate`. */
  async validate(job: WriteJob): Promise<Validated> {
    // A job for which this question fails is validated alone, and reports its error there.
    const alike = job.kind === 'changes' ? await coalescedAlike(job).catch(() => null) : null;
    const settle = Promise.withResolvers<Validated>();
    this.#waiting = [...this.#waiting, { job, alike, settle }];
    // Each job takes one turn. The turn of a job that was validated together with another does nothing.
    void this.#inTurn(() => this.#validateNext());
    return await settle.promise;
  }

  /** Returns null when the changes cannot be read ahead. @throws DuckDbError when the second instance cannot be opened. */
  async readAhead(job: ChangesJob): Promise<ReadAhead | null> {
    const isFree = this.#inTurn.activeCount + this.#inTurn.pendingCount === 0;
    const second = this.#second;
    if (isFree || second === null) return await this.use((engine) => readAhead(engine, job));
    return await this.#inTurnBeside(() => readAhead(second, job));
  }

  /** Runs `work` with the engine while no job is validated. */
  use<T>(work: (engine: Engine) => Promise<T>): Promise<T> {
    return this.#inTurn(() => work(this.#engine));
  }

  /** Waits until no job is validated, then closes both instances. */
  async close(): Promise<void> {
    await this.#inTurnBeside(async () => this.#second?.close());
    await this.use(async (engine) => engine.close());
  }

  /** Never rejects. */
  async #validateNext(): Promise<void> {
    const [first] = this.#waiting;
    if (first === undefined) return;
    const together = isChanges(first)
      ? this.#waiting
          .filter(isChanges)
          .filter(({ alike }) => alike === first.alike)
          .slice(0, MAX_JOBS_TOGETHER)
      : [];
    const taken = together.length > 1 ? together : [first];
    this.#waiting = this.#waiting.filter((each) => !taken.includes(each));
    if (together.length > 1 && (await this.#validateTogether(together))) return;
    for (const each of taken) await this.#validateAlone(each);
  }

  async #validateTogether(together: readonly WaitingChanges<Validated>[]): Promise<boolean> {
    const jobs = together.map(({ job }) => job);
    const prepared = await this.#validating.validateTogether(this.#engine, jobs).catch(() => null);
    for (const [index, { settle }] of together.entries()) {
      if (prepared !== null) settle.resolve(present(prepared[index], 'each was examined'));
    }
    return prepared !== null;
  }

  async #validateAlone({ job, settle }: Waiting<Validated>): Promise<void> {
    try {
      settle.resolve(await this.#validating.validate(this.#engine, job));
    } catch (error) {
      settle.reject(error);
    }
  }
}

function isChanges<Validated>(waiting: Waiting<Validated>): waiting is WaitingChanges<Validated> {
  return waiting.alike !== null && waiting.job.kind === 'changes';
}
