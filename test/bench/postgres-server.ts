/** The server of the cases of PostgreSQL: Debian's, with PostGIS and its defaults. Both sides use it, each in a database of its own. */

import { join } from 'node:path';
import { CITUS, startCitus } from '../../fixtures/citus-cluster.ts';
import { DEBIAN, type PostgresServer, startPostgres, statement } from '../../fixtures/postgres-server.ts';
import type { Sample } from './case.ts';
import { measureScript } from './measured-process.ts';

export function whyNoServer(): string | null {
  return DEBIAN.folder === null ? `${DEBIAN.name} is not installed.` : null;
}

export function whyNoCitus(): string | null {
  return CITUS.folder === null ? 'Citus is not installed.' : null;
}

/** PostgreSQL alone, or a coordinator with two workers. */
export type ServerKind = 'alone' | 'citus';

type Running = Pick<PostgresServer, 'database' | 'stop'>;

export class BenchServer implements AsyncDisposable {
  readonly #server: Running;
  #copies = 0;

  private constructor(server: Running) {
    this.#server = server;
  }

  static async start(kind: ServerKind = 'alone'): Promise<BenchServer> {
    return new BenchServer(await (kind === 'citus' ? startCitus() : startPostgres(DEBIAN)));
  }

  /** An empty database with PostGIS. */
  empty(): Promise<string> {
    return this.#server.database();
  }

  /** Nothing of it is still to be written to the disk. */
  async copyOf(address: string): Promise<string> {
    this.#copies += 1;
    const copy = `copy_${this.#copies}`;
    await statement(
      inDatabase(address, 'postgres'),
      `CREATE DATABASE ${copy} TEMPLATE ${databaseOf(address)}`,
    );
    await statement(inDatabase(address, 'postgres'), 'CHECKPOINT');
    return inDatabase(address, copy);
  }

  async drop(address: string): Promise<void> {
    await statement(
      inDatabase(address, 'postgres'),
      `DROP DATABASE IF EXISTS ${databaseOf(address)} WITH (FORCE)`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
  }
}

/** Calls `work` with a database that is dropped afterwards. */
export async function inOwn<T>(
  server: BenchServer,
  address: Promise<string>,
  work: (address: string) => Promise<T>,
): Promise<T> {
  const own = await address;
  try {
    return await work(own);
  } finally {
    await server.drop(own);
  }
}

/** Measured from the start of the process to its end. CPU seconds are those of psql, not of the server. */
export function measurePsql(address: string, script: string, folder: string): Promise<Sample> {
  return measureScript({ script: 'raw/psql.mjs', values: [psqlProgram(), address, script], folder });
}

export function psqlProgram(): string {
  return join(DEBIAN.folder ?? '', 'psql');
}

function databaseOf(address: string): string {
  return new URL(address.replace('@/', '@socket/')).pathname.slice(1);
}

function inDatabase(address: string, database: string): string {
  return address.replace(`@/${databaseOf(address)}`, `@/${database}`);
}
