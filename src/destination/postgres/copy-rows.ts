/**
 * Rows from DuckDB to PostgreSQL: DuckDB writes them into a named pipe in the binary format of COPY, and its bytes go there. Where PostGIS
 * refuses a geometry, the rows go again as CSV. No row becomes a value of JavaScript, and nothing is written to a disk.
 *
 * Invariants: the COPY ends only after DuckDB has said that everything is written, because a pipe that ends early looks like one
 * that ends. This process holds the writing end open until then. The reading end is closed first where anything fails: DuckDB does
 * not return while the pipe is full. It may then still be about to open the pipe, which waits for a reader: readers come and go
 * until it has returned.
 */

import { closeSync, fstatSync } from 'node:fs';
import { Socket, type SocketConstructorOpts } from 'node:net';
import { Readable, type ReadableOptions } from 'node:stream';
import type { Engine } from '../../staging/engine/engine.ts';
import { text } from '../../staging/engine/sql.ts';
import { binaryRow, type CopiedColumn, HEADER, TRAILER } from './binary-rows.ts';
import { COPY_BUFFER_BYTES, SourceError, type Transaction } from './connection.ts';
import { writeCsv } from './csv-rows.ts';
import { isRefusedGeometry, PostgresError } from './errors.ts';
import { openForReading, openForWriting, type Pipe, refuseReplaced } from './pipe.ts';

/** From so many rows on it is worth while to stop DuckDB's threads. */
const MANY_ROWS = 50_000;

/** Between two readers of a pipe whose content nobody reads any more. */
const RELEASE_EVERY_MS = 20;

/** Opens the pipe for writing. Somebody has it open for reading. @throws StorageError */
export function writingEnd(pipe: Pick<Pipe, 'path'>): Socket {
  return new Socket({ fd: openForWriting(pipe), readable: false, writable: true });
}

/** The types of a socket do not know that it is a stream with a buffer. */
function readingEnd(fd: number): Socket {
  const options: SocketConstructorOpts & Pick<ReadableOptions, 'highWaterMark'> = {
    fd,
    readable: true,
    writable: false,
    highWaterMark: COPY_BUFFER_BYTES,
  };
  return new Socket(options);
}

export interface CopiedRows {
  readonly columns: readonly CopiedColumn[];
  /** DuckDB's SQL after FROM. */
  readonly from: string;
  /** At least as many as there are rows. */
  readonly mostRows: number;
  /** Whether geometries are those of PostGIS; else they are bytes (WKB). */
  readonly hasPostgis: boolean;
  /** Whether Citus passes the rows on to a node: as bytes, whatever they come as. */
  readonly isDistributed: boolean;
  /**
   * The table as SQL, which the transaction has made on this server. Its rows are written frozen: later reads change no page to note that
   * they are committed, and the table is counted by its key alone.
   */
  readonly newTable?: string;
}

/** As COPY names it. The server takes more than twice as long for CSV; PostGIS stores geometries from it that it refuses in bytes. */
type Format = 'binary' | 'csv';

/**
 * Copies rows into PostgreSQL. `target` is a table of PostgreSQL with its columns. Resolves to the number of rows. @throws DuckDbError,
 * PostgresError, StorageError
 */
export async function copyRows(
  engine: Engine,
  pipe: Pipe,
  transaction: Transaction,
  target: string,
  rows: CopiedRows,
): Promise<number> {
  const copied = (format: Format) => copyIn(engine, pipe, transaction, target, rows, format);
  const { columns, hasPostgis, isDistributed } = rows;
  const mayBeRefused = hasPostgis && columns.some(({ type }) => type === 'geometry');
  if (!mayBeRefused || isDistributed) return await copied('binary');
  // Rows are written frozen only where the table was emptied since the savepoint.
  const emptied = rows.newTable === undefined ? [] : [`TRUNCATE ${rows.newTable}`];
  await transaction.runAll(['SAVEPOINT copy', ...emptied]);
  try {
    const count = await copied('binary');
    await transaction.run('RELEASE SAVEPOINT copy');
    return count;
  } catch (error) {
    if (!isRefusedGeometry(error)) throw error;
  }
  await transaction.runAll(['ROLLBACK TO SAVEPOINT copy', 'RELEASE SAVEPOINT copy']);
  return await copied('csv');
}

async function copyIn(
  engine: Engine,
  pipe: Pipe,
  transaction: Transaction,
  target: string,
  rows: CopiedRows,
  format: Format,
): Promise<number> {
  const reading = await openForReading(pipe);
  const { ino } = fstatSync(reading);
  const source = readingEnd(reading);
  let writing: number;
  try {
    writing = openForWriting(pipe);
  } catch (error) {
    source.destroy();
    throw error;
  }
  const freeze = rows.newTable === undefined ? '' : ', FREEZE';
  const bytes = format === 'binary' ? framed(source) : source;
  const copying = transaction.copyIn(
    `COPY ${target} FROM STDIN (FORMAT ${format}${freeze})`,
    Readable.from(bytes, { objectMode: false, highWaterMark: COPY_BUFFER_BYTES }),
  );
  const { columns, from } = rows;
  const statement = format === 'binary' ? writeRows(rows, pipe.path) : writeCsv(columns, from, pipe.path);
  const isLong = rows.mostRows >= MANY_ROWS;
  const ran = isLong ? engine.runByOneThread(statement) : engine.runWhileSpaceIsFree(statement);
  const written = ran.then(
    () => closeSync(writing),
    (error) => {
      source.destroy(new SourceError(error));
      closeSync(writing);
    },
  );
  try {
    const count = await copying;
    refuseReplaced(pipe, ino);
    return count;
  } catch (error) {
    if (error instanceof PostgresError) error.isOfCopy = true;
    throw error;
  } finally {
    source.destroy();
    await released(pipe, written);
  }
}

/** Resolves when the writer has ended. A writer that opens the pipe meanwhile finds a reader, and then none for its first byte. */
async function released(pipe: Pipe, written: Promise<void>): Promise<void> {
  const { clock } = pipe;
  let isWritten = false;
  const noted = written.finally(() => {
    isWritten = true;
  });
  await Promise.race([noted, clock.sleep(RELEASE_EVERY_MS)]);
  while (!isWritten) {
    closeSync(await openForReading(pipe));
    await Promise.race([noted, clock.sleep(RELEASE_EVERY_MS)]);
  }
}

function writeRows({ columns, from, hasPostgis }: CopiedRows, path: string): string {
  return `COPY (SELECT ${binaryRow(columns, hasPostgis)} FROM ${from})
    TO ${text(path)} (FORMAT blob, USE_TMP_FILE false)`;
}

/** The rows in the format of COPY. An error of the source is an error of it. */
async function* framed(source: Socket): AsyncGenerator<Buffer> {
  yield HEADER;
  yield* source;
  yield TRAILER;
}
