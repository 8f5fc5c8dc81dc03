/**
 * Small changes of several tables that are alike, taken apart by the same statements: DuckDB needs ten times as long to
 * understand what is to be done with each column as to do it for a few rows.
 *
 * Only what is in order is folded here, and every check is the one that it has alone. Whatever is not in order is left to
 * `foldChanges`, which finds out whose it is and why.
 */

import { present } from '../../../lib/assert.ts';
import type { ChangesUnit } from '../../destination.ts';
import type { Engine, Row } from '../engine/engine.ts';
import { identifier, text } from '../engine/quoting.ts';
import { numberAt } from '../engine/rows.ts';
import { type ChangesColumns, changesColumns } from './columns.ts';
import { asFile } from './decoded.ts';
import { netOf } from './fold.ts';
import { findNames } from './names.ts';
import { type NetChange, netColumn, PRESENT } from './net.ts';
import { besidePages, MAX_BYTES_AT_ONCE, type Pages, spooledBytes, spooledPages } from './pages.ts';
import {
  areKeysDifferent,
  countOperations,
  haveDoubles,
  listedCounts,
  locate,
  proveCounts,
} from './proof.ts';
import { findRoundedPages } from './rounded.ts';
import { AS_IT_IS, selectDecoded } from './sql.ts';

/** The most units that are folded together: they are in order together, or each has to be looked at. */
export const MAX_UNITS_TOGETHER = 32;

const DECODED = `temp.${identifier('feed-sync: decoded')}`;

/** What the statements depend on, as text: units with the same can be folded together. Null: only alone. */
export async function foldedAlike(unit: ChangesUnit): Promise<string | null> {
  if ((await spooledBytes(unit.versions)) * MAX_UNITS_TOGETHER > MAX_BYTES_AT_ONCE) return null;
  return JSON.stringify(changesColumns(unit));
}

/** The net changes of the units, in their order. Null: each has to be folded alone. */
export async function foldTogether(
  engine: Engine,
  units: readonly ChangesUnit[],
): Promise<readonly NetChange[] | null> {
  try {
    return await foldOrdinary(engine, units);
  } catch {
    // Whatever it is, it comes again where it is due, and is told there.
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}

async function foldOrdinary(
  engine: Engine,
  units: readonly ChangesUnit[],
): Promise<readonly NetChange[] | null> {
  const columns = changesColumns(present(units[0], 'there are units'));
  const pages = await spooledPages(units.flatMap(({ versions }) => versions));
  const select = selectDecoded({ pages, columns }, 'usual');
  await engine.run(`CREATE OR REPLACE TEMP TABLE ${DECODED} AS ${select}`);
  try {
    if ((await engine.rows(findNames(DECODED, columns))).length > 0) return null;
    const tables = units.flatMap(({ versions }, table) => versions.map(() => table));
    const operations = await engine.rows(countOperations(DECODED, columns, tables));
    if (!areKeysDifferent(operations)) return null;
    if (haveDoubles(operations) && (await mayBeRounded(engine, pages))) return null;
    const nets = [];
    let firstStep = 0;
    for (const unit of units) {
      const end = firstStep + unit.versions.length;
      nets.push(await writeNetOf(engine, unit, columns, { operations, firstStep, end }));
      firstStep = end;
    }
    return nets;
  } finally {
    await engine.finish(`DROP TABLE ${DECODED}`);
  }
}

async function mayBeRounded(engine: Engine, { batches }: Pages): Promise<boolean> {
  for (const batch of batches) {
    if ((await engine.rows(findRoundedPages(batch))).length > 0) return true;
  }
  return false;
}

/** Which of the steps are those of a unit: from the first one to the one before the end. */
interface Share {
  readonly operations: readonly Row[];
  readonly firstStep: number;
  readonly end: number;
}

async function writeNetOf(
  engine: Engine,
  unit: ChangesUnit,
  columns: ChangesColumns,
  { operations, firstStep, end }: Share,
): Promise<NetChange> {
  const own = operations.flatMap((row): readonly Row[] => {
    const step = numberAt(row, 0);
    return step >= firstStep && step < end ? [[step - firstStep, ...row.slice(1)]] : [];
  });
  const counts = listedCounts(unit, own);
  proveCounts(unit, counts);
  const located = locate(unit, columns, own);
  const path = besidePages(unit.versions, 'net.parquet');
  const values = columns.columns.map((_, position) => netColumn(position));
  await asFile(() =>
    engine.run(`COPY (SELECT ${[...values, PRESENT].join(', ')} FROM ${DECODED}
      WHERE step >= ${firstStep} AND step < ${end}) TO ${text(path)} ${AS_IT_IS}`),
  );
  return netOf(counts, [path], located);
}
