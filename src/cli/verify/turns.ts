/** Reads the tables of the mirror in turns, between which a writer can open the file. */

import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { ComparedPastTable, PastTables } from '../../destination/past-tables.ts';
import type { CountedDataset } from '../../destination/reader.ts';
import { type MirrorPlace, usingMirror } from '../../reporting/stores.ts';

/** No further table is started after this time. A table is counted as a whole, however long that takes. */
const MAX_TURN_MS = 2_000;
const MAX_TURN_TABLES = 100;
/** Longer than a writer waits between two attempts to open the file. */
const PAUSE_MS = 1_000;

/** Returns, by dataset id, the datasets that are still in the mirror when they are counted. */
export async function countMirror(
  datasetIds: readonly string[],
  configuration: LocalConfiguration,
  place: MirrorPlace,
): Promise<ReadonlyMap<string, CountedDataset>> {
  const { clock, signal } = place;
  const counted = new Map<string, CountedDataset>();
  for (let next = 0; next < datasetIds.length; ) {
    if (next > 0) await clock.sleep(PAUSE_MS, signal);
    const ids = datasetIds.slice(next, next + MAX_TURN_TABLES);
    const turn = await usingMirror(configuration, place, (reader) => {
      const endMs = clock.monotonicMs() + MAX_TURN_MS;
      return reader.count(ids, () => clock.monotonicMs() >= endMs);
    });
    for (const one of turn) counted.set(one.observed.datasetId, one);
    const last = turn.at(-1)?.observed.datasetId;
    next += last === undefined ? ids.length : ids.indexOf(last) + 1;
  }
  return counted;
}

/** Compares undo logs, frozen and archived tables: those of all datasets where `datasetIds` is null. */
export async function comparePast(
  tables: Omit<PastTables, 'skipped'>,
  configuration: LocalConfiguration,
  place: MirrorPlace,
): Promise<readonly ComparedPastTable[]> {
  const { clock, signal } = place;
  const all: ComparedPastTable[] = [];
  for (;;) {
    const turn = await usingMirror(configuration, place, (reader) => {
      const endMs = clock.monotonicMs() + MAX_TURN_MS;
      return reader.comparePast({ ...tables, skipped: all.length }, () => clock.monotonicMs() >= endMs);
    });
    all.push(...turn.compared);
    if (turn.isEnd) return all;
    await clock.sleep(PAUSE_MS, signal);
  }
}
