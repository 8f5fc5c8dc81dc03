/**
 * Validates jobs one after another, beside the work on the mirror. Waiting jobs that need the same statements are validated
 * together.
 *
 * Invariant: each job ends as it would alone. When a joint validation fails, every job is validated again, one by one.
 *
 * Changes are read ahead on the same instance while it is idle, and on a second instance while it is busy.
 */

import pLimit from 'p-limit';
import { present } from '../../lib/assert.ts';
import type { ChangesJob, ReadAhead, WriteJob } from '../../model/write-jobs.ts';
import { readAhead } from '../../staging/changes/decode.ts';
import { coalescedAlike, MAX_JOBS_TOGETHER } from '../../staging/changes/net-change.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import type { MirrorPlace } from '../../staging/engine/errors.ts';
import type { ValidatedJob } from '../destination.ts';
import { validateChanges, validateChangesTogether } from './apply-changes.ts';
import type { CatalogEntry } from './catalog/entries.ts';
import type { Current } from './catalog/tables.ts';
import type { Awaiting } from './judge-commit.ts';
import { validateSnapshot } from './load-snapshot.ts';
import { validateRepair } from './repair.ts';
import { validateRetirement } from './retire.ts';
import { validateRollback } from './rollback.ts';

interface Waiting {
  readonly job: WriteJob;
  /** Waiting jobs with the same value are validated together; null means alone. */
  readonly alike: string | null;
  readonly settle: PromiseWithResolvers<ValidatedWrite>;
}

interface WaitingChanges extends Waiting {
  readonly job: ChangesJob;
}

export class Validation {
  readonly #engine: Engine;
  readonly #inTurn = pLimit(1);
  readonly #openSecond: (() => Promise<Engine>) | null;
  #second: Engine | null = null;
  readonly #inTurnBeside = pLimit(1);
  #waiting: readonly Waiting[] = [];

  /** `openSecond` opens the second instance at its first use; null when memory is too small for a second one. */
  constructor(engine: Engine, openSecond: (() => Promise<Engine>) | null) {
    this.#engine = engine;
    this.#openSecond = openSecond;
  }

  get progress(): number {
    return this.#engine.progress + (this.#second?.progress ?? 0);
  }

  /** @throws the errors of `validateJob`. */
  async validate(job: WriteJob): Promise<ValidatedWrite> {
    // A job for which this question fails is validated alone, and reports its error there.
    const alike = job.kind === 'changes' ? await coalescedAlike(job).catch(() => null) : null;
    const settle = Promise.withResolvers<ValidatedWrite>();
    this.#waiting = [...this.#waiting, { job, alike, settle }];
    // Each job takes one turn. The turn of a job that was validated together with another does nothing.
    void this.#inTurn(() => this.#validateNext());
    return await settle.promise;
  }

  /** Returns null when the changes cannot be read ahead. @throws DuckDbError when the second instance cannot be opened. */
  async readAhead(job: ChangesJob): Promise<ReadAhead | null> {
    const isFree = this.#inTurn.activeCount + this.#inTurn.pendingCount === 0;
    const openSecond = this.#openSecond;
    if (isFree || openSecond === null) return await this.use((engine) => readAhead(engine, job));
    return await this.#inTurnBeside(async () => {
      this.#second ??= await openSecond();
      return await readAhead(this.#second, job);
    });
  }

  /** Runs `work` with the engine while no job is validated. */
  use<T>(work: (engine: Engine) => Promise<T>): Promise<T> {
    return this.#inTurn(() => work(this.#engine));
  }

  /** Waits until no job is validated, then closes the second instance. */
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

  async #validateTogether(together: readonly WaitingChanges[]): Promise<boolean> {
    const jobs = together.map(({ job }) => job);
    const prepared = await validateChangesTogether(this.#engine, jobs).catch(() => null);
    for (const [index, { settle }] of together.entries()) {
      if (prepared !== null) settle.resolve(present(prepared[index], 'each was examined'));
    }
    return prepared !== null;
  }

  async #validateAlone({ job, settle }: Waiting): Promise<void> {
    try {
      settle.resolve(await validateJob(this.#engine, job.kind, job));
    } catch (error) {
      settle.reject(error);
    }
  }
}

function isChanges(waiting: Waiting): waiting is WaitingChanges {
  return waiting.alike !== null && waiting.job.kind === 'changes';
}

type JobOf<Kind extends WriteJob['kind']> = Extract<WriteJob, { kind: Kind }>;

type Validate<Kind extends WriteJob['kind']> = (engine: Engine, job: JobOf<Kind>) => Promise<ValidatedWrite>;

/** The type makes the compiler refuse a missing kind. */
const VALIDATE: { readonly [Kind in WriteJob['kind']]: Validate<Kind> } = {
  snapshot: validateSnapshot,
  changes: validateChanges,
  retirement: validateRetirement,
  rollback: validateRollback,
  repair: validateRepair,
};

/** @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError */
function validateJob<Kind extends WriteJob['kind']>(
  engine: Engine,
  kind: Kind,
  job: JobOf<Kind>,
): Promise<ValidatedWrite> {
  return VALIDATE[kind](engine, job);
}

/** What a transaction tells each of its jobs. */
export interface Turn {
  readonly commitNumber: number;
  readonly appliedAt: Date;
  /** Why the table could not be compared before, so that the job replaces it without a comparison; null where nothing is known. */
  readonly incomparable: string | null;
  /** True when the undo log of the dataset is to hold this commit. */
  readonly keepsHistory: boolean;
}

export interface ValidatedWrite extends ValidatedJob {
  /** The rows that this job writes, as far as known. Batches are limited by this number. */
  readonly rowCount: number;
  /** The row count of the largest table that this job touches. */
  readonly tableRows: number;
  /** The bytes that the write session reads from files. */
  readonly bytes: number;

  /**
   * Works on the rows inside the given transaction. Any error, and a commit that awaits approval, must roll back the whole
   * transaction. Returns null, without any change, when the mirror differs from the state that the job was planned from. `current`
   * is the state of the dataset at the beginning of the transaction.
   */
  execute(engine: Engine, current: Current, turn: Turn): Promise<CatalogEntry | Awaiting | null>;

  /**
   * Turns an error of `execute` into the error for the operator and the planner. Runs on the validating engine after the mirror
   * is detached. Never throws.
   */
  explain(engine: Engine, error: unknown, place: MirrorPlace): Promise<Error>;
}
