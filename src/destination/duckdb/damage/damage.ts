/**
 * Finds the tables that a disk has damaged. DuckDB's error names a block and no table, so every table is read to its end: that is
 * dear, and done only after damage was met.
 */

import { statOrNull } from '../../../lib/files.ts';
import { isPinned, type ObservedTable } from '../../../model/write-jobs.ts';
import { Engine } from '../../../staging/engine/engine.ts';
import { DuckDbError, firstLine, lackedBlockBytes } from '../../../staging/engine/errors.ts';
import type { DamagedTable } from '../../destination.ts';
import { readFormat } from '../catalog/format.ts';
import { readObservedState } from '../catalog/observed-state.ts';
import { CATALOG_SCHEMA, MIRROR } from '../catalog/schema.ts';
import { type CopiedTable, digestOf, tablesOf } from '../copy-content.ts';
import { IS_DAMAGE } from '../count-tables.ts';
import { WAL_SUFFIX } from '../mirror-file.ts';
import { isKeptDamaged, readPastTables } from '../past/past-tables.ts';
import type { WriteSessions } from '../write-session.ts';

export interface ReadingOptions {
  readonly memoryLimitBytes: number;
  readonly temporaryDirectory: string;
}

/**
 * Returns null where there is no mirror. @throws QuarantinedError where a table of the catalog cannot be read: without it nobody
 * knows what the other tables hold.
 */
export async function findDamage(
  sessions: WriteSessions,
  path: string,
  reading: ReadingOptions,
): Promise<readonly DamagedTable[] | null> {
  const damaged: DamagedTable[] = [];
  let left: readonly CopiedTable[] | null = null;
  for (;;) {
    const found = await sessions.read(async (engine) => {
      left ??= (await tablesOf(engine, MIRROR)).filter((table) => !isKeptDamaged(table));
      return await firstUnreadable(engine, path, left);
    });
    if (found === null) return null;
    if (found.table === null) return damaged;
    // An instance that met damage may refuse everything from then on.
    const why = found.why ?? (await whyUnreadable(path, found.table, reading));
    if (why !== null) damaged.push({ ...found.damaged, why });
    left = found.left;
  }
}

type Unreadable =
  | {
      readonly table: CopiedTable;
      readonly damaged: Omit<DamagedTable, 'why'>;
      /** Null: it was read, with a text that is far longer than the file. */
      readonly why: string | null;
      /** The tables that were not read yet. */
      readonly left: readonly CopiedTable[];
    }
  | { readonly table: null };

async function firstUnreadable(
  engine: Engine,
  path: string,
  tables: readonly CopiedTable[],
): Promise<Unreadable> {
  const { datasets } = await readObservedState(engine, path);
  const past = await readPastTables(engine, await readFormat(engine, path), null);
  for (const [index, table] of tables.entries()) {
    const { error, longestBytes } = await readWhole(engine, path, table);
    if (error === null && !(await isFarBeyond(longestBytes, path))) continue;
    if (error !== null && table.schema === CATALOG_SCHEMA) throw error;
    const isLive = ({ tableName }: ObservedTable): boolean =>
      table.schema === 'main' && tableName === table.name;
    const observed = [...datasets.values()].find(isLive) ?? null;
    const damaged = {
      tableName: `${table.schema}.${table.name}`,
      datasetId: observed?.datasetId ?? null,
      pastOf:
        past.find(({ schema, name }) => schema === table.schema && name === table.name)?.datasetId ?? null,
      isPinned: isPinned(observed),
    };
    return { table, damaged, why: error === null ? null : firstLine(error), left: tables.slice(index + 1) };
  }
  return { table: null };
}

/** The memory that nearly every reader has. */
export const LITTLE_MEMORY_BYTES = 256_000_000;

/**
 * Reads a table with little memory. A text that is far longer than the file may be compressed, and DuckDB then lacks no block; or its
 * length is damaged, and with much memory DuckDB reads so much of other values. Every reader of the file has to judge alike.
 */
async function whyUnreadable(
  path: string,
  table: CopiedTable,
  { memoryLimitBytes, temporaryDirectory }: ReadingOptions,
): Promise<string | null> {
  const engine = await Engine.open({
    memoryLimitBytes: Math.min(memoryLimitBytes, LITTLE_MEMORY_BYTES),
    threads: 1,
    temporaryDirectory,
    directories: null,
    readOnlyDatabase: { path, name: MIRROR },
  });
  try {
    const { error } = await readWhole(engine, path, table);
    return error === null ? null : firstLine(error);
  } catch (error) {
    if (error instanceof DuckDbError && error.fault === 'out-of-memory') return null;
    throw error;
  } finally {
    engine.close();
  }
}

/** Returns DuckDB's error where the table of the file at the path cannot be read to its end. @throws DuckDbError for any other reason. */
export async function errorOfReading(
  engine: Engine,
  path: string,
  table: CopiedTable,
): Promise<DuckDbError | null> {
  return (await readWhole(engine, path, table)).error;
}

async function readWhole(
  engine: Engine,
  path: string,
  table: CopiedTable,
): Promise<{ readonly error: DuckDbError | null; readonly longestBytes: number }> {
  try {
    const { longestBytes } = await digestOf(engine, MIRROR, table);
    return { error: null, longestBytes };
  } catch (thrown) {
    const error = await asRead(thrown, path);
    if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
    return { error, longestBytes: 0 };
  }
}

/** No tables of hashes or of rows that a reading needs take one block of this size. */
const LARGE_BLOCK_BYTES = 16_000_000;
/** DuckDB rounds the size of a block. */
const FAR_LARGER = 2;

/** Returns the error of whatever has read the file at the path: a block for an impossible value is no lack of memory. */
export async function asRead(thrown: unknown, path: string): Promise<unknown> {
  if (!(thrown instanceof DuckDbError)) return thrown;
  return (await isFarBeyond(lackedBlockBytes(thrown), path))
    ? new DuckDbError('unreadable', thrown.endsInstance, thrown.message, thrown)
    : thrown;
}

/**
 * Returns whether a block for so long a value is impossible. A value that fills blocks and is not compressed is stored as it is, so a
 * length far beyond that of the file and its log is damaged.
 */
async function isFarBeyond(bytes: number, path: string): Promise<boolean> {
  if (bytes < LARGE_BLOCK_BYTES) return false;
  const files = await Promise.all([path, path + WAL_SUFFIX].map(statOrNull));
  return bytes >= FAR_LARGER * files.reduce((sum, file) => sum + (file?.size ?? 0), 0);
}
