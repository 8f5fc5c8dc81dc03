/** The mirror is a database of PostgreSQL, one for each history. */

import process from 'node:process';
import { PASSWORD, type PostgresServer, statement } from '../../../fixtures/postgres-server.ts';
import type { ContentComparison } from '../../../src/destination/comparer.ts';
import { openPostgresComparer } from '../../../src/destination/postgres/compare-table.ts';
import { runProgram } from '../../../src/lib/run-program.ts';
import { Secret } from '../../../src/lib/secret.ts';
import type { ObservedTable, VersionContent } from '../../../src/model/write-jobs.ts';
import { identifier } from '../../support/exact-mirror.ts';
import { PastStates } from '../../support/past-states.ts';
import { eventually } from '../../support/patience.ts';
import type { Alteration, MirrorView } from '../stage.ts';
import { alteringStatement } from './alterations.ts';
import { readDatabase } from './database-mirror.ts';
import type { Comparing, DestinationKind, MakeDestination, RealDestination } from './destination.ts';

/** What an operator may have set, which has no part in what the program does. */
const SETTINGS = ["lock_timeout = '1ms'", "bytea_output = 'escape'"];

/** A length of time that nothing else waits for. */
const LEASE_S = 3_333;

export function inDatabase(server: PostgresServer): MakeDestination {
  return async (): Promise<DestinationKind> => {
    const address = await server.database();
    const { name, beside } = placesOf(address);
    await configure(beside, name);
    return {
      environment: { FEED_SYNC_DESTINATION_URL: address, FEED_SYNC_DESTINATION_LEASE: `${LEASE_S}s` },
      secrets: [PASSWORD],
      serverWaitMs: (LEASE_S * 1_000) / 3,
      installedBy: () => new DatabaseDestination(address),
    };
  };
}

/** The name of a database, and an address of its server from where it can be made anew. */
function placesOf(address: string): { readonly name: string; readonly beside: string } {
  const [, name = ''] = /@\/(\w+)/.exec(address) ?? [];
  return { name, beside: address.replace(`@/${name}`, '@/postgres') };
}

async function configure(beside: string, database: string): Promise<void> {
  for (const setting of SETTINGS) await statement(beside, `ALTER DATABASE ${database} SET ${setting}`);
}

class DatabaseDestination implements RealDestination {
  readonly #address: string;
  readonly #name: string;
  /** From where the database is made anew. */
  readonly #beside: string;
  readonly #past = new PastStates();

  constructor(address: string) {
    const { name, beside } = placesOf(address);
    this.#address = address;
    this.#name = name;
    this.#beside = beside;
  }

  read<T>(read: (mirror: MirrorView) => Promise<T>): Promise<T | null> {
    return readDatabase(this.#address, this.#past, read);
  }

  async alter(table: ObservedTable, how: Alteration): Promise<string | null> {
    const altering = await alteringStatement(table, how, {
      schema: 'feeds',
      rowId: 'ctid',
      has: async (sql) => (await statement(this.#address, sql)).length > 0,
    });
    if (altering !== null) await statement(this.#address, altering);
    return altering;
  }

  async drop({ tableName }: ObservedTable): Promise<void> {
    await statement(this.#address, `DROP TABLE feeds.${identifier(tableName)} CASCADE`);
  }

  async compare(
    table: ObservedTable,
    content: VersionContent,
    { downloads, clock }: Comparing,
  ): Promise<ContentComparison> {
    const comparer = await openPostgresComparer({
      url: new Secret(this.#address),
      directory: downloads,
      memoryLimitBytes: 256e6,
      threads: 1,
      reserveBytes: 1e6,
      runProgram,
      programPath: process.env['PATH'] ?? '',
      clock,
      signal: new AbortController().signal,
    });
    try {
      return await comparer.compare(table, content, () => {});
    } finally {
      await comparer.close();
    }
  }

  async lose(): Promise<void> {
    this.#past.forget();
    await this.#drop(this.#name);
    await statement(this.#beside, `CREATE DATABASE ${this.#name}`);
    await configure(this.#beside, this.#name);
  }

  async copy(close: () => Promise<void>): Promise<void> {
    await close();
    await this.#drop(this.#copy);
    await this.#make(this.#copy, this.#name);
  }

  async restoreCopy(): Promise<void> {
    await this.#drop(this.#name);
    await this.#make(this.#name, this.#copy);
    await configure(this.#beside, this.#name);
  }

  /** The server ends what the process has begun, and the time of its lease is over. */
  async settleAfterKill(): Promise<void> {
    await this.#endSessions(this.#name);
    const [row] = await statement(this.#address, "SELECT to_regclass('feed_sync.lease')");
    if (row?.[0] !== null)
      await statement(this.#address, 'UPDATE feed_sync.lease SET expires_at = clock_timestamp()');
  }

  async close(): Promise<void> {
    await this.#drop(this.#name);
    await this.#drop(this.#copy);
  }

  get #copy(): string {
    return `${this.#name}_copy`;
  }

  async #drop(database: string): Promise<void> {
    await statement(this.#beside, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`);
  }

  async #make(database: string, template: string): Promise<void> {
    await this.#endSessions(template);
    await statement(this.#beside, `CREATE DATABASE ${database} TEMPLATE ${template}`);
  }

  async #endSessions(database: string): Promise<void> {
    await eventually(async () => {
      const left = await statement(
        this.#beside,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`,
      );
      if (left.length > 0) throw new Error(`${left.length} sessions of ${database} have not ended`);
    });
  }
}
