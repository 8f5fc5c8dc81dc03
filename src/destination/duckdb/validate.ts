/** How each kind of job is validated, and what a validated job does in a transaction. */

import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import type { MirrorPlace } from '../../staging/engine/errors.ts';
import type { CatalogEntry } from '../catalog/entries.ts';
import type { ValidatedJob } from '../destination.ts';
import type { Awaiting } from '../judge-commit.ts';
import { validateChanges } from './apply-changes.ts';
import { validateSnapshot } from './load-snapshot.ts';
import { validateRollback } from './past/rollback.ts';
import { validateRepair } from './repair.ts';
import { validateRetirement } from './retire.ts';
import type { Current } from './tables.ts';
import type { WorkAhead } from './write-session.ts';

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

/** Validates a job. @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError */
export function validateJob<Kind extends WriteJob['kind']>(
  engine: Engine,
  kind: Kind,
  job: JobOf<Kind>,
): Promise<ValidatedWrite> {
  return VALIDATE[kind](engine, job);
}

/** The facts that a transaction gives each of its jobs. */
export interface Turn {
  readonly commitNumber: number;
  readonly appliedAt: Date;
  /** Why the table could not be compared before, so that the job replaces it without a comparison; null where nothing is known. */
  readonly incomparable: string | null;
  /** False where nothing of the table can be compared; true where only its keys are, because its rows need too much memory. */
  readonly comparesKeys: boolean;
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

  /** Returns the work that pays before the write session, null where none does. Missing where none ever does. */
  ahead?(keepsHistory: boolean): WorkAhead | null;

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
