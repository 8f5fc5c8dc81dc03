/**
 * Compares the tables of the past with their recorded checksums: undo logs, the tables that froze with them, and archived tables. One
 * that was emptied or altered by hand must not pass for what was committed.
 */

import type { Engine } from '../../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../../staging/engine/errors.ts';
import { text } from '../../../staging/engine/sql.ts';
import { checksumAt } from '../../catalog/cells.ts';
import {
  type ComparedPast,
  type ComparedPastTable,
  ofDatasets,
  type PastTable,
  type PastTables,
  pastTableAt,
  stateOfPast,
} from '../../past-tables.ts';
import { readFormat } from '../catalog/format.ts';
import { catalogOf, catalogTable, MIRROR } from '../catalog/schema.ts';
import { CHECKSUM_VERSION, SUM_OF_ALL_HASHES } from '../checksum.ts';
import { placeOf } from '../copy-content.ts';
import { IS_DAMAGE } from '../count-tables.ts';
import { knowsLogs } from './past-logs.ts';

/** Follows the name of a table that is kept though it cannot be read. */
export const DAMAGED_SUFFIX = '__damaged';

/** Returns whether the table was found damaged before, and is kept as it is: the service does not have it. */
export function isKeptDamaged({ schema, name }: Pick<PastTable, 'schema' | 'name'>): boolean {
  return (schema === 'archived' || schema === 'history') && name.includes(DAMAGED_SUFFIX);
}

/** Compares at least one table, and further ones until `isEnough`; `isEnd`: none is left. @throws DuckDbError */
export async function comparePastTables(
  engine: Engine,
  path: string,
  { datasetIds, skipped, endingProcess }: PastTables,
  isEnough: () => boolean,
): Promise<ComparedPast> {
  await engine.run('BEGIN TRANSACTION READ ONLY');
  const tables = (await readPastTables(engine, await readFormat(engine, path), datasetIds)).slice(skipped);
  const compared: ComparedPastTable[] = [];
  for (const table of tables) {
    const why = endingProcess?.get(`${table.schema}.${table.name}`) ?? null;
    const one: ComparedPastTable =
      why === null
        ? await comparePastTable(engine, table)
        : { ...table, state: 'damaged', checksum: null, damage: why };
    compared.push(one);
    // An instance that met damage may refuse everything from then on.
    if (one.damage !== null) return { compared, isEnd: compared.length === tables.length };
    if (isEnough()) break;
  }
  await engine.run('ROLLBACK');
  return { compared, isEnd: compared.length === tables.length };
}

/**
 * Reads the tables of the past. An archived table that is gone is left out: operators drop those that they no longer need. So is one that
 * is kept though damaged.
 */
export async function readPastTables(
  engine: Engine,
  format: number | null,
  datasetIds: readonly string[] | null,
): Promise<readonly PastTable[]> {
  if (format === null) return [];
  const hasLogs = await knowsLogs(engine, format);
  const selects = [
    ...(hasLogs ? [selectLogs(format), selectFrozen(format)] : []),
    selectArchived(format, hasLogs),
  ];
  const rows = await engine.rows(
    `SELECT * FROM (${selects.join(' UNION ALL ')}) WHERE ${ofDatasets(datasetIds)} ORDER BY ALL`,
  );
  return rows.map(pastTableAt).filter((table) => !isKeptDamaged(table));
}

function selectLogs(format: number): string {
  return `SELECT dataset_id, 'log' AS kind, 'history' AS schema_name, log_name AS name, log_name, checksum, checksum_version
    FROM ${catalogOf(format, 'history_logs')}`;
}

/** A view in schema `history` stands for a retired table that was kept in its place. */
function selectFrozen(format: number): string {
  return `SELECT dataset_id, 'frozen', 'history', table_name[9:], log_name, table_checksum, table_checksum_version
    FROM ${catalogOf(format, 'history_logs')} WHERE frozen_commit IS NOT NULL AND table_name LIKE 'history.%'
      AND table_name[9:] NOT IN (SELECT view_name FROM duckdb_views()
        WHERE database_name = ${text(MIRROR)} AND schema_name = 'history')`;
}

/** A retired table that was kept in its place has its own name still. */
function selectArchived(format: number, hasLogs: boolean): string {
  const logName = hasLogs
    ? `(SELECT any_value(log_name) FROM ${catalogTable('history_logs')} AS logs
        JOIN ${catalogTable('commits')} AS commits ON commit_number = frozen_commit
        WHERE logs.dataset_id = kept.dataset_id AND applied_at = archived_at)`
    : 'NULL';
  return `SELECT kept.dataset_id, 'archived', schema_name, kept.table_name, ${logName}, checksum, checksum_version
    FROM (SELECT * FROM ${catalogOf(format, 'archived')}) AS kept JOIN ${catalogTable('names')} AS names USING (dataset_id)
      JOIN duckdb_tables() AS tables ON tables.database_name = ${text(MIRROR)} AND tables.table_name = kept.table_name
        AND schema_name = CASE WHEN kept.table_name = names.table_name THEN 'main' ELSE 'archived' END`;
}

/** Compares a table of the past with its checksum. @throws DuckDbError for every other reason than damage. */
export async function comparePastTable(engine: Engine, table: PastTable): Promise<ComparedPastTable> {
  const { schema, name, recorded } = table;
  const [there] = await engine.rows(`SELECT 1 FROM duckdb_tables()
    WHERE database_name = ${text(MIRROR)} AND schema_name = ${text(schema)} AND table_name = ${text(name)}`);
  if (there === undefined) return { ...table, state: 'missing', checksum: null, damage: null };
  try {
    const [row = []] = await engine.rows(
      `SELECT ${SUM_OF_ALL_HASHES}, ${CHECKSUM_VERSION} FROM ${placeOf(MIRROR, table)}`,
    );
    const checksum = checksumAt(row, 0);
    return { ...table, state: stateOfPast(checksum, recorded), checksum, damage: null };
  } catch (error) {
    if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) throw error;
    return { ...table, state: 'damaged', checksum: null, damage: firstLine(error) };
  }
}
