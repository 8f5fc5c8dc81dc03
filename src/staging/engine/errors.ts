/**
 * Diagnoses errors of DuckDB. DuckDB gives errors to JavaScript as text only. With the option `errors_as_json` the text carries
 * the kind of the exception and the number of the system's error, which decide. Only this file compares words of a message, for
 * kinds that cover several faults.
 */

import { dirname } from 'node:path';
import { getSystemErrorName } from 'node:util';
import { freeBytes, whyFull } from '../../lib/files.ts';
import { formatBytes } from '../../lib/units.ts';
import {
  asError,
  BusyError,
  ConfigurationError,
  type FeedSyncError,
  InterruptedError,
  StorageError,
} from '../../model/errors.ts';

export type Fault =
  /** Another process has the file open. */
  | 'locked'
  /** A FATAL or INTERNAL error of DuckDB itself. The data on disk is intact. */
  | 'gave-up'
  | 'disk-full'
  /** This program stopped the statement, because the disk named in the message reached its reserve. */
  | 'no-space'
  | 'out-of-memory'
  | 'not-permitted'
  | 'folder-missing'
  /** The database file or its log cannot be read: it is cut, damaged, or not a database. */
  | 'unreadable'
  /** A newer DuckDB wrote the file, or the file is encrypted. It is intact. */
  | 'foreign'
  | 'interrupted'
  /** The statement itself or the data that it read is at fault. */
  | 'statement';

/** A diagnosed error of DuckDB. Callers outside staging and the destination receive errors of the model instead. */
export class DuckDbError extends Error {
  override readonly name = 'DuckDbError';
  readonly fault: Fault;
  /** True when the instance needs to be reopened. */
  readonly endsInstance: boolean;
  /** The process that holds the file, if DuckDB names it. */
  readonly holderProcessId: number | null;

  constructor(fault: Fault, endsInstance: boolean, message: string, cause: unknown) {
    super(message, { cause });
    this.fault = fault;
    this.endsInstance = endsInstance;
    this.holderProcessId = Number(/\(PID (\d{1,10})\)/.exec(message)?.[1] ?? 0) || null;
  }
}

/**
 * Returns the error of a file that DuckDB can read, whose bookkeeping holds what this program never writes: a block in the place of another
 * one is whole. `what` is a clause.
 */
export function damagedBookkeeping(what: string): DuckDbError {
  return new DuckDbError('unreadable', false, `Its bookkeeping holds an impossible value: ${what}`, null);
}

const ERROR_BY_SYSTEM_ERROR: ReadonlyMap<string, Fault> = new Map([
  ['ENOSPC', 'disk-full'],
  ['EDQUOT', 'disk-full'],
  ['EFBIG', 'disk-full'],
  ['EACCES', 'not-permitted'],
  ['EPERM', 'not-permitted'],
  ['EROFS', 'not-permitted'],
  ['ENOENT', 'folder-missing'],
  ['ENOTDIR', 'folder-missing'],
  // A folder lies at the file's path. Other system errors do not prove that the file is damaged.
  ['EISDIR', 'unreadable'],
]);
const LOCKED = /^Could not set lock on file/;
/** With EINVAL: a damaged number of a block leads to a place that no file has. Length and memory of a reading are DuckDB's own. */
const READING = /Could not read from file/;
const FOREIGN = /we can only read versions|storage version greater than|[Cc]annot open encrypted database/;
const UNREADABLE = new RegExp(
  [
    'not a valid DuckDB database file',
    '(?:^|error: )Corrupt ',
    'Could not read enough bytes',
    'Failure while replaying WAL',
    'Failed to read WAL',
    // A whole block in the place of another one, or the end of one that is cut.
    '[Cc]orrupt(?:ed)? (?:database|(?:RLE|ALP|ALPRD|Patas) segment)',
    'Invalid (?:bitpacking mode|bit width for bitpacking)',
    'invalid (?:fsst_symbol_table_offset|segment_block_offset|block ID in index storage)',
    'appears to be corrupted',
    'in MetadataReader',
  ].join('|'),
);
/** After a failed COMMIT or CHECKPOINT, DuckDB repeats the system's text without its number. */
const DISK_FULL =
  /(?:Failed to commit|Checkpoint failed|invalidated).*(?:No space left on device|File too large|Disk quota exceeded)/s;
const TEMPORARY_SPACE = /max_temp_directory_size/;

const ERROR_BY_KIND: ReadonlyMap<string, Fault> = new Map([
  ['FATAL', 'gave-up'],
  ['INTERNAL', 'gave-up'],
  ['Serialization', 'unreadable'],
]);

const ENDS_INSTANCE: ReadonlySet<string> = new Set(['FATAL', 'INTERNAL']);

/** Diagnoses any value thrown by a call of DuckDB. */
export function diagnose(thrown: unknown): DuckDbError {
  if (thrown instanceof DuckDbError) return thrown;
  const original = thrown instanceof Error ? thrown.message : String(thrown);
  const { kind, message, systemError } = parse(original);
  return new DuckDbError(faultOf(kind, message, systemError), ENDS_INSTANCE.has(kind), message, thrown);
}

function faultOf(kind: string, message: string, systemError: string | null): Fault {
  if (LOCKED.test(message)) return 'locked';
  if (systemError === 'EINVAL' && READING.test(message)) return 'unreadable';
  if (systemError !== null) return ERROR_BY_SYSTEM_ERROR.get(systemError) ?? 'statement';
  if (DISK_FULL.test(message)) return 'disk-full';
  // Of any error while a log is replayed, DuckDB says that the replay failed.
  if (kind === 'Out of Memory') return TEMPORARY_SPACE.test(message) ? 'disk-full' : 'out-of-memory';
  if (kind === 'INTERRUPT') return 'interrupted';
  if (UNREADABLE.test(message)) return 'unreadable';
  if (FOREIGN.test(message)) return 'foreign';
  return ERROR_BY_KIND.get(kind) ?? 'statement';
}

interface Parsed {
  readonly kind: string;
  readonly message: string;
  /** The name of the system's error, such as `ENOSPC`. */
  readonly systemError: string | null;
}

/** The JSON may follow a plain prefix (`Parser Error: {…}`). A text without JSON (`FATAL Error: …`) is parsed as plain text. */
function parse(original: string): Parsed {
  const start = original.indexOf('{"exception_type"');
  if (start >= 0) {
    try {
      return fromJson(JSON.parse(original.slice(start)));
    } catch {
      // DuckDB has cut or extended the JSON: it is parsed like plain text.
    }
  }
  const [, kind, message] = /^([A-Za-z ]+?) Error: (.*)$/s.exec(original) ?? [];
  return { kind: kind ?? '', message: message ?? original, systemError: null };
}

interface ErrorJson {
  readonly exception_type?: unknown;
  readonly exception_message?: unknown;
  readonly errno?: unknown;
}

function fromJson(json: ErrorJson): Parsed {
  const number = Number(json.errno);
  return {
    kind: String(json.exception_type),
    message: String(json.exception_message),
    systemError: number > 0 ? getSystemErrorName(-number) : null,
  };
}

const LACKED_BLOCK = /could not allocate block of size (\d+\.\d) ([KMGT])iB/;
const UNITS = 'KMGT';

/** Returns the bytes of the block that DuckDB has lacked, rounded by DuckDB; 0 where it has lacked something else. */
export function lackedBlockBytes({ fault, message }: DuckDbError): number {
  const [, size = '0', unit = 'K'] = (fault === 'out-of-memory' && LACKED_BLOCK.exec(message)) || [];
  return Number(size) * 1_024 ** (UNITS.indexOf(unit) + 1);
}

/** The location of the mirror, and the numeric id of the process's user, if the system has one. */
export interface MirrorPlace {
  readonly path: string;
  readonly uid?: number | null;
}

/** Turns any thrown value into an error of the model; an error of DuckDB becomes a failure of the mirror. */
export async function mirrorError(error: unknown, place: MirrorPlace): Promise<Error> {
  if (error instanceof DuckDbError) return await mirrorFailure(error, place);
  return asError(error);
}

/** What to do where DuckDB lacks memory. */
export const MORE_MEMORY =
  'Raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT), or set duckdb.threads (FEED_SYNC_DUCKDB_THREADS) to 1.';

/** Describes the failure of the mirror at `path`, for every fault that no dataset's data has caused. */
export async function mirrorFailure(error: DuckDbError, { path, uid }: MirrorPlace): Promise<FeedSyncError> {
  const cause = error;
  // Only some of DuckDB's messages end with a full stop.
  const said = error.message.replace(/[.!]$/, '');
  switch (error.fault) {
    case 'locked':
      return busy(path, error.holderProcessId, cause);
    case 'interrupted':
      return new InterruptedError(`Work on the mirror ${path} was interrupted.`, { cause });
    case 'disk-full': {
      const needed = 'Free space on it; a reload needs about the size of the table once more.';
      const { fact, hint } = await fullDisk(path, dirname(path), needed);
      return new StorageError(`${fact}: ${said}.`, { hint, cause });
    }
    case 'no-space':
      return new StorageError(
        `Not enough space in ${said}: a table of ${path} needs more than is free beyond disk.reserve.`,
        {
          code: 'disk_full',
          hint: 'Free some space. Where the files are small, report it to the service: few bytes can hold very long rows.',
          cause,
        },
      );
    case 'out-of-memory':
      return new StorageError(`DuckDB needs more memory than it may use for ${path}: ${firstLine(error)}.`, {
        hint: MORE_MEMORY,
        cause,
      });
    case 'not-permitted':
      return new StorageError(`The user with id ${uid ?? 'unknown'} may not use ${path}: ${said}.`, {
        hint: 'Give this user the file and its folder, for reading and writing.',
        cause,
      });
    case 'folder-missing':
      return new StorageError(`The folder of the mirror ${path} is not there: ${said}.`, {
        hint: 'Create the folder, or set destination.path (FEED_SYNC_DESTINATION_PATH).',
        cause,
      });
    case 'foreign':
      return new ConfigurationError(`The mirror ${path} is not for this version of DuckDB: ${said}.`, {
        hint: 'Use the newer version of feed-sync that wrote it, or set destination.path to another file.',
        cause,
      });
    case 'unreadable':
      return new StorageError(`The mirror ${path} is damaged: ${said}.`, {
        code: 'mirror_damaged',
        hint: 'Check the disk. To find the damaged tables and load them again: feed-sync verify, then feed-sync once.',
        cause,
      });
    default:
      return new StorageError(`The mirror ${path} cannot be used: ${said}.`, { cause });
  }
}

/** Returns a sentence without its full stop: `path` takes nothing more, and so much is free. `hint` helps where bytes are missing. */
export async function fullDisk(
  path: string,
  folder: string,
  hint: string,
): Promise<{ readonly fact: string; readonly hint: string }> {
  const free = await freeBytes(folder).then(formatBytes, () => 'an unknown number of bytes');
  const why = whyFull(folder, { fact: `The disk of ${path} is full`, hint });
  return { ...why, fact: `${why.fact} (${free} free)` };
}

/** Returns the error where another process has had the mirror open for longer than this one may wait. */
export function busy(path: string, holderProcessId: number | null, cause: unknown): BusyError {
  const holder = holderProcessId === null ? 'another process' : `the process ${holderProcessId}`;
  return new BusyError(`The mirror ${path} is held by ${holder}.`, {
    hint: 'End the reader, or let it open the mirror for a shorter time; then run again.',
    cause,
  });
}

/** Returns the first line of a message, because DuckDB appends advice for its own users. */
export function firstLine(error: Error): string {
  return error.message.split('\n', 1)[0] ?? '';
}
