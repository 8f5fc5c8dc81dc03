/** Makes the schemas and the catalog of a database, or brings them to what this version knows. */

import { identifier, numberAt, text } from '../../../staging/engine/sql.ts';
import type { Transaction } from '../connection.ts';
import { HISTORY_SCHEMA } from './names.ts';
import { readMeta } from './observed-state.ts';
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
