/**
 * The stage: a table with the rows of a snapshot, or with those of a net change and a column that marks those present afterwards. It is
 * temporary, and lasts until the end of the transaction. In a distributed schema it is a table of the schema, because the server joins
 * no other with the table of the dataset on its node. There it stays, empty between transactions: a table that is made needs every
 * node, and stops a move of the schema.
 */

import { identifier, tuple } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { derivedName } from '../catalog/undo-logs.ts';
import { type Named, type Place, qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { isSameType, readFound } from './tables.ts';
import { type Postgis, typeName } from './types.ts';

const TEMPORARY = identifier('feed-sync: stage');
const PRESENT = 'feed-sync: present';

/** The names of tables of datasets have no such character. */
const STAGE_ENDING = '~stage';

/** As SQL. Whether the row of a net change is there afterwards. No dataset has a column of this name. */
export const IS_PRESENT = identifier(PRESENT);

/** A table, and the rows that are staged for it. */
export interface Target extends Place, Named {
  /** The columns afterwards; the columns of the stage have the same names. */
  readonly columns: readonly PlannedColumn[];
  /** Whether the stage is a net change, which leaves the other rows as they are. */
  readonly isNet: boolean;
}

/** Returns the stage of a table as SQL. */
export function stageOf(target: Place & Named): string {
  return target.isDistributed ? qualified(keptStage(target)) : TEMPORARY;
}

function keptStage({ schemaName, tableName }: Named): Named {
  return { schemaName, tableName: derivedName(tableName, STAGE_ENDING) };
}

/** Makes the stage, or finds it. @throws PostgresError */
export async function makeStage(
  transaction: Transaction,
  target: Target,
  postgis: Postgis | null,
): Promise<void> {
  const { columns, isDistributed, isNet } = target;
  const types = columns.map(({ columnName, type }) => [columnName, typeName(type, postgis)] as const);
  const marked = isNet || isDistributed ? [...types, [PRESENT, 'boolean'] as const] : types;
  const defined = marked.map(([name, type]) => `${identifier(name)} ${type}`).join(', ');
  if (!isDistributed) {
    await transaction.runAll([
      `CREATE TEMPORARY TABLE ${TEMPORARY} (${defined}) ON COMMIT DROP`,
      // An event trigger of an operator may put triggers on each new table, which would stage other values.
      `ALTER TABLE ${TEMPORARY} DISABLE TRIGGER USER`,
    ]);
    return;
  }
  const stage = stageOf(target);
  const found = (await readFound(transaction, keptStage(target)))?.table?.columns ?? null;
  const isFit =
    found?.size === marked.length &&
    found.has(PRESENT) &&
    columns.every((column) => isSameType(found.get(column.columnName), column, postgis));
  if (isFit) {
    // Somebody may have written into it.
    await transaction.run(`DELETE FROM ${stage}`);
    return;
  }
  if (found !== null) await transaction.run(`DROP TABLE ${stage}`);
  await transaction.run(`CREATE TABLE ${stage} (${defined})`);
  // A move of the schema needs it.
  await transaction.run(`ALTER TABLE ${stage} REPLICA IDENTITY FULL`);
}

/** Empties the stage of a distributed schema; any other ends with its transaction. */
export async function emptyStage(transaction: Transaction, place: Place & Named): Promise<void> {
  if (!place.isDistributed || (await readFound(transaction, keptStage(place))) === null) return;
  await transaction.run(`DELETE FROM ${stageOf(place)}`);
}

/** Drops the stage of a distributed schema. */
export function dropStage(place: Place & Named): readonly string[] {
  return place.isDistributed ? [`DROP TABLE IF EXISTS ${stageOf(place)}`] : [];
}

/** Returns the stage with its columns, as what rows are written into. */
export function stageWithColumns(target: Target): string {
  return `${stageOf(target)} ${tuple([...columnNames(target.columns), ...(target.isNet ? [IS_PRESENT] : [])])}`;
}

/** A stage that stays is left to the server: a comparison would keep the lock, and commits would wait for it. */
export async function analyzeStage(transaction: Transaction, target: Target): Promise<void> {
  if (!target.isDistributed) await transaction.run(`ANALYZE ${stageOf(target)}`);
}

/** Returns the condition that a row `t` of the table and a row `s` of the stage have the same key. */
export function sameKey(columns: readonly PlannedColumn[]): string {
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => identifier(columnName));
  return keys.map((key) => `t.${key} = s.${key}`).join(' AND ');
}

/**
 * Returns the columns that may differ between two rows with the same key. The server takes JSON values for equal whose numbers are written
 * differently: such a key is written, too.
 */
export function changeable(columns: readonly PlannedColumn[]): readonly PlannedColumn[] {
  return columns.filter(({ role, type }) => role !== 'key' || type === 'json');
}

export function columnNames(columns: readonly PlannedColumn[]): readonly string[] {
  return columns.map(({ columnName }) => identifier(columnName));
}
