/**
 * The errors of the program. Few classes, each with a code, what to do about it by the program (`disposition`) and
 * by a person (`hint`). The message says what happened, to what and why; nobody decides anything by its text.
 */

import { shellWord } from '../lib/text.ts';

/**
 * - `retry`: passes by itself; tried again later.
 * - `reload`: the position is lost; start again from the manifest.
 * - `hold`: a person has to act first; nothing more is asked of the service until then.
 * - `stop`: goes on failing the same way until content, configuration or machine changes.
 */
export type Disposition = 'retry' | 'reload' | 'suspend' | 'stop';

export interface ErrorDetails {
  readonly hint?: string;
  readonly cause?: unknown;
}

export abstract class FeedSyncError extends Error {
  abstract readonly disposition: Disposition;
  /** What a person can do about it; null where the message says all there is. */
  readonly hint: string | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = new.target.name;
    this.hint = details.hint ?? null;
  }
}

/** A command line that makes no sense, or SQL of the user's that does not run. */
export class UsageError extends FeedSyncError {
  readonly disposition = 'stop';
}

/** A configuration that cannot be used, naming the key, the trouble and the source of the value. */
export class ConfigurationError extends FeedSyncError {
  readonly disposition = 'stop';
}

/** The service could not be reached or gave no usable answer, within the budget of retries. */
export class ServiceUnavailableError extends FeedSyncError {
  readonly disposition = 'retry';
  /** How long the service asked us to wait, in milliseconds; null where it did not. */
  readonly retryAfterMs: number | null;

  constructor(message: string, details: ErrorDetails & { readonly retryAfterMs?: number | null } = {}) {
    super(message, details);
    this.retryAfterMs = details.retryAfterMs ?? null;
  }
}

/** Something else holds what we need: another instance, a reader of the mirror. */
export class BusyError extends FeedSyncError {
  readonly disposition = 'retry';
}

/** A person or the system asked the process to stop before it was done. */
export class InterruptedError extends FeedSyncError {
  readonly disposition = 'retry';
}

/** The command that is run after commits failed. What it was to be told of, it is told again. */
export class HookError extends FeedSyncError {
  readonly disposition = 'retry';
}

export type RefusalScope =
  | { readonly kind: 'workspace' }
  | { readonly kind: 'subscription'; readonly subscriptionId: string }
  | { readonly kind: 'dataset'; readonly datasetId: string }
  /** Of all tables that are to be retired: so many at once that a person has to agree. */
  | { readonly kind: 'retirement' };

export interface Refusal extends RefusalWords {
  readonly scope: RefusalScope;
}

export interface RefusalWords {
  /** The operation that was refused, in the words of the log: `list subscriptions`. */
  readonly operation: string;
  /** Null where no answer said so: we found out ourselves, and the code and the message are ours. */
  readonly status: number | null;
  /** The service's own code; null where it gave none (a 401 has none). */
  readonly code: string | null;
  /** The service's message, to be relayed as it is. */
  readonly message: string;
  readonly links: ReadonlyMap<string, string>;
}

/** The service refused, and says so. Not tried again until a person has acted (the interface, Errors, rule 1). */
export class RefusalError extends FeedSyncError {
  readonly disposition = 'suspend';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusalSentence(refusal));
    this.refusal = refusal;
  }
}

/** The service refused what a person asked for by a command. It is told to that person, and holds nothing. */
export class CommandRefusedError extends FeedSyncError {
  readonly disposition = 'stop';
  readonly refusal: RefusalWords;
  /** Whether the refusal is about an id or an address of the command line: another command may be accepted at once. */
  readonly isAboutInput: boolean;

  constructor(refusal: RefusalWords, { isAboutInput = false }: { readonly isAboutInput?: boolean } = {}) {
    super(refusalSentence(refusal), {
      hint: isAboutInput
        ? 'Nothing is held for it. Correct what was given to the command, and give it again.'
        : 'Nothing is held for it. Once you have acted on it, give the command again.',
    });
    this.refusal = refusal;
    this.isAboutInput = isAboutInput;
  }
}

function refusalSentence({ operation, status, code, message }: RefusalWords): string {
  return `The service refused to ${operation} (${status} ${code ?? 'without a code'}): ${message}`;
}

/** The cursor is past the retention of the log (the interface, Events: 410). */
export class CursorExpiredError extends FeedSyncError {
  readonly disposition = 'reload';
  /** Service time of the answer that said so; null where it is not known. */
  readonly readAt: Date | null;

  constructor(message: string, readAt: Date | null = null) {
    super(message);
    this.readAt = readAt;
  }
}

/** An answer that does not fit the interface; `path` is the offending field. Never applied in part. */
export class ContractViolationError extends FeedSyncError {
  readonly disposition = 'retry';
  readonly path: string;

  constructor(message: string, path: string, details: ErrorDetails = {}) {
    super(message, details);
    this.path = path;
  }
}

/** The body of an answer is larger than `http.maxJsonBytes`. */
export class AnswerTooLargeError extends ContractViolationError {}

/** Content that cannot be mirrored as it is: a bad file, a value that would have to be bent, a proof that failed. */
export class DataError extends FeedSyncError {
  readonly disposition = 'stop';
}

/**
 * A file that is not what the service states of it: another digest or another length. Its content was not read, and the
 * statement or the transfer may be at fault, so it is tried again sooner than content that was found wrong.
 */
export class ContentMismatchError extends DataError {}

/** Changes of one version that do not say what they must: a value that would have to be bent, a key that is null or repeated. */
export class BadChangesError extends DataError {
  readonly datasetId: string;
  readonly version: number;

  /** `message` names version, page, column and value. */
  constructor(datasetId: string, version: number, message: string) {
    super(message, { hint: `To load the snapshot instead: feed-sync resync ${shellWord(datasetId)}` });
    this.datasetId = datasetId;
    this.version = version;
  }
}

/** Of columns that should not be there, an error shows so many. */
const MAX_SHOWN_NAMES = 20;
/** And so many characters of each. */
const MAX_SHOWN_NAME = 200;

/** Files or rows of changes hold columns that the schema does not know: the schemas may have been read too early. */
export class UnknownColumnsError extends DataError {
  readonly datasetId: string;
  readonly columns: readonly string[];

  /** `holder` is the file, or the row, where they are: `The file part-0.parquet of parcels`. */
  constructor(datasetId: string, columns: readonly string[], holder: string) {
    const names = columns
      .slice(0, MAX_SHOWN_NAMES)
      .map((name) => JSON.stringify(name.slice(0, MAX_SHOWN_NAME)));
    const rest = columns.length > names.length ? ` and ${columns.length - names.length} more` : '';
    super(`${holder} has columns that the schema does not know: ${names.join(', ')}${rest}.`, {
      hint: 'The schemas were read again, and do not list them. Tell the service.',
    });
    this.datasetId = datasetId;
    this.columns = columns;
  }
}

/**
 * Recorded changes that cannot lead the table on, though nothing is wrong with their values: their counts differ, or
 * they lack what the table needs. They give way to the snapshot.
 */
export class InapplicableChangesError extends FeedSyncError {
  readonly disposition = 'reload';
  readonly datasetId: string;
  /** The version whose changes they are. Those of earlier versions may be sound. */
  readonly version: number;
  /** A clause, without a full stop. */
  readonly why: string;

  constructor(datasetId: string, version: number, why: string) {
    super(`The changes of ${datasetId} version ${version} cannot be applied: ${why}.`);
    this.datasetId = datasetId;
    this.version = version;
    this.why = why;
  }
}

/** Local disk or file trouble, naming the path. */
export class StorageError extends FeedSyncError {
  readonly disposition = 'stop';
}

/** No copy of the mirror can be published: its disk or its folder. The mirror itself is none the worse for it. */
export class CopyError extends StorageError {}

/** Local trouble of one dataset alone: others may go on. */
export class DatasetStorageError extends StorageError {}

/** The disk has no room for the files of one dataset beside what is kept free: a smaller dataset may still fit. */
export class DiskFullError extends DatasetStorageError {}
