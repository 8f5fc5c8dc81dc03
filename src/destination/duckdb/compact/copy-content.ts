/**
 * Everything that the mirror has into the new file, also what a person has added to it; and the proof that it is there.
 *
 * Invariant: what cannot be carried over is refused by name before a row is copied, or where it shows; nothing is left out.
 */

import { durable } from '../../../lib/durable.ts';
import { formatCount } from '../../../lib/units.ts';
import { StorageError } from '../../../model/errors.ts';
import { MIRROR } from '../books/mirror-schema.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { firstLine } from '../engine/failures.ts';
import { differentObjects, digestOf, objectsOf, tablesOf } from './content.ts';
import { type CopiedTable, copyObjects, copyRows } from './content-sql.ts';

/** The name under which the new file is attached. */
export const COMPACTED = 'compacted';

/** Rows that are committed at once, at least: to commit 3,000 small tables one by one would take longer than to copy them. */
const ROWS_OF_A_COMMIT = 1_000_000;
/** Of objects that cannot be carried over an error names so many. */
const MAX_NAMED_OBJECTS = 10;

export interface CopyProgress {
  readonly phase: 'copying' | 'proving';
  /** The table that is worked on, with its schema. */
  readonly table: string;
  /** How many are done. */
  readonly done: number;
  readonly tables: number;
  /** How far the phase has got by now, from 0 to 1, as far as DuckDB can tell. */
  readonly share: () => number;
}

type OnProgress = (progress: CopyProgress) => void;

/** @throws StorageError that names what cannot be carried over; DuckDbError */
export async function copyAllObjects(engine: Engine, path: string): Promise<void> {
  await carried(path, 'What was added to it', engine.run(copyObjects(MIRROR, COMPACTED)));
  await proveObjects(engine, path);
}

/** The tables that were copied. @throws StorageError, DuckDbError */
export async function copyAllRows(
  engine: Engine,
  path: string,
  onProgress: OnProgress,
): Promise<readonly CopiedTable[]> {
  const tables = await tablesOf(engine, MIRROR);
  const tell = teller(engine, 'copying', tables, 1, onProgress);
  let uncommitted = 0;
  await engine.run('BEGIN');
  for (const table of tables) {
    tell(table);
    await carried(path, `The table ${shown(table)}`, engine.run(copyRows(MIRROR, COMPACTED, table)));
    uncommitted += table.rows;
    if (uncommitted < ROWS_OF_A_COMMIT) continue;
    await commit(engine);
    await engine.run('BEGIN');
    uncommitted = 0;
  }
  await commit(engine);
  return tables;
}

function commit(engine: Engine): Promise<void> {
  return durable('destination.compact-commit', () => engine.finish('COMMIT'));
}

/** @throws StorageError where the new file has anything else than the mirror; DuckDbError */
export async function proveSame(
  engine: Engine,
  path: string,
  tables: readonly CopiedTable[],
  onProgress: OnProgress,
): Promise<void> {
  await proveObjects(engine, path);
  const tell = teller(engine, 'proving', tables, 2, onProgress);
  for (const table of tables) {
    tell(table);
    const original = await digestOf(engine, MIRROR, table);
    tell(table);
    const copied = await digestOf(engine, COMPACTED, table);
    if (original.rowCount === copied.rowCount && original.digest === copied.digest) continue;
    const [had, has] = [original.rowCount, copied.rowCount].map(formatCount);
    throw new StorageError(
      `The copy of the table ${shown(table)} of ${path} is not what the table is (${has} rows of ${had}).`,
      { hint: 'Check the disk. The mirror is as it was.' },
    );
  }
}

/** To be called before each time that a table is read, which each is `reads` times in this phase. */
function teller(
  engine: Engine,
  phase: CopyProgress['phase'],
  tables: readonly CopiedTable[],
  reads: number,
  onProgress: OnProgress,
): (table: CopiedTable) => void {
  const all = Math.max(1, reads * tables.reduce((sum, { rows }) => sum + rows, 0));
  let [told, rowsBefore, reached] = [0, 0, 0];
  return (table) => {
    const before = rowsBefore;
    const share = (): number => {
      // What comes after the rows have been read begins to count anew.
      reached = Math.max(reached, Math.min(1, (before + Math.min(engine.rowsRead, table.rows)) / all));
      return reached;
    };
    const done = Math.floor(told / reads);
    onProgress({ phase, table: shown(table), done, tables: tables.length, share });
    told += 1;
    rowsBefore += table.rows;
  };
}

async function proveObjects(engine: Engine, path: string): Promise<void> {
  const different = differentObjects(await objectsOf(engine, MIRROR), await objectsOf(engine, COMPACTED));
  if (different.length === 0) return;
  const named = different.slice(0, MAX_NAMED_OBJECTS).join(', ');
  const rest =
    different.length > MAX_NAMED_OBJECTS ? ` and ${different.length - MAX_NAMED_OBJECTS} more` : '';
  throw notCarried(path, 'What was added to it', `${named}${rest} would be lost or changed`, null);
}

/** DuckDB refuses the statement itself where something that a person has made needs more than what is in the file. */
async function carried(path: string, what: string, copying: Promise<void>): Promise<void> {
  try {
    await copying;
  } catch (error) {
    if (!(error instanceof DuckDbError) || error.trouble !== 'statement') throw error;
    throw notCarried(path, what, firstLine(error).replace(/[.!]$/, ''), error);
  }
}

function notCarried(path: string, what: string, why: string, cause: DuckDbError | null): StorageError {
  return new StorageError(`The mirror ${path} cannot be compacted. ${what} cannot be carried over: ${why}.`, {
    hint: 'Take out by hand what is none of feed-sync’s own, compact, and put it in again. The mirror is as it was.',
    ...(cause === null ? {} : { cause }),
  });
}

function shown({ schema, name }: CopiedTable): string {
  return `${schema}.${name}`;
}
