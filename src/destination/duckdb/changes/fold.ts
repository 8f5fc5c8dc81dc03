/**
 * Reads the change pages of a backlog, decodes and checks every value, and folds them to their net change. All of it
 * is a handful of statements over files: nothing is kept in memory or in tables.
 */

import { durable } from '../../../lib/durable.ts';
import type { Counts } from '../../../model/version.ts';
import type { ChangesUnit } from '../../destination.ts';
import type { Engine } from '../engine/engine.ts';
import { numberAt, textAt } from '../engine/rows.ts';
import { changesColumns } from './columns.ts';
import { decodedRows, decodeVersions, readBefore } from './decoded.ts';
import { countPresent, findRepeatedKey, refuseRepeatedKey, writeFolded } from './keys.ts';
import { findNames, refuseNames } from './names.ts';
import type { NetChange } from './net.ts';
import { besidePages, spooledPages } from './pages.ts';
import {
  areKeysDifferent,
  countOperations,
  haveDoubles,
  type Located,
  listedCounts,
  locate,
  proveCounts,
} from './proof.ts';
import { oddGeometry, refusal, roundedNumber } from './refusals.ts';
import { findRounded, findRoundedPages } from './rounded.ts';
import type { Decoding } from './sql.ts';
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
  const before = readBefore(unit, columns);
  const rest = unit.versions.slice(before.reduce((sum, { versions }) => sum + versions, 0));
  const parts = rest.length === 0 ? before : [...before, await decodeVersions(engine, rest, columns)];
  const rowsOf = decodedRows(parts);
  refuseNames(unit, decoding, await engine.rows(findNames(rowsOf, columns)));
  if (parts.some(({ forms }) => forms === 'every')) await refuseOddGeometries(unit, decoding);
  const oneTable = unit.versions.map(() => 0);
  const operations = await engine.rows(countOperations(rowsOf, columns, oneTable));
  const counts = listedCounts(unit, operations);
  proveCounts(unit, counts);
  const located = locate(unit, columns, operations);
  if (haveDoubles(operations)) await refuseRounded(engine, unit, decoding);

  if (areKeysDifferent(operations))
    return netOf(
      counts,
      parts.map(({ path }) => path),
      located,
    );
  const [repeated] = await engine.rows(findRepeatedKey(rowsOf, columns));
  refuseRepeatedKey(unit, decoding, repeated);
  const path = besidePages(unit.versions, 'net.parquet');
  await durable('destination.fold-changes', () => engine.run(writeFolded(rowsOf, columns, path)));
  const [present = []] = await engine.rows(countPresent(path));
  return { ...located, paths: [path], rows: numberAt(present, 0), removals: numberAt(present, 1) };
}

/** Of changes that have a key each: nothing is to be folded. */
export function netOf(counts: readonly Counts[], paths: readonly string[], located: Located): NetChange {
  const rows = counts.reduce((sum, { added, changed }) => sum + added + changed, 0);
  const removals = counts.reduce((sum, { removed }) => sum + removed, 0);
  return { ...located, paths, rows, removals };
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
