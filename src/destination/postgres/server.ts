/** Facts about the server that statements depend on. */

import { ConfigurationError } from '../../model/errors.ts';
import { numberAt, textAt } from '../../staging/engine/sql.ts';
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
  readonly postgis: (Postgis & { readonly version: string }) | null;
}

export async function readServer(transaction: Transaction): Promise<Server> {
  const [row = []] = await transaction.rows(`SELECT current_setting('server_version_num')::int / 10000,
    current_setting('server_version'), current_user::text, current_setting('server_encoding'), pg_is_in_recovery()`);
  const [postgis] = await transaction.rows(`SELECT n.nspname::text, e.extversion FROM pg_extension e
    JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'`);
  return {
    majorVersion: numberAt(row, 0),
    version: textAt(row, 1),
    role: textAt(row, 2),
    encoding: textAt(row, 3),
    isInRecovery: row[4] === true,
    postgis: postgis === undefined ? null : { schema: textAt(postgis, 0), version: textAt(postgis, 1) },
  };
}

/** @throws ConfigurationError where this program cannot work with the server. */
export function refuseServer({ majorVersion, version, encoding }: Server, place: string): void {
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
}
