/**
 * Retires the table of a dataset inside the transaction it is given: guard, copy or drop or leave. A copy
 * is what the table holds, also where somebody changed it by hand.
 */

import type { Retirement, RetirementUnit } from '../../destination.ts';
import { entryOfRetirement, type RetiredTable } from '../books/book-entry.ts';
import { commentOnColumn, commentOnTable } from '../books/comment-sql.ts';
import { type Current, isPlannedFrom } from '../books/current-table.ts';
import { archived, createArchive, mirrored, selectTableNames } from '../books/mirror-schema.ts';
import type { Engine } from '../engine/engine.ts';
import { integer } from '../engine/quoting.ts';
import { numberAt, textAt } from '../engine/rows.ts';
import { runTogether } from '../engine/run-together.ts';
import type { Deed } from '../units/prepared.ts';
import { copyOf, countRowsOf, dropTable, selectComments } from './retire-sql.ts';

type Retire = (
  engine: Engine,
  unit: RetirementUnit,
  tableName: string,
  appliedAt: Date,
) => Promise<RetiredTable>;

/** Complete by its type. */
const RETIRE: Readonly<Record<Retirement, Retire>> = { archive, drop, keep };

/** Null: the mirror is no longer what the unit was planned from, and nothing was done. */
export async function retireTable(
  engine: Engine,
  unit: RetirementUnit,
  { tableName, live, standing }: Current,
  appliedAt: Date,
): Promise<Deed | null> {
  const { how, plannedFrom } = unit;
  if (live === null || !isPlannedFrom(live, plannedFrom)) return null;
  // A table that somebody dropped by hand is gone, however it was to be retired.
  const retired =
    standing === null
      ? { tableName: null, removedRows: plannedFrom.rowCount }
      : await RETIRE[how](engine, unit, tableName, appliedAt);
  return {
    done: { kind: 'retired', table: placeOf(retired.tableName, how === 'keep') },
    entry: entryOfRetirement(unit, retired, appliedAt),
  };
}

/** A retired table with its schema, as people write it. */
export function placeOf(tableName: string | null, isKept: boolean): string | null {
  return tableName === null ? null : `${isKept ? 'main' : 'archived'}.${tableName}`;
}

/** DuckDB moves no table to another schema: it is copied, with its comments, and dropped. */
async function archive(
  engine: Engine,
  { datasetId, plannedFrom }: RetirementUnit,
  tableName: string,
  appliedAt: Date,
): Promise<RetiredTable> {
  await engine.run(createArchive());
  const taken = new Set((await engine.rows(selectTableNames('archived'))).map((row) => textAt(row, 0)));
  const copyName = archivedNameFor(tableName, plannedFrom.version, appliedAt, taken);
  const copy = archived(copyName);
  const columnComments = await engine.rows(selectComments(tableName));
  await engine.run(copyOf(tableName, copy));
  await runTogether(engine, [
    commentOnTable(copy, datasetId),
    ...columnComments.map((row) => commentOnColumn(copy, textAt(row, 0), textAt(row, 1))),
  ]);
  await engine.run(dropTable(tableName));
  return { tableName: copyName, removedRows: await countRows(engine, copy) };
}

async function drop(engine: Engine, _unit: RetirementUnit, tableName: string): Promise<RetiredTable> {
  const removedRows = await countRows(engine, mirrored(tableName));
  await engine.run(dropTable(tableName));
  return { tableName: null, removedRows };
}

async function keep(_engine: Engine, _unit: RetirementUnit, tableName: string): Promise<RetiredTable> {
  return { tableName, removedRows: 0 };
}

/** `<table>__<version>_<time in UTC>`, by which the copies of a table sort; a name that is taken gets `_2`, `_3`, … */
export function archivedNameFor(
  tableName: string,
  version: number,
  at: Date,
  taken: ReadonlySet<string>,
): string {
  const time = at
    .toISOString()
    .replace(/\.\d+Z$/, 'z')
    .replaceAll(/[-:]/g, '')
    .toLowerCase();
  const plain = `${tableName}__${integer(version)}_${time}`;
  for (let number = 2, name = plain; ; number += 1) {
    if (!taken.has(name)) return name;
    name = `${plain}_${number}`;
  }
}

async function countRows(engine: Engine, table: string): Promise<number> {
  return numberAt((await engine.rows(countRowsOf(table)))[0] ?? [], 0);
}
