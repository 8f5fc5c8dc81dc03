/** The kinds of destination that keep one contract: DuckDB, and PostgreSQL as npm brings it. */

import process from 'node:process';
import { afterAll, beforeAll } from 'vitest';
import { CITUS, startCitus } from '../../fixtures/citus-cluster.ts';
import {
  type Binaries,
  DEBIAN,
  EMBEDDED,
  type PostgresServer,
  startPostgres,
} from '../../fixtures/postgres-server.ts';
import { type HistoryOptions, NO_HISTORY } from '../../src/destination/catalog/undo-logs.ts';
import type { Comparer } from '../../src/destination/comparer.ts';
import { openComparer } from '../../src/destination/duckdb/compare-table.ts';
import { openPostgresComparer } from '../../src/destination/postgres/compare-table.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import type { CommitSource } from '../../src/destination/publication.ts';
import type { DestinationReader } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { runProgram } from '../../src/lib/run-program.ts';
import { Secret } from '../../src/lib/secret.ts';
import { fullJitter, inMirror, readerOf } from './duckdb-mirror.ts';
import { type DestinationAtWork, mirrorAtWork } from './mirror-at-work.ts';
import { databaseAtWork, textsInDuckDb, textsInPostgres } from './postgres-destination.ts';

const APPROVALS = 'SELECT approved::VARCHAR FROM feed_sync.commits ORDER BY commit_number';

export interface DestinationKind {
  readonly name: string;
  /** Whether it stores geometries by PostGIS. */
  readonly hasPostgis: boolean;
  open(history?: HistoryOptions): Promise<DestinationWorld>;
}

export interface DestinationWorld extends DestinationAtWork {
  /** The rows of the live table as texts, sorted. */
  rows(datasetId?: string): Promise<readonly (readonly (string | null)[])[]>;
  /** The source of the input of the command after commits. */
  readonly source: CommitSource;
  /** Of each commit, in their order: `true` where it was approved; null where it exceeded no gate. */
  approvals(): Promise<readonly unknown[]>;
  byHand(sql: string): Promise<unknown>;
  /** Drops the index of the key of the table `parcels`, which only a database has. */
  withoutKey(): Promise<void>;
  /** The SQL name of the table `parcels`. */
  readonly table: string;
  /** The schema of retired tables. */
  readonly archive: string;
  /** Returns the SQL name of a log, a frozen table or a function of the past. `parcels` is the log of the live table. */
  historic(name: string): string;
  reader(): Promise<DestinationReader>;
  /** What `verify --deep` compares with. Is closed by the caller. */
  comparer(): Promise<Comparer>;
}

function comparing(directory: string) {
  const { signal } = new AbortController();
  return {
    directory,
    memoryLimitBytes: 500_000_000,
    threads: 1,
    reserveBytes: 0,
    clock: systemClock,
    signal,
  };
}

/** Where this is set, the tests of a file run against Citus, where it is installed. */
export const AGAINST_CITUS = 'FEED_SYNC_TESTS_AGAINST_CITUS';

/** Starts the server before the tests of the file, and stops it after them. Without the server there is DuckDB alone. */
export function destinationKinds(): readonly DestinationKind[] {
  if (process.env[AGAINST_CITUS] !== undefined)
    return databaseKind(CITUS, 'Citus is not installed.', startCitus);
  return [DUCKDB, ...databaseKind(EMBEDDED, 'npm has installed no PostgreSQL for this platform.')];
}

/** The same, and PostgreSQL with PostGIS where it is installed. */
export function destinationKindsWithPostgis(): readonly DestinationKind[] {
  if (process.env[AGAINST_CITUS] !== undefined) return destinationKinds();
  return [...destinationKinds(), ...databaseKind(DEBIAN, `${DEBIAN.name} is not installed.`)];
}

type Server = Pick<PostgresServer, 'database' | 'stop'>;

/** The servers that run now. The groups of a test file share theirs, and it stops with the last of them. */
const servers = new Map<Binaries, { readonly started: Promise<Server>; groups: number }>();

async function join(binaries: Binaries, start: () => Promise<Server>): Promise<Server> {
  const running = servers.get(binaries) ?? { started: start(), groups: 0 };
  running.groups += 1;
  servers.set(binaries, running);
  return await running.started;
}

async function leave(binaries: Binaries): Promise<void> {
  const running = servers.get(binaries);
  if (running === undefined) return;
  running.groups -= 1;
  if (running.groups > 0) return;
  servers.delete(binaries);
  await (await running.started).stop();
}

const inHistory = (name: string): string => `history.${name}`;
/** Beside its table, the log has another name. */
const besideTable = (name: string): string => `feeds.${name.replace(/^parcels(?!__)/, 'parcels_history')}`;

const DUCKDB: DestinationKind = {
  name: 'DuckDB',
  hasPostgis: false,
  async open(history = NO_HISTORY) {
    const world = await mirrorAtWork({ history });
    return {
      ...world,
      table: 'main.parcels',
      archive: 'archived',
      historic: inHistory,
      source: world.mirror,
      rows: async (datasetId) => textsInDuckDb(world.folder, await world.observed(datasetId)),
      approvals: async () => (await inMirror(world.folder, APPROVALS)).flat(),
      byHand: (sql) => world.byHand(sql),
      withoutKey: async () => {},
      reader: async () => present(await readerOf(world.path), 'the mirror is there'),
      comparer: () =>
        openComparer({
          ...comparing(world.folder),
          path: world.path,
          waitMs: 10_000,
          random: fullJitter,
        }),
    };
  },
};

/** Returns none where the server is not installed, and says so. */
function databaseKind(
  binaries: Binaries,
  whyNone: string,
  start: () => Promise<Server> = () => startPostgres(binaries),
): readonly DestinationKind[] {
  const isDistributed = binaries === CITUS;
  let server: Server | null = null;
  beforeAll(async () => {
    if (binaries.folder === null) process.stderr.write(`SKIPPED: ${whyNone}\n`);
    else server = await join(binaries, start);
  });
  afterAll(() => leave(binaries));
  if (binaries.folder === null) return [];
  const open = async (history: HistoryOptions = NO_HISTORY): Promise<DestinationWorld> => {
    const address = await present(server, 'the server runs').database();
    const world = await databaseAtWork(address, { history });
    return {
      ...world,
      table: 'feeds.parcels',
      archive: isDistributed ? 'feeds' : 'archived',
      historic: isDistributed ? besideTable : inHistory,
      source: world.database,
      withoutKey: async () => {
        await world.byHand(
          'ALTER TABLE feeds.parcels DROP CONSTRAINT parcels_pkey, ALTER COLUMN id DROP NOT NULL',
        );
      },
      approvals: async () => (await world.byHand(APPROVALS)).flat(),
      rows: async (datasetId?: string) => textsInPostgres(address, await world.observed(datasetId)),
      reader: async () =>
        present(
          await openPostgresReader({ url: new Secret(address), clock: systemClock }),
          'the catalog is there',
        ),
      comparer: () =>
        openPostgresComparer({
          ...comparing(world.folder),
          url: new Secret(address),
          runProgram,
          programPath: process.env['PATH'] ?? '',
        }),
    };
  };
  return [{ name: binaries.name, hasPostgis: binaries.hasPostgis, open }];
}
