/**
 * Opens PostgreSQL as a destination: the catalog is there, the lease is held, and the roles of readers have their rights.
 *
 * Invariant: what was opened before a step that fails is closed again.
 */

import { join } from 'node:path';
import { placeOfDatabase } from '../../lib/secret.ts';
import { Engine, isAmpleMemory, stagedDirectories, temporaryDirectory } from '../../staging/engine/engine.ts';
import type { Destination } from '../destination.ts';
import type { CommitSource, ExportSource } from '../publication.ts';
import { makeSchemasHere } from './catalog/distributed.ts';
import { completeCatalog, makeCatalog, makeHistory } from './catalog/make-catalog.ts';
import { hasCatalog, readSchemas } from './catalog/observed-state.ts';
import { Connection, type Transaction } from './connection.ts';
import { type Opened, PostgresDestination, type PostgresOptions } from './destination.ts';
import { destinationError, isOfNode } from './errors.ts';
import { grantReaders } from './grants.ts';
import { Lease, WRITES_ALONE } from './lease.ts';
import { NodeWatch } from './node-watch.ts';
import { makePipe } from './pipe.ts';
import { readServer, refuseServer } from './server.ts';

/**
 * Connects, makes the catalog where it is missing, and takes the lease. @throws DestinationError, ConfigurationError, StorageError;
 * BusyError where another writer holds the lease for longer than `lockWaitMs`.
 */
export async function openPostgres(
  options: PostgresOptions,
): Promise<Destination & CommitSource & ExportSource> {
  const { url, clock, signal, dataDirectory, lockWaitMs } = options;
  const place = placeOfDatabase(url);
  let nodes: NodeWatch | null = null;
  const beforeStatement = async (sql: string): Promise<void> => await nodes?.beforeStatement(sql);
  const connection = new Connection({
    url,
    clock,
    beforeStatement,
    ...(signal === undefined ? {} : { signal }),
  });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => connection.close());
  try {
    const { postgis, citus } = await connection.transaction(async (transaction) => {
      const server = await readServer(transaction);
      refuseServer(server, place);
      await transaction.run(ONE_START);
      if (server.citus !== null) await makeSchemasHere(transaction);
      if (await hasCatalog(transaction)) await completeCatalog(transaction, place);
      else await makeCatalog(transaction);
      await makeHistory(transaction);
      return server;
    });
    const pipe = await makePipe(
      join(dataDirectory, 'postgres.pipe'),
      options.runProgram,
      options.programPath,
      clock,
    );
    const engines = openEngines(options, opened);
    const isCitus = citus !== null;
    if (isCitus) nodes = new NodeWatch({ url, clock, giveUp: (error) => connection.giveUp(error) });
    const { givenUp } = connection;
    const onRenewed = async (beside: Transaction): Promise<void> => {
      void nodes?.check();
      await connection.noteWork(beside);
      await connection.endLost(beside, WRITES_ALONE);
    };
    const taking = { ...options, place, waitMs: lockWaitMs, onRenewed, givenUp, isCitus };
    const lease = await Lease.take(taking);
    opened.defer(() => lease.release());
    connection.noteCitus(isCitus);
    await nodes?.recover();
    await grant({ connection, lease, nodes }, options, place);
    opened.move();
    return new PostgresDestination(options, {
      place,
      connection,
      lease,
      postgis,
      nodes,
      pipe,
      ...engines,
    });
  } catch (error) {
    throw destinationError(error, place);
  }
}

/** With Citus a right takes all nodes: while one is missing, readers get it at a later start. */
async function grant(
  { connection, lease, nodes }: Pick<Opened, 'connection' | 'lease' | 'nodes'>,
  { readers, log }: PostgresOptions,
  place: string,
): Promise<void> {
  const granted = (): Promise<void> =>
    connection.transaction(async (transaction) => {
      await lease.holdAlone(transaction);
      await grantReaders(transaction, readers, await readSchemas(transaction), place);
    });
  try {
    await (nodes === null ? granted() : nodes.during(granted));
  } catch (error) {
    if (!isOfNode(error)) throw error;
    log.warn({ path: place, why: String(error) }, 'Readers lack rights: a node is missing.');
  }
}

/** What reading changes ahead takes at the most, beside as much for the validation. */
const READING_AHEAD_BYTES = 512_000_000;

/** The engines that read files and write rows: they are closed with `opened`. */
function openEngines(
  options: PostgresOptions,
  opened: AsyncDisposableStack,
): Pick<Opened, 'validating' | 'readingAhead' | 'writing'> {
  const { dataDirectory, exportFolder = null, clock, signal } = options;
  const halfBytes = options.memoryLimitBytes / 2;
  const readsAhead = halfBytes >= 2 * READING_AHEAD_BYTES;
  const engineOptions = {
    directories: [...stagedDirectories(dataDirectory), ...(exportFolder === null ? [] : [exportFolder])],
    guard: { folders: [dataDirectory], reserveBytes: options.reserveBytes, clock },
    clock,
    keepsMemory: isAmpleMemory(options.memoryLimitBytes),
    ...(signal === undefined ? {} : { signal }),
  };
  const examiner = (purpose: 'validating' | 'reading-ahead', memoryLimitBytes: number): Engine => {
    const engine = new Engine({
      ...engineOptions,
      memoryLimitBytes,
      threads: 1,
      temporaryDirectory: temporaryDirectory(dataDirectory, purpose),
    });
    opened.defer(() => engine.close());
    return engine;
  };
  const validating = examiner('validating', readsAhead ? halfBytes - READING_AHEAD_BYTES : halfBytes);
  const readingAhead = readsAhead ? examiner('reading-ahead', READING_AHEAD_BYTES) : null;
  const writing = new Engine({
    ...engineOptions,
    memoryLimitBytes: halfBytes,
    threads: options.threads,
    inAnyOrder: true,
    temporaryDirectory: temporaryDirectory(dataDirectory, 'large'),
  });
  opened.defer(() => writing.close());
  return { validating, readingAhead, writing };
}

/** A lock of the database until the end of the transaction: of instances that start at once only one makes the catalog. */
const ONE_START = "SELECT pg_advisory_xact_lock(hashtext('feed_sync.start'))";
