/**
 * Counts the mirror in turns: the file is opened for a moment, let go of, and opened again after a pause, so that a
 * running instance gets its own turns to commit. Each turn reads books and tables of one moment.
 */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { CountedDataset } from '../../destination/duckdb/reading/count-tables.ts';
import { type MirrorReader, openReader } from '../../destination/duckdb/reading/reader.ts';
import { StorageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';

type ReadingContext = Pick<Context, 'clock' | 'random' | 'signal'>;

/** After so long no further table is begun. A table is counted as a whole, however long that takes. */
const MAX_TURN_MS = 2_000;
const MAX_TURN_TABLES = 100;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

/**
 * What `use` makes of the mirror, which is let go of then.
 * @throws StorageError where there is no mirror, or it cannot be read.
 * @throws BusyError where a writer keeps it for longer than `lock.wait`.
 */
export async function readingMirror<T>(
  configuration: LocalConfiguration,
  { clock, random, signal }: ReadingContext,
  use: (reader: MirrorReader) => Promise<T>,
): Promise<T> {
  const { path } = configuration.destination;
  const options = { path, waitMs: configuration.lock.waitMs, ...configuration.duckdb, clock, random, signal };
  const reader = await openReader(options);
  if (reader === null) {
    throw new StorageError(`There is no mirror at ${path}.`, { hint: 'Make it with: feed-sync once' });
  }
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** Those of the datasets that the mirror still holds when their turn comes, by dataset id. */
export async function countMirror(
  datasetIds: readonly string[],
  configuration: LocalConfiguration,
  context: ReadingContext,
): Promise<ReadonlyMap<string, CountedDataset>> {
  const { clock, signal } = context;
  const counted = new Map<string, CountedDataset>();
  for (let next = 0; next < datasetIds.length; ) {
    if (next > 0) await clock.sleep(PAUSE_MS, signal);
    const ids = datasetIds.slice(next, next + MAX_TURN_TABLES);
    const turn = await readingMirror(configuration, context, (reader) => {
      const endMs = clock.monotonicMs() + MAX_TURN_MS;
      return reader.count(ids, () => clock.monotonicMs() >= endMs);
    });
    for (const one of turn) counted.set(one.held.datasetId, one);
    const last = turn.at(-1)?.held.datasetId;
    next += last === undefined ? ids.length : ids.indexOf(last) + 1;
  }
  return counted;
}
