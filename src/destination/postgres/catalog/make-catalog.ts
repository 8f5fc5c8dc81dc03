/** Makes the schemas and the catalog of a database, or brings them to what this version knows. */

import { identifier, numberAt, text } from '../../../staging/engine/sql.ts';
import type { Transaction } from '../connection.ts';
import { distributeSchema, makeSchemasHere } from './distributed.ts';
import { HISTORY_SCHEMA } from './names.ts';
import { hasCitus, isDistributedSchema, readMeta } from './observed-state.ts';
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
  let isAnyMade = false;
  if (isCitus) await makeSchemasHere(transaction);
  for (const name of schemas) {
    const [row = []] = await transaction.rows(`SELECT to_regnamespace(${text(identifier(name))}) IS NULL,
      EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(${text(identifier(name))}))`);
    const [isMissing, isUsed] = [row[0] === true, row[1] === true];
    if (isMissing) await transaction.run(`CREATE SCHEMA ${identifier(name)}`);
    const isGiven = isCitus && !isUsed && !(await isDistributedSchema(transaction, name));
    if (isGiven) await distributeSchema(transaction, name);
    isAnyMade ||= isMissing || isGiven;
  }
  return isAnyMade;
}
