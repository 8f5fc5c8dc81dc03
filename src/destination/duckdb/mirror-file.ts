/**
 * The real location of the mirror. DuckDB checks real paths against its allowed folders, and keeps the log beside the given
 * path. So every process must name the file the same way.
 */

import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { backoffDelayMs, type Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import {
  cutFile,
  fileInTheWay,
  makeDirectory,
  pipeAmong,
  remove,
  systemCode,
  systemReason,
} from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import {
  QUARANTINE_INFIX,
  quarantine,
  quarantinedPath,
  removeOldestLogs,
  type StoreFile,
} from '../../lib/quarantine.ts';
import { ConfigurationError, InterruptedError, StorageError } from '../../model/errors.ts';
import { busy, DuckDbError } from '../../staging/engine/errors.ts';

/**
 * Resolves the links in the path, also of a file that does not exist yet, and creates its folder.
 * @throws StorageError, ConfigurationError
 */
export async function mirrorPath(path: string): Promise<string> {
  try {
    await makeDirectory('destination.make-directory', dirname(resolve(path)));
    const real = await withoutLinks(resolve(path));
    if (!real.includes('?')) return real;
  } catch (cause) {
    throw new StorageError(`The folder of the mirror ${path} cannot be used: ${systemReason(cause)}.`, {
      hint: 'Make it writable, or set destination.path (FEED_SYNC_DESTINATION_PATH).',
      cause,
    });
  }
  // DuckDB reads the rest as the query of an address, and would put the name of its log before it.
  throw new ConfigurationError(`The path of the mirror has a question mark in it: ${path}.`, {
    hint: 'Set destination.path (FEED_SYNC_DESTINATION_PATH) or dataDir to a path without one.',
  });
}

/** Returns the path as the system resolves it. A link may lead to a file that does not exist yet. @throws the system's error */
export async function withoutLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
  const place = join(await realpath(dirname(path)), basename(path));
  const target = await targetOf(place);
  return target === null ? place : withoutLinks(resolve(dirname(place), target));
}

/** Returns null when the path is no link. */
async function targetOf(path: string): Promise<string | null> {
  try {
    return await readlink(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT' || systemCode(error) === 'EINVAL') return null;
    throw error;
  }
}

/** A DuckDB file starts with a checksum of 8 bytes, followed by these. */
const MAGIC = Buffer.from('DUCK');
const MAGIC_OFFSET = 8;
/** Two further headers follow. Each states the bytes of a block, and then the rows of a vector. */
const HEADER_BYTES = 4_096;
const BLOCK_BYTES_OFFSET = 40;
const LEAST_BLOCK_BYTES = 16_384n;
const MOST_BLOCK_BYTES = 262_144n;
const VECTOR_ROWS_OFFSET = 48;
const VECTOR_ROWS = 2_048n;

export const WAL_SUFFIX = '.wal';

type FileState = 'absent' | 'empty' | 'database' | 'other';

/** As much as a disk loses at once. */
const SECTOR_BYTES = 512;
/** Far above what DuckDB writes before it syncs a new file. */
const MAX_BLANK_BYTES = 1_000_000;

/**
 * Classifies the file by its first bytes. A damaged database still counts as a `database` while these bytes are whole, or zeroes
 * before a header of DuckDB: images of disks begin with zeroes, too. A new file may have nothing but zeroes after a power cut; it counts
 * as `empty`.
 */
export async function fileState(path: string): Promise<FileState> {
  let file: FileHandle;
  try {
    // A named pipe would otherwise be waited for until somebody writes into it.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return 'absent';
    const inTheWay = fileInTheWay(path);
    if (inTheWay !== null) {
      const message = `The mirror ${path} cannot be opened: ${inTheWay} is a file, where a folder is needed.`;
      throw new StorageError(message, { hint: 'Move the file away, or set another path.', cause: error });
    }
    throw new StorageError(`The mirror ${path} cannot be opened: ${systemReason(error)}.`, {
      hint: 'Make it readable for this user, or set dataDir or destination.path to another place.',
      cause: error,
    });
  }
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return 'other';
    const head = Buffer.alloc(3 * HEADER_BYTES);
    const { bytesRead } = await file.read(head, 0, head.length, 0);
    if (bytesRead === 0) return 'empty';
    if (head.subarray(MAGIC_OFFSET, MAGIC_OFFSET + MAGIC.length).equals(MAGIC)) return 'database';
    if (!isBlank(head.subarray(0, SECTOR_BYTES))) return 'other';
    if (isHeader(head.subarray(HEADER_BYTES)) || isHeader(head.subarray(2 * HEADER_BYTES))) return 'database';
    const isWhollyBlank = stats.size <= MAX_BLANK_BYTES && isBlank(await file.readFile());
    return isWhollyBlank ? 'empty' : 'other';
  } finally {
    await file.close();
  }
}

function isHeader(bytes: Buffer): boolean {
  const blockBytes = bytes.readBigUInt64LE(BLOCK_BYTES_OFFSET);
  const isBlockSize = blockBytes >= LEAST_BLOCK_BYTES && blockBytes <= MOST_BLOCK_BYTES;
  return isBlockSize && bytes.readBigUInt64LE(VECTOR_ROWS_OFFSET) === VECTOR_ROWS;
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/**
 * Returns the `fileState` of a file that DuckDB is to open as the mirror. DuckDB must not open any other file: it recognises other
 * databases and would load an extension for them.
 * @throws ConfigurationError when the file never was a DuckDB database, StorageError when it or its log cannot be read.
 */
export async function mirrorFileState(path: string): Promise<Exclude<FileState, 'other'>> {
  const state = await fileState(path);
  if (state === 'other') throw notADatabase(path);
  const pipe = pipeAmong([path + WAL_SUFFIX]);
  if (pipe === null) return state;
  throw new StorageError(`The mirror ${path} cannot be opened: its log ${pipe} is a named pipe.`, {
    hint: 'Move the pipe away.',
  });
}

/**
 * Moves an unreadable file away, so that a new mirror can be created at `path`. `reason` is DuckDB's error.
 * @throws ConfigurationError when the file is not a mirror, StorageError after `MAX_QUARANTINED` files.
 */
export async function quarantineMirror(path: string, reason: string, now: Date, log: Log): Promise<void> {
  const state = await mirrorFileState(path);
  if (state === 'empty') {
    // A process or a disk that failed during creation left the file without content: there is nothing to keep.
    await remove('destination.remove-empty', path);
    return;
  }
  const target = await quarantine(path, FILES, now, (earlier) => unreadableAgain(path, reason, earlier));
  log.error(
    { path, quarantinedAs: target, why: reason },
    'The mirror cannot be read: quarantined, and built again.',
  );
}

/** DuckDB names where the content of the first entry begins that is not whole; before it are its length and checksum. */
const TORN_ENTRY = /entry at byte position (\d+)/;
const ENTRY_HEADER_BYTES = 16;

/**
 * Cuts the log before the entry that DuckDB names as unreadable: the commits before it stay. A power cut may leave the end of a log so,
 * which was not reported. Any other unreadable log moves away; the mirror is then as it was after its last checkpoint. The whole log is
 * kept in both cases, and the oldest that was kept so goes first. @throws StorageError
 */
export async function quarantineLog(
  path: string,
  reason: string,
  now: Date,
  log: Log,
): Promise<'cut' | 'moved'> {
  await makeRoomForLog(path, log);
  const wholeBytes = Number(TORN_ENTRY.exec(reason)?.[1] ?? 0) - ENTRY_HEADER_BYTES;
  if (wholeBytes > 0 && wholeBytes < (await stat(path + WAL_SUFFIX)).size) {
    await cutLog(path, wholeBytes, reason, now, log);
    return 'cut';
  }
  const target = await quarantine(path, [LOG_FILE], now, (earlier) => unreadableAgain(path, reason, earlier));
  log.error(
    { path, quarantinedAs: target + WAL_SUFFIX, why: reason },
    'The log of the mirror cannot be read: quarantined. The commits since the last checkpoint are made again.',
  );
  return 'moved';
}

/** A log that cannot be removed is in nobody's way: the mirror is opened all the same. */
async function makeRoomForLog(path: string, log: Log): Promise<void> {
  try {
    for (const removed of await removeOldestLogs(path, OLD_LOG)) {
      log.warn(
        { path: removed },
        'The oldest of the quarantined logs beside the mirror was removed: another one comes.',
      );
    }
  } catch (error) {
    log.warn(
      { path, why: systemReason(error) },
      'The oldest of the quarantined logs beside the mirror cannot be removed.',
    );
  }
}

async function cutLog(path: string, bytes: number, reason: string, now: Date, log: Log): Promise<void> {
  const target = quarantinedPath(path, now) + WAL_SUFFIX;
  try {
    await cutFile('destination.cut-log', path + WAL_SUFFIX, bytes, target);
  } catch (cause) {
    throw new StorageError(
      `The end of the log of the mirror ${path} cannot be read, and it could not be cut: ${systemReason(cause)}.`,
      { hint: 'The log is copied beside the mirror first: make room there.', cause },
    );
  }
  log.error(
    { path, quarantinedAs: target, why: reason },
    'The end of the log of the mirror cannot be read: the log was cut. The commits after that are made again.',
  );
}

const LOG_FILE: StoreFile = { suffix: WAL_SUFFIX, effect: 'destination.quarantine-log' };
const OLD_LOG: StoreFile = { suffix: WAL_SUFFIX, effect: 'destination.remove-old-log' };

/** The log moves first: a crash between the two renames leaves an older readable mirror, never a log without its file. */
const FILES: readonly StoreFile[] = [LOG_FILE, { suffix: '', effect: 'destination.quarantine' }];

function unreadableAgain(path: string, reason: string, earlier: readonly string[]): StorageError {
  return new StorageError(
    `The mirror ${path} cannot be read (${reason}), and ${earlier.length} unreadable mirrors already lie beside it.`,
    {
      hint: `Check the disk, then move ${path}${QUARANTINE_INFIX}* away, or set destination.path to another disk.`,
    },
  );
}

function notADatabase(path: string): ConfigurationError {
  return new ConfigurationError(`${path} is no DuckDB database, so it is left as it is.`, {
    hint: 'Set destination.path (FEED_SYNC_DESTINATION_PATH) to a file of its own, or move this one away.',
  });
}

const LOCK_BACKOFF = { baseDelayMs: 20, maxDelayMs: 1_000 };

export interface WaitOptions {
  readonly path: string;
  readonly lockWaitMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal;
  /** Called with a wait that an operator may notice. */
  readonly log?: Log;
  /** True for a reader, which waits for a writer. */
  readonly isReader?: boolean;
}

const HINT = 'End that process, or let it open the mirror for a shorter time.';
const HINT_FOR_READERS =
  'A running feed-sync lets it go after its commit. Any other process that writes has to end.';

/** A shorter wait is no news: readers open the file for a moment. */
const REPORTED_WAIT_MS = 1_000;

/**
 * Repeats `attempt` while another process has the file open.
 * @throws BusyError once `lockWaitMs` have passed; InterruptedError; any other error of `attempt`, at once.
 */
export async function waitForFile<T>(options: WaitOptions, attempt: () => Promise<T>): Promise<T> {
  const { clock, lockWaitMs, path, random, signal } = options;
  const deadlineMs = clock.monotonicMs() + lockWaitMs;
  const report = waitReporter(options);
  for (let retry = 1; ; retry += 1) {
    if (signal?.aborted) throw interrupted(path, signal.reason);
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof DuckDbError) || error.fault !== 'locked') throw error;
      const remainingMs = deadlineMs - clock.monotonicMs();
      if (remainingMs <= 0) throw busy(path, error.holderProcessId, error);
      report(remainingMs, error.holderProcessId);
      // At least a millisecond: a jitter of zero would make this a busy loop.
      const delayMs = Math.min(remainingMs, Math.max(1, backoffDelayMs(LOCK_BACKOFF, retry, random)));
      await clock.sleep(delayMs, signal).catch((cause: unknown) => {
        throw interrupted(path, cause);
      });
    }
  }
}

/** Reports one wait once, as soon as it is long. */
function waitReporter({ lockWaitMs, path, log, isReader = false }: WaitOptions) {
  const hint = isReader ? HINT_FOR_READERS : HINT;
  let isReported = false;
  return (remainingMs: number, holderProcessId: number | null): void => {
    if (log === undefined || isReported || lockWaitMs - remainingMs < REPORTED_WAIT_MS) return;
    isReported = true;
    const holder = holderProcessId === null ? {} : { holderProcess: holderProcessId };
    log.warn({ path, remainingMs, ...holder, hint }, 'Another process holds the mirror: waiting for it.');
  };
}

export function interrupted(path: string, cause: unknown): InterruptedError {
  return new InterruptedError(`The wait for the mirror ${path} was interrupted.`, { cause });
}
