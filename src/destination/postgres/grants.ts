/**
 * The rights of the roles in `destination.readers`: USAGE of the schemas, and SELECT on every table of the mirror, new ones too. A
 * role that leaves the setting keeps its rights, because others may have given them as well.
 */

import { ConfigurationError, DestinationError } from '../../model/errors.ts';
import { identifier, text, textAt } from '../../staging/engine/sql.ts';
import { CATALOG_TABLES } from '../catalog/tables.ts';
import {
  ARCHIVE_SCHEMA,
  CATALOG_SCHEMA,
  catalogTable,
  HISTORY_SCHEMA,
  LIVE_SCHEMA,
} from './catalog/names.ts';
import type { Transaction } from './connection.ts';

/**
 * Gives each role the rights that it lacks; `schemas` have tables beside the usual ones.
 * @throws ConfigurationError when there is no such role; DestinationError when our role may not give
 * them; PostgresError
 */
export async function grantReaders(
  transaction: Transaction,
  readers: readonly string[],
  schemas: Iterable<string>,
  place: string,
): Promise<void> {
  const mirrored = [...new Set([LIVE_SCHEMA, ARCHIVE_SCHEMA, HISTORY_SCHEMA, ...schemas])];
  for (const reader of readers) {
    if (!(await isRole(transaction, reader))) throw noSuchRole(reader, place);
    const statements = await missingGrants(transaction, reader, mirrored);
    for (const statement of statements) await transaction.run(statement);
    // A GRANT by a role that may not give the right ends with a warning.
    if (statements.length === 0 || (await missingGrants(transaction, reader, mirrored)).length === 0)
      continue;
    throw new DestinationError(`The role cannot give ${reader} the right to read the database ${place}.`, {
      code: 'destination_refused',
      hint: `Make it the owner of the schemas ${mirrored.join(', ')} and feed_sync, or leave the reader out of destination.readers.`,
    });
  }
}

async function isRole(transaction: Transaction, reader: string): Promise<boolean> {
  return (await transaction.rows(`SELECT 1 FROM pg_roles WHERE rolname = ${text(reader)}`)).length > 0;
}

function noSuchRole(reader: string, place: string): ConfigurationError {
  return new ConfigurationError(
    `The database ${place} has no role ${JSON.stringify(reader)}, which destination.readers names.`,
    { hint: `Make it, or leave it out: CREATE ROLE ${identifier(reader)}` },
  );
}

/** Returns the statements that give the role what it lacks; none where it lacks nothing. */
async function missingGrants(
  transaction: Transaction,
  reader: string,
  mirrored: readonly string[],
): Promise<readonly string[]> {
  const [role, to] = [text(reader), `TO ${identifier(reader)}`];
  const rows = await transaction.rows(`
    SELECT format('GRANT USAGE ON SCHEMA %I', name) FROM unnest(${names([CATALOG_SCHEMA, ...mirrored])}) AS name
      WHERE to_regnamespace(name) IS NOT NULL AND NOT has_schema_privilege(${role}, name, 'USAGE')
    UNION ALL SELECT format('GRANT SELECT ON %I.%I', n.nspname, c.relname)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = ANY (${names(mirrored)}) AND c.relkind IN ('r', 'v') AND pg_has_role(c.relowner, 'USAGE')
        AND NOT has_table_privilege(${role}, c.oid, 'SELECT')
    UNION ALL SELECT 'GRANT SELECT ON ' || name FROM unnest(${names(CATALOG_TABLES.map(catalogTable))}) AS name
      WHERE NOT has_table_privilege(${role}, name, 'SELECT')
    UNION ALL SELECT format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES', name)
      FROM unnest(${names(mirrored)}) AS name WHERE to_regnamespace(name) IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM pg_default_acl d, aclexplode(d.defaclacl) a
        WHERE d.defaclrole = current_user::regrole AND d.defaclnamespace = to_regnamespace(name)
          AND d.defaclobjtype = 'r' AND a.privilege_type = 'SELECT' AND a.grantee = ${role}::regrole)`);
  return rows.map((row) => `${textAt(row, 0)} ${to}`);
}

function names(values: readonly string[]): string {
  return `ARRAY[${values.map(text).join(', ')}]`;
}
