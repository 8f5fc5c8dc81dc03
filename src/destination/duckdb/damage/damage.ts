/**
 * Finds the tables that a disk has damaged. DuckDB's error names a block and no table, so every table is read to its end: that is
 * dear, and done only after damage was met.
 */

import { statOrNull } from '../../../lib/files.ts';
import { isPinned, type ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
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

/**
 * Returns null where there is no mirror. @throws QuarantinedError where a table of the catalog cannot be read: without it nobody
 * knows what the other tables hold.
 */
export async function findDamage(
  sessions: WriteSessions,
  path: string,
): Promise<readonly DamagedTable[] | null> {
  const damaged: DamagedTable[] = [];
  let left: readonly CopiedTable[] | null = null;
  for (;;) {
    const found = await sessions.read(async (engine) => {
      left ??= (await tablesOf(engine, MIRROR)).filter((table) => !isKeptDamaged(table));
      return await firstUnreadable(engine, path, left);
    });
    if (found === null) return null;
    if (found.damaged === null) return damaged;
    // An instance that met damage may refuse everything from then on.
    damaged.push(found.damaged);
    left = found.left;
  }
}

/** `left`: the tables that were not read yet. */
async function firstUnreadable(
  engine: Engine,
  path: string,
  tables: readonly CopiedTable[],
): Promise<{ readonly damaged: DamagedTable | null; readonly left: readonly CopiedTable[] }> {
  const { datasets } = await readObservedState(engine, path);
  const past = await readPastTables(engine, await readFormat(engine, path), null);
  for (const [index, table] of tables.entries()) {
    const error = await errorOfReading(engine, path, table);
    if (error === null) continue;
    if (table.schema === CATALOG_SCHEMA) throw error;
    const isLive = ({ tableName }: ObservedTable): boolean =>
      table.schema === 'main' && tableName === table.name;
    const observed = [...datasets.values()].find(isLive) ?? null;
    const damaged = {
      tableName: `${table.schema}.${table.name}`,
      datasetId: observed?.datasetId ?? null,
      pastOf:
        past.find(({ schema, name }) => schema === table.schema && name === table.name)?.datasetId ?? null,
      isPinned: isPinned(observed),
      why: firstLine(error),
    };
    return { damaged, left: tables.slice(index + 1) };
  }
  return { damaged: null, left: [] };
}

/**
 * Returns DuckDB's error where the table of the file at the path cannot be read to its end. @throws DuckDbError for any other reason.
 */
export async function errorOfReading(
  engine: Engine,
  path: string,
  table: CopiedTable,
): Promise<DuckDbError | null> {
  try {
    await digestOf(engine, MIRROR, table);
    return null;
  } catch (thrown) {
    const error = await asRead(thrown, path);
    if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
    return error;
  }
}

/** No tables of hashes or of rows that a reading needs take one block of this size. */
const LARGE_BLOCK_BYTES = 16_000_000;
/** DuckDB rounds the size of a block. */
const FAR_LARGER = 2;

/**
 * Returns the error of whatever has read the file at the path. A value that fills blocks is stored as it is, so a length far beyond
 * that of the file and its log is damaged: a block for it is no lack of memory.
 */
export async function asRead(thrown: unknown, path: string): Promise<unknown> {
  if (!(thrown instanceof DuckDbError)) return thrown;
  const bytes = lackedBlockBytes(thrown);
  if (bytes < LARGE_BLOCK_BYTES) return thrown;
  const files = await Promise.all([path, path + WAL_SUFFIX].map(statOrNull));
  const stored = files.reduce((sum, file) => sum + (file?.size ?? 0), 0);
  return bytes < FAR_LARGER * stored
    ? thrown
    : new DuckDbError('unreadable', thrown.endsInstance, thrown.message, thrown);
}
