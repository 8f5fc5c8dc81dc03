/**
 * The named pipe in the data directory between DuckDB and PostgreSQL.
 *
 * Invariant: what is opened is a pipe. Rows never go into a file that somebody has put in its place, and its end is never taken for
 * the end of the rows.
 */

import { closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs';
import type { Clock } from '../../lib/clock.ts';
import { systemCode, systemReason } from '../../lib/files.ts';
import type { RunProgram } from '../../lib/run-program.ts';
import { StorageError } from '../../model/errors.ts';

const MAKE_PIPE_MS = 10_000;
const OTHER = 'something else lies at its path';

export interface Pipe {
  readonly path: string;
  readonly clock: Clock;
  /** Makes the pipe where it is missing. @throws StorageError */
  make(): Promise<void>;
}

/** Makes the pipe, or takes the one that an earlier process has left. @throws StorageError */
export async function makePipe(
  path: string,
  run: RunProgram,
  searchPath: string,
  clock: Clock,
): Promise<Pipe> {
  const make = async (): Promise<void> => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isFIFO() === true) return;
    if (found !== undefined) throw unusable(path, OTHER, null);
    const environment = { PATH: searchPath };
    try {
      await run({ file: 'mkfifo', args: ['-m', '600', path], environment, timeoutMs: MAKE_PIPE_MS });
    } catch (error) {
      throw pipeError(path, error);
    }
  };
  await make();
  return { path, clock, make };
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

/** Opens the pipe for reading; one that somebody has removed is made again. Returns the descriptor. @throws StorageError */
export async function openForReading(pipe: Pipe): Promise<number> {
  await pipe.make();
  return opened(pipe.path, constants.O_RDONLY);
}

/** Opens the pipe for writing. Somebody has it open for reading. Returns the descriptor. @throws StorageError */
export function openForWriting({ path }: Pick<Pipe, 'path'>): number {
  return opened(path, constants.O_WRONLY);
}

function opened(path: string, mode: number): number {
  let fd: number;
  try {
    fd = openSync(path, mode | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (error) {
    throw unusable(path, systemReason(error), error);
  }
  if (fstatSync(fd).isFIFO()) return fd;
  closeSync(fd);
  throw unusable(path, OTHER, null);
}

/**
 * Refuses a pipe in whose place something else was put since it was opened: DuckDB may have written there. `opened` is its number in the
 * file system. @throws StorageError
 */
export function refuseReplaced({ path }: Pick<Pipe, 'path'>, opened: number): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.ino === opened) return;
  throw unusable(path, 'it was removed or replaced while it was in use', null);
}

function unusable(path: string, why: string, cause: unknown): StorageError {
  return new StorageError(
    `The named pipe ${path}, through which rows go to PostgreSQL, cannot be opened: ${why}.`,
    { hint: 'Remove what lies at its path; the next catch-up makes the pipe again.', cause },
  );
}
