/**
 * Reads the change pages of a backlog, decodes and checks every value, and folds them to their net change. All of it
 * is a handful of statements over files: nothing is kept in memory or in tables.
 */

import { durable } from '../../../lib/durable.ts';
import type { Counts } from '../../../model/version.ts';
import type { ChangesUnit } from '../../destination.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { numberAt, textAt } from '../engine/rows.ts';
import { readParquet } from '../snapshot/parquet-file.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { changesColumns } from './columns.ts';
import type { Forms } from './geometry.ts';
import { countPresent, findRepeatedKey, refuseRepeatedKey, writeFolded } from './keys.ts';
import { findNames, refuseNames } from './names.ts';
import type { NetChange } from './net.ts';
import { besidePages, spooledPages } from './pages.ts';
import {
  areKeysDifferent,
  countOperations,
  haveDoubles,
  listedCounts,
  locate,
  proveCounts,
} from './proof.ts';
import { oddGeometry, refusal, roundedNumber } from './refusals.ts';
import { findRounded, findRoundedPages } from './rounded.ts';
import { type Decoding, writeDecoded } from './sql.ts';
import { findOddGeometry } from './wkb.ts';

/**
 * Folds the changes of all versions of the unit to the net change per key, in a file beside the first page.
 *
 * @throws BadChangesError where a value, a key or an operation is not what it must be, naming version, page, row and column.
 * @throws UnknownColumnsError where rows hold columns that the schema does not know.
 * @throws UnusableChangesError where the snapshot has to be loaded instead: counts that do not add up, GeoJSON for
 * a table in another coordinate system, columns that rows or table lack.
 */
export async function foldChanges(engine: Engine, unit: ChangesUnit): Promise<NetChange> {
  const columns = changesColumns(unit);
  const pages = await spooledPages(unit.versions);
  try {
    return await fold(engine, unit, { pages, columns });
  } catch (error) {
    throw await refusal(engine, unit, { pages, columns }, error);
  }
}

async function fold(engine: Engine, unit: ChangesUnit, decoding: Decoding): Promise<NetChange> {
  const { columns } = decoding;
  const decoded = besidePages(unit.versions, 'decoded.parquet');
  const rowsOf = readParquet([decoded]);
  const forms = await asFile(() => decode(engine, decoding, decoded));
  refuseNames(unit, decoding, await engine.rows(findNames(rowsOf, columns)));
  if (forms === 'every') await refuseOddGeometries(unit, decoding);
  const oneTable = unit.versions.map(() => 0);
  const operations = await engine.rows(countOperations(rowsOf, columns, oneTable));
  const counts = listedCounts(unit, operations);
  proveCounts(unit, counts);
  const after = locate(unit, columns, operations);
  if (haveDoubles(operations)) await refuseRounded(engine, unit, decoding);

  if (areKeysDifferent(operations)) return netOf(counts, decoded, after);
  const [repeated] = await engine.rows(findRepeatedKey(decoded, columns));
  refuseRepeatedKey(unit, decoding, repeated);
  const path = besidePages(unit.versions, 'net.parquet');
  await durable('destination.fold-changes', () => engine.run(writeFolded(decoded, columns, path)));
  const [present = []] = await engine.rows(countPresent(path));
  return { path, rows: numberAt(present, 0), removals: numberAt(present, 1), columns: after };
}

/** Of changes that have a key each: nothing is to be folded. */
export function netOf(counts: readonly Counts[], path: string, columns: readonly PlannedColumn[]): NetChange {
  const rows = counts.reduce((sum, { added, changed }) => sum + added + changed, 0);
  const removals = counts.reduce((sum, { removed }) => sum + removed, 0);
  return { path, rows, removals, columns };
}

/** Writes decoded changes into a file of their unit. */
export function asFile<T>(write: () => Promise<T>): Promise<T> {
  return durable('destination.decode-changes', write);
}

/** Most geometries are written in one way, so that is tried first. */
async function decode(engine: Engine, decoding: Decoding, path: string): Promise<Forms> {
  try {
    await engine.run(writeDecoded(decoding, 'usual', path));
    return 'usual';
  } catch (error) {
    const hasGeometry = decoding.columns.columns.some(({ type }) => type === 'geometry');
    if (!hasGeometry || !(error instanceof DuckDbError) || error.trouble !== 'statement') throw error;
    await engine.run(writeDecoded(decoding, 'every', path));
    return 'every';
  }
}

async function refuseOddGeometries(unit: ChangesUnit, { pages, columns }: Decoding): Promise<void> {
  for (const page of pages.all) {
    const found = await findOddGeometry(page, columns);
    if (found !== null) throw oddGeometry(unit, page, found);
  }
}

async function refuseRounded(engine: Engine, unit: ChangesUnit, { pages, columns }: Decoding): Promise<void> {
  for (const batch of pages.batches) {
    const paths = (await engine.rows(findRoundedPages(batch))).map((row) => textAt(row, 0));
    for (const page of batch.filter(({ path }) => paths.includes(path))) {
      const found = await findRounded(page, columns);
      if (found !== null) throw roundedNumber(unit, page, found);
    }
  }
}
