/**
 * What an error of DuckDB means to us. DuckDB gives errors to JavaScript as text only; with the option
 * `errors_as_json` that text carries the kind of the exception and the number of the system's error, and those decide.
 * Where it has one kind for several troubles, words of the message decide. That happens in this file and nowhere else.
 */

import { getSystemErrorName } from 'node:util';

export type Trouble =
  /** Another process has the file open. */
  | 'locked'
  /** FATAL or INTERNAL for a reason of DuckDB's own. Data on disk is fine. */
  | 'gave-up'
  | 'disk-full'
  /** Stopped by ourselves: less than what is to stay free was left on the disk that the message names. */
  | 'no-room'
  | 'out-of-memory'
  | 'not-permitted'
  | 'folder-missing'
  /** The database's file or its log cannot be read: cut, flipped, or no database at all. */
  | 'unreadable'
  /** The file was written by a newer DuckDB, or is encrypted: fine, but not for us. */
  | 'foreign'
  | 'interrupted'
  /** The statement itself or the data that it read. */
  | 'statement';

/** An error of DuckDB, diagnosed. Stays inside this folder; what leaves it is an error of the model. */
export class DuckDbError extends Error {
  override readonly name = 'DuckDbError';
  readonly trouble: Trouble;
  /** Whether the instance answers nothing more until it is opened again. */
  readonly endsInstance: boolean;
  /** The process that holds the file, where DuckDB says. */
  readonly holderProcessId: number | null;

  constructor(trouble: Trouble, endsInstance: boolean, message: string, cause: unknown) {
    super(message, { cause });
    this.trouble = trouble;
    this.endsInstance = endsInstance;
    this.holderProcessId = Number(/\(PID (\d{1,10})\)/.exec(message)?.[1] ?? 0) || null;
  }
}

const TROUBLE_BY_SYSTEM_ERROR: ReadonlyMap<string, Trouble> = new Map([
  ['ENOSPC', 'disk-full'],
  ['EDQUOT', 'disk-full'],
  ['EFBIG', 'disk-full'],
  ['EACCES', 'not-permitted'],
  ['EPERM', 'not-permitted'],
  ['EROFS', 'not-permitted'],
  ['ENOENT', 'folder-missing'],
  ['ENOTDIR', 'folder-missing'],
  // A folder where the file should be. Other system errors say nothing of the file, which may be fine.
  ['EISDIR', 'unreadable'],
]);
const LOCKED = /^Could not set lock on file/;
const FOREIGN = /we can only read versions|storage version greater than|[Cc]annot open encrypted database/;
const UNREADABLE =
  /not a valid DuckDB database file|^Corrupt |Could not read enough bytes|Failure while replaying WAL|Failed to read WAL/;
/** What the system said, where a COMMIT or CHECKPOINT failed: DuckDB repeats its text and leaves out its number. */
const DISK_FULL =
  /(?:Failed to commit|Checkpoint failed|invalidated).*(?:No space left on device|File too large|Disk quota exceeded)/s;
const TEMPORARY_SPACE = /max_temp_directory_size/;

const TROUBLE_BY_KIND: ReadonlyMap<string, Trouble> = new Map([
  ['FATAL', 'gave-up'],
  ['INTERNAL', 'gave-up'],
  ['INTERRUPT', 'interrupted'],
  ['Serialization', 'unreadable'],
]);

const ENDS_INSTANCE: ReadonlySet<string> = new Set(['FATAL', 'INTERNAL']);

/** Whatever was thrown by a call of DuckDB, as an error that says what it means. */
export function diagnose(thrown: unknown): DuckDbError {
  if (thrown instanceof DuckDbError) return thrown;
  const original = thrown instanceof Error ? thrown.message : String(thrown);
  const { kind, message, systemError } = parse(original);
  return new DuckDbError(troubleOf(kind, message, systemError), ENDS_INSTANCE.has(kind), message, thrown);
}

function troubleOf(kind: string, message: string, systemError: string | null): Trouble {
  if (LOCKED.test(message)) return 'locked';
  if (systemError !== null) return TROUBLE_BY_SYSTEM_ERROR.get(systemError) ?? 'statement';
  if (DISK_FULL.test(message)) return 'disk-full';
  if (UNREADABLE.test(message)) return 'unreadable';
  if (FOREIGN.test(message)) return 'foreign';
  if (kind === 'Out of Memory') return TEMPORARY_SPACE.test(message) ? 'disk-full' : 'out-of-memory';
  return TROUBLE_BY_KIND.get(kind) ?? 'statement';
}

interface Parsed {
  readonly kind: string;
  readonly message: string;
  /** The name of the system's error, like `ENOSPC`. */
  readonly systemError: string | null;
}

/** The JSON may follow a plain prefix (`Parser Error: {…}`). Text without JSON (`FATAL Error: …`) is taken apart as it is. */
function parse(original: string): Parsed {
  const start = original.indexOf('{"exception_type"');
  if (start >= 0) {
    try {
      return fromJson(JSON.parse(original.slice(start)));
    } catch {
      // Cut short or extended by DuckDB: then it is read like plain text.
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
