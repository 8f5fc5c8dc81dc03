/**
 * Rows from DuckDB to PostgreSQL: DuckDB writes them into a named pipe in the binary format of COPY, and its bytes go there. No row
 * becomes a value of JavaScript, and nothing is written to a disk.
 *
 * Invariants: the COPY ends only after DuckDB has said that everything is written, because a pipe that ends early looks like one
 * that ends. This process holds the writing end open until then. The reading end is closed first where anything fails: DuckDB does
 * not return while the pipe is full. It may then still be about to open the pipe, which waits for a reader: readers come and go
 * until it has returned.
 */

import { closeSync, constants, openSync, statSync } from 'node:fs';
import { Socket, type SocketConstructorOpts } from 'node:net';
import { Readable, type ReadableOptions } from 'node:stream';
import type { Clock } from '../../lib/clock.ts';
import { systemCode, systemReason } from '../../lib/files.ts';
import type { RunProgram } from '../../lib/run-program.ts';
import { StorageError } from '../../model/errors.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { text } from '../../staging/engine/sql.ts';
import { binaryRow, type CopiedColumn, HEADER, TRAILER } from './binary-rows.ts';
import { COPY_BUFFER_BYTES, SourceError, type Transaction } from './connection.ts';

const MAKE_PIPE_MS = 10_000;

/** From so many rows on it is worth while to stop DuckDB's threads. */
const MANY_ROWS = 50_000;

/** Between two readers of a pipe whose content nobody reads any more. */
const RELEASE_EVERY_MS = 20;

export interface Pipe {
  readonly path: string;
  readonly clock: Clock;
}

/** Makes the pipe, or takes the one that an earlier process has left. @throws StorageError */
export async function makePipe(
  path: string,
  run: RunProgram,
  searchPath: string,
  clock: Clock,
): Promise<Pipe> {
  const isThere = statSync(path, { throwIfNoEntry: false })?.isFIFO() === true;
  if (isThere) return { path, clock };
  const environment = { PATH: searchPath };
  try {
    await run({ file: 'mkfifo', args: ['-m', '600', path], environment, timeoutMs: MAKE_PIPE_MS });
  } catch (error) {
    throw pipeError(path, error);
  }
  return { path, clock };
}

/** The program is missing, or says itself what is wrong. */
function pipeError(path: string, cause: unknown): StorageError {
  if (systemCode(cause) === 'ENOENT') {
    return new StorageError(
      `The program mkfifo is not in the PATH: the named pipe ${path} cannot be made, through which rows go to PostgreSQL.`,
      {
        hint: 'Install mkfifo (coreutils), or add its folder to the PATH that feed-sync is started with.',
        cause,
      },
    );
  }
  const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : '';
  const why = said === '' ? systemReason(cause) : (said.split('\n').at(-1) ?? '');
  return new StorageError(
    `The named pipe ${path}, through which rows go to PostgreSQL, cannot be made: ${why}.`,
    {
      hint: 'Set dataDir to a local disk that has named pipes.',
      cause,
    },
  );
}

/** Opens the pipe for writing. Somebody has it open for reading. */
export function writingEnd(path: string): Socket {
  const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  return new Socket({ fd, readable: false, writable: true });
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
  /**
   * The transaction has made the table, on this server. Its rows are written frozen: later reads change no page to note that they are
   * committed, and the table is counted by its key alone.
   */
  readonly isOfNewTable?: boolean;
}

/**
 * Copies rows into PostgreSQL. `target` is a table of PostgreSQL with its columns. Resolves to the number of rows. @throws DuckDbError,
 * PostgresError
 */
export async function copyRows(
  engine: Engine,
  pipe: Pipe,
  transaction: Transaction,
  target: string,
  rows: CopiedRows,
): Promise<number> {
  const reading = openSync(pipe.path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(pipe.path, constants.O_WRONLY | constants.O_NONBLOCK);
  const source = readingEnd(reading);
  const freeze = rows.isOfNewTable === true ? ', FREEZE' : '';
  const copying = transaction.copyIn(
    `COPY ${target} FROM STDIN (FORMAT binary${freeze})`,
    Readable.from(framed(source), { objectMode: false, highWaterMark: COPY_BUFFER_BYTES }),
  );
  const statement = writeRows(rows, pipe.path);
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
    return await copying;
  } finally {
    source.destroy();
    await released(pipe, written);
  }
}

/** Resolves when the writer has ended. A writer that opens the pipe meanwhile finds a reader, and then none for its first byte. */
async function released({ path, clock }: Pipe, written: Promise<void>): Promise<void> {
  let isWritten = false;
  const noted = written.finally(() => {
    isWritten = true;
  });
  await Promise.race([noted, clock.sleep(RELEASE_EVERY_MS)]);
  while (!isWritten) {
    closeSync(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK));
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
