/**
 * Jobs are validated one after another, beside the work on the mirror; those that wait and are validated by the same statements, together.
 *
 * Invariant: each ends as it would alone. What is not in order among several is validated again, one by one.
 *
 * Changes are read ahead of their jobs where those are validated, and, while something is there, in a second instance beside it.
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
import { validateSnapshot } from './load-snapshot.ts';
import { validateRetirement } from './retire.ts';

interface Waiting {
  readonly job: WriteJob;
  /** Those with the same are validated together; null: it is validated alone. */
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

  /** `openSecond`: opens the second instance when it is needed first; null where there is not memory enough for one. */
  constructor(engine: Engine, openSecond: (() => Promise<Engine>) | null) {
    this.#engine = engine;
    this.#openSecond = openSecond;
  }

  get progress(): number {
    return this.#engine.progress + (this.#second?.progress ?? 0);
  }

  /** @throws what `prepareUnit` throws. */
  async validate(job: WriteJob): Promise<ValidatedWrite> {
    // What is wrong with one of which this cannot be said comes out when it is validated alone.
    const alike = job.kind === 'changes' ? await coalescedAlike(job).catch(() => null) : null;
    const settle = Promise.withResolvers<ValidatedWrite>();
    this.#waiting = [...this.#waiting, { job, alike, settle }];
    // One turn for each: those that went along with another find nothing left to do in theirs.
    void this.#inTurn(() => this.#validateNext());
    return await settle.promise;
  }

  /** Null where it cannot be done. @throws DuckDbError where there is no second instance to be had. */
  async readAhead(job: ChangesJob): Promise<ReadAhead | null> {
    const isFree = this.#inTurn.activeCount + this.#inTurn.pendingCount === 0;
    const openSecond = this.#openSecond;
    if (isFree || openSecond === null) return await this.use((engine) => readAhead(engine, job));
    return await this.#inTurnBeside(async () => {
      this.#second ??= await openSecond();
      return await readAhead(this.#second, job);
    });
  }

  /** Runs `work` with the engine while nothing is validated. */
  use<T>(work: (engine: Engine) => Promise<T>): Promise<T> {
    return this.#inTurn(() => work(this.#engine));
  }

  /** When nothing is validated any more. */
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

/** Complete by its type: a kind that is missing here does not compile. */
const VALIDATE: { readonly [Kind in WriteJob['kind']]: Validate<Kind> } = {
  snapshot: validateSnapshot,
  changes: validateChanges,
  retirement: validateRetirement,
};

/** @throws what the kinds throw: DataError, UnknownColumnsError, InapplicableChangesError, StorageError. */
function validateJob<Kind extends WriteJob['kind']>(
  engine: Engine,
  kind: Kind,
  job: JobOf<Kind>,
): Promise<ValidatedWrite> {
  return VALIDATE[kind](engine, job);
}

export interface ValidatedWrite extends ValidatedJob {
  /** Rows that the write session writes, as far as they are known: which jobs go into one transaction is measured by them. */
  readonly rowCount: number;
  /** The most rows of a table that it has to do with. */
  readonly tableRows: number;
  /** Bytes that the write session reads from files. */
  readonly bytes: number;

  /**
   * Does the work on the rows inside the transaction it is given. Until that commits nothing of it is seen; whatever is thrown
   * here must undo the whole transaction. Null: the mirror is no longer what the job was planned from, and nothing
   * was done. `current` is what it has of the dataset at the begin of the transaction.
   */
  execute(engine: Engine, current: Current, appliedAt: Date): Promise<CatalogEntry | null>;

  /**
   * The error for the person and the planner, from what `carryOut` threw. Runs after the mirror is let go, on the
   * engine that validates files. Never throws.
   */
  explain(engine: Engine, error: unknown, place: MirrorPlace): Promise<Error>;
}
