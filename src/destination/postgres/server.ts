/** Facts about the server that statements depend on. */

import { ConfigurationError } from '../../model/errors.ts';
import { booleanAt, identifier, numberAt, textAt } from '../../staging/engine/sql.ts';
import type { Transaction } from './connection.ts';
import type { Postgis } from './types.ts';

/** The oldest server that this program works with. */
export const LEAST_SERVER_VERSION = 14;

export interface Server {
  /** `15`. */
  readonly majorVersion: number;
  /** `15.18 (Debian 15.18-0+deb12u1)`. */
  readonly version: string;
  readonly role: string;
  readonly encoding: string;
  readonly isInRecovery: boolean;
  /** Whether an operator keeps the sessions of the role from writing. */
  readonly isReadOnly: boolean;
  /** Whether triggers and foreign keys do nothing in the sessions of the role, which may not change that. */
  readonly areTriggersOff: boolean;
  readonly postgis: (Postgis & { readonly version: string }) | null;
  /** The version of Citus; null where the database has none. */
  readonly citus: string | null;
}

export async function readServer(transaction: Transaction): Promise<Server> {
  const [row = []] = await transaction.rows(`SELECT current_setting('server_version_num')::int / 10000,
    current_setting('server_version'), current_user::text, current_setting('server_encoding'), pg_is_in_recovery(),
    current_setting('session_replication_role') = 'replica', current_setting('default_transaction_read_only') = 'on'`);
  const [postgis] = await transaction.rows(`SELECT n.nspname::text, e.extversion FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'`);
  const [citus] = await transaction.rows("SELECT extversion FROM pg_extension WHERE extname = 'citus'");
  return {
    majorVersion: numberAt(row, 0),
    version: textAt(row, 1),
    role: textAt(row, 2),
    encoding: textAt(row, 3),
    isInRecovery: booleanAt(row, 4),
    areTriggersOff: booleanAt(row, 5),
    isReadOnly: booleanAt(row, 6),
    postgis: postgis === undefined ? null : { schema: textAt(postgis, 0), version: textAt(postgis, 1) },
    citus: citus === undefined ? null : textAt(citus, 0),
  };
}

/** Refuses an unsuitable server. @throws ConfigurationError where this program cannot work with the server. */
export function refuseServer(server: Server, place: string): void {
  const { majorVersion, version, encoding, role, areTriggersOff } = server;
  if (majorVersion < LEAST_SERVER_VERSION) {
    throw new ConfigurationError(
      `The server of ${place} is PostgreSQL ${version}; feed-sync needs ${LEAST_SERVER_VERSION} or newer.`,
    );
  }
  if (encoding !== 'UTF8') {
    throw new ConfigurationError(
      `The database ${place} has the encoding ${encoding}; feed-sync needs UTF8.`,
      {
        hint: "Make the database anew: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
      },
    );
  }
  if (areTriggersOff) {
    throw new ConfigurationError(
      `The role ${role} has session_replication_role = replica in the database ${place}, so that no foreign key of a reader is checked.`,
      { hint: triggersOn(role) },
    );
  }
}

/** Returns the statement that a superuser runs so that triggers and foreign keys have their effect. */
export function triggersOn(role: string): string {
  return `ALTER ROLE ${identifier(role)} SET session_replication_role = origin`;
}
