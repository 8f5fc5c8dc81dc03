/** Makes the schemas and the catalog of a database, or brings them to what this version knows. */

import { booleanAt, identifier, numberAt, text, textAt } from '../../../staging/engine/sql.ts';
import type { Transaction } from '../connection.ts';
import { distributeSchema, makeSchemasHere } from './distributed.ts';
import { HISTORY_SCHEMA } from './names.ts';
import { hasCitus, readMeta } from './observed-state.ts';
import {
  CATALOG_COLUMNS,
  completeSchema,
  countColumns,
  createCatalog,
  createSchemas,
  selectSchemas,
} from './schema.ts';

/** Adds columns that an earlier version did not know. @throws ConfigurationError when a newer program wrote the catalog. */
export async function completeCatalog(transaction: Transaction, place: string): Promise<void> {
  await readMeta(transaction, place);
  const [row = []] = await transaction.rows(countColumns());
  if (numberAt(row, 0) >= CATALOG_COLUMNS) return;
  for (const statement of completeSchema()) await transaction.run(statement);
}

/** Makes the schemas that are missing, and the catalog. */
export async function makeCatalog(transaction: Transaction): Promise<void> {
  const existing = (await transaction.rows(selectSchemas())).map((row) => String(row[0]));
  for (const statement of [...createSchemas(existing), ...createCatalog()]) await transaction.run(statement);
}

/** Makes the schema of undo logs. A role that may make no schema needs this one only for history: the commit that misses it says so. */
export async function makeHistory(transaction: Transaction): Promise<void> {
  const [row = []] = await transaction.rows(`SELECT to_regnamespace(${text(HISTORY_SCHEMA)}) IS NULL
    AND has_database_privilege(current_database(), 'CREATE')`);
  if (row[0] === true) await transaction.run(`CREATE SCHEMA ${identifier(HISTORY_SCHEMA)}`);
}

/**
 * Makes the schemas of tables that are missing. With Citus each new one gets a node; one that has tables already stays as it is. Resolves
 * to whether there was anything to make.
 */
export async function makeSchemas(transaction: Transaction, schemas: ReadonlySet<string>): Promise<boolean> {
  const isCitus = await hasCitus(transaction);
  if (isCitus) await makeSchemasHere(transaction);
  const unmade = await transaction.rows(selectUnmade([...schemas], isCitus));
  for (const row of unmade) {
    const name = textAt(row, 0);
    if (booleanAt(row, 1)) await transaction.run(`CREATE SCHEMA ${identifier(name)}`);
    if (isCitus) await distributeSchema(transaction, name);
  }
  return unmade.length > 0;
}

/** Selects the schemas that are missing, with whether they are; with Citus also those that no node has, and that nothing is in. */
function selectUnmade(schemas: readonly string[], isCitus: boolean): string {
  const isUngiven = `NOT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid)
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_schema WHERE schemaid = n.oid)`;
  return `SELECT name, n.oid IS NULL FROM unnest(ARRAY[${schemas.map(text).join(', ')}]) AS name
    LEFT JOIN pg_namespace n ON n.nspname = name
    WHERE n.oid IS NULL${isCitus ? ` OR (${isUngiven})` : ''} ORDER BY name COLLATE "C"`;
}
