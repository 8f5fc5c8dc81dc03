/** Reads a slice of a file for a scrub, in another process: damage that ends the reading process does not end this one. */

import { InterruptedError } from '../../../model/errors.ts';
import type { ScrubbedSlice, ScrubPosition } from '../../../model/scrub.ts';
import { fileState } from '../mirror-file.ts';
import { child, type ExamineOptions, isCatalogTable, refuseHindrance } from './examine.ts';

/** One group of rows is read at a time. */
const MAX_MEMORY_BYTES = 256_000_000;

/** No row of a table has this place. */
const BEHIND_ALL = Number.MAX_SAFE_INTEGER;

/**
 * Reads a slice of the mirror. Once the signal is aborted, it resolves to what was read until then. @throws StorageError where something
 * else than the file is in the way, as a full disk.
 */
export async function scrubSlice(
  { signal, ...options }: ExamineOptions,
  from: ScrubPosition | null,
): Promise<ScrubbedSlice> {
  let position = from;
  try {
    if ((await fileState(options.path)) !== 'database') return { position, isAtEnd: true, damage: null };
    const memoryLimitBytes = Math.min(options.memoryLimitBytes, MAX_MEMORY_BYTES);
    const task = { ...options, memoryLimitBytes, skip: [], copyTo: null, scrubFrom: from };
    const end = await child(task, signal, (passed) => {
      position = passed;
    });
    const damaged = end.read.find(({ state }) => state === 'damaged');
    if (damaged !== undefined) {
      const { name: tableName, why } = damaged;
      const damage = { tableName, endsProcess: false, why: why ?? 'damaged' };
      return { position: { table: tableName, row: BEHIND_ALL }, isAtEnd: false, damage };
    }
    if (end.why === null) return { position, isAtEnd: end.isAtEnd, damage: null };
    await refuseHindrance(options.path, end);
    if (!end.isCrash && !end.isDamage) return { position, isAtEnd: false, damage: null };
    const { reading, isCrash: endsProcess, why } = end;
    if (reading === null || isCatalogTable(reading))
      return { position, isAtEnd: false, damage: { tableName: null, endsProcess, why } };
    const damage = { tableName: reading.name, endsProcess, why };
    return { position: { table: reading.name, row: BEHIND_ALL }, isAtEnd: false, damage };
  } catch (error) {
    if (error instanceof InterruptedError && signal?.aborted === true)
      return { position, isAtEnd: false, damage: null };
    throw error;
  }
}
