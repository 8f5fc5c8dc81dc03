/** What a copy of the mirror must have in common with it: the books, not the rows. Cheap, however large the mirror is. */

import type { HistoryPosition } from '../../../model/history.ts';
import type { Held } from '../../destination.ts';
import { MIRROR, selectTableNames } from '../books/mirror-schema.ts';
import { hasSchema, readHeld } from '../books/mirror-state.ts';
import { readPosition } from '../books/read-history.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import { Engine } from '../engine/engine.ts';
import { textAt } from '../engine/rows.ts';
import { fileState } from '../window/quarantine.ts';

/** The memory for looking at them. */
const MAX_LOOKING_BYTES = 256_000_000;

export interface Books {
  readonly position: HistoryPosition;
  readonly held: Held;
  /** The names of all tables and views of the schema `main`, in order. */
  readonly tables: readonly string[];
}

export interface LookingOptions {
  readonly memoryLimitBytes: number;
  readonly temporaryDirectory: string;
}

/** Null where the attached database is no mirror, or one in which nothing was ever written. */
export async function booksOf(engine: Engine, path: string): Promise<Books | null> {
  if (!(await hasSchema(engine))) return null;
  const tables = (await engine.rows(selectTableNames('main'))).map((row) => textAt(row, 0));
  return {
    position: await readPosition(engine),
    held: await readHeld(engine, path),
    tables: tables.toSorted(),
  };
}

/** Of the file at the path, opened for reading. `foreign`: it can be read, and has no books. */
export async function booksAt(
  path: string,
  { memoryLimitBytes, temporaryDirectory }: LookingOptions,
): Promise<Books | 'unreadable' | 'foreign'> {
  if ((await fileState(path)) !== 'database') return 'unreadable';
  let engine: Engine | null = null;
  try {
    engine = await Engine.open({
      memoryLimitBytes: Math.min(memoryLimitBytes, MAX_LOOKING_BYTES),
      threads: 1,
      temporaryDirectory,
      directories: null,
      readOnlyDatabase: { path, name: MIRROR },
    });
    return (await booksOf(engine, path)) ?? 'foreign';
  } catch (error) {
    if (error instanceof DuckDbError) return 'unreadable';
    throw error;
  } finally {
    engine?.close();
  }
}
