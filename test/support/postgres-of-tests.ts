/** A server of PostgreSQL for the tests of a group, or for one of them. */

import { afterAll, beforeAll, onTestFinished } from 'vitest';
import {
  type Binaries,
  type PostgresServer,
  type ServerOptions,
  startPostgres,
} from '../../fixtures/postgres-server.ts';
import { present } from '../../src/lib/assert.ts';

/** Starts the server before the tests of the group, and stops it after them. Ends the group's set-up where it cannot be started. */
export function postgresOfTests(binaries: Binaries): Pick<PostgresServer, 'database' | 'restart'> {
  let server: PostgresServer | null = null;
  beforeAll(async () => {
    server = await startPostgres(binaries);
  });
  afterAll(async () => {
    await server?.stop();
  });
  const started = (): PostgresServer => present(server, 'the server runs');
  return { database: () => started().database(), restart: () => started().restart() };
}

/** Starts a server that stops when the test has finished. */
export async function postgresOfTest(
  binaries: Binaries,
  options: ServerOptions = {},
): Promise<Pick<PostgresServer, 'database' | 'restart'>> {
  const server = await startPostgres(binaries, options);
  onTestFinished(() => server.stop());
  return server;
}
