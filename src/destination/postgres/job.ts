/** A validated job in its transaction, and the parts that the transaction gives it. */

import type { WriteJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import type { CatalogEntry } from '../catalog/entries.ts';
import type { ValidatedJob } from '../destination.ts';
import type { Awaiting } from '../judge-commit.ts';
import type { Current, SchemaOf } from './catalog/observed-state.ts';
import type { Transaction } from './connection.ts';
import { type CopiedRows, copyRows } from './copy-rows.ts';
import type { Pipe } from './pipe.ts';
import type { Indexes } from './tables.ts';
import type { Postgis } from './types.ts';

/** A transaction of one job. */
export interface Turn {
  readonly transaction: Transaction;
  /** The number that the commit takes. */
  readonly commitNumber: number;
  readonly appliedAt: Date;
  /** Whether an attempt at the same commit has failed. */
  readonly isRepeated: boolean;
  /** True when the dataset keeps its history. */
  readonly keepsHistory: boolean;
  readonly postgis: Postgis | null;
  /** The indexes of new tables. */
  readonly indexes: Indexes;
  /** Returns the schema that the settings say for a dataset. */
  readonly schemaOf: SchemaOf;
  /** Reads the rows of files. */
  readonly staging: Engine;
  /** `target` is a table with its columns. Resolves to the number of rows. @throws DuckDbError, PostgresError */
  copy(target: string, rows: Omit<CopiedRows, 'hasPostgis'>): Promise<number>;
  /** Runs statements that need a lock which keeps readers out: with little patience, again and again. @throws PostgresError */
  alter(statements: readonly string[]): Promise<void>;
}

export interface ValidatedWrite extends ValidatedJob {
  /**
   * Works on the rows inside the transaction. Any error must roll it back. Returns null, without any change, when the database
   * differs from the state that the job was planned from. Where the commit awaits approval, the transaction must be rolled back.
   */
  execute(turn: Turn, current: Current): Promise<CatalogEntry | Awaiting | null>;
  /** Turns an error of `execute` into the error for the operator and the planner. Never throws. */
  explain(engine: Engine, error: unknown): Promise<Error>;
}

export type JobOf<Kind extends WriteJob['kind']> = Extract<WriteJob, { kind: Kind }>;

export function copyInto(
  engine: Engine,
  pipe: Pipe,
  { transaction, postgis }: Pick<Turn, 'transaction' | 'postgis'>,
): Turn['copy'] {
  return (target, rows) =>
    copyRows(engine, pipe, transaction, target, { ...rows, hasPostgis: postgis !== null });
}
