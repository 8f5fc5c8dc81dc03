/** The content that the service has for the version of a table, in the stage, beside the table: for `verify --deep` and repairs. */

import type { RowDifference } from '../../model/commits.ts';
import type { ObservedColumn, VersionContent } from '../../model/write-jobs.ts';
import { netColumn } from '../../staging/changes/columns.ts';
import { identifier, numberAt, tuple } from '../../staging/engine/sql.ts';
import { type ContentRows, proveExpected } from '../../staging/version-content.ts';
import { qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { type Content, readContent, selectHashes } from './content.ts';
import type { Turn } from './job.ts';
import { analyzeStage, makeStage, stageOf, stageWithColumns, type Target } from './stage.ts';
import { sridOfColumn } from './tables.ts';
import { hasRepeatedKey } from './write-rows.ts';

/**
 * Stages the content of a version. `columns` are those of the table. @throws DataError when the content is not what the service states
 * about the version.
 */
export async function stageContent(
  { transaction, postgis, copy }: Pick<Turn, 'transaction' | 'postgis' | 'copy'>,
  target: Target,
  columns: readonly ObservedColumn[],
  content: VersionContent,
  { select, mostRows }: ContentRows,
): Promise<Content> {
  await makeStage(transaction, target, postgis);
  const copied = columns.map((column, position) => {
    return { value: `rows.${netColumn(position)}`, type: column.type, srid: sridOfColumn(column) };
  });
  const { isDistributed } = target;
  await copy(stageWithColumns(target), {
    columns: copied,
    from: `(${select}) AS rows`,
    mostRows,
    isDistributed,
  });
  const staged = await readContent(transaction, stageOf(target), target.columns);
  const keys = await countKeys(transaction, target);
  proveExpected(content, { rowCount: staged.rowCount, ...(keys ?? everyRow(staged)) });
  await analyzeStage(transaction, target);
  return staged;
}

function everyRow({ rowCount }: Content) {
  return { keyedRows: rowCount, keys: rowCount };
}

/** Null for a table without keys. */
async function countKeys(transaction: Transaction, target: Target) {
  const names = target.columns.flatMap(({ role, columnName }) =>
    role === 'key' ? identifier(columnName) : [],
  );
  if (names.length === 0) return null;
  const whole = names.map((name) => `${name} IS NOT NULL`).join(' AND ');
  const [row = []] = await transaction.rows(
    `SELECT count(*) FILTER (WHERE ${whole}), count(DISTINCT ${tuple(names)}) FROM ${stageOf(target)}`,
  );
  return { keyedRows: numberAt(row, 0), keys: numberAt(row, 1) };
}

/** Returns whether each row of the table has a key of its own, so that rows are compared by it. */
export async function hasKeys(transaction: Transaction, target: Target): Promise<boolean> {
  return target.columns.some(({ role }) => role === 'key') && !(await hasRepeatedKey(transaction, target));
}

/** Compares whole rows by their hashes, as multisets: for a table without keys, or one whose keys are repeated. */
export async function compareWholeRows(transaction: Transaction, target: Target): Promise<RowDifference> {
  const side = (table: string, sign: number) =>
    `SELECT h, ${sign} AS sign FROM (${selectHashes(table, target.columns)}) AS side`;
  const [row = []] = await transaction.rows(`SELECT coalesce(sum(greatest(excess, 0)), 0)::bigint,
      coalesce(sum(greatest(-excess, 0)), 0)::bigint
    FROM (SELECT sum(sign) AS excess FROM (${side(stageOf(target), 1)} UNION ALL ${side(qualified(target), -1)}) AS sides
      GROUP BY h) AS counted`);
  return { added: numberAt(row, 0), changed: null, removed: numberAt(row, 1) };
}
