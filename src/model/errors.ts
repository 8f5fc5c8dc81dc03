/**
 * The errors of the program. Each has a code, from which all decisions follow. A class exists only where an error carries
 * values of its own or a caller catches it. The message says what happened, to what and why.
 */

import { shellWord } from '../lib/text.ts';
import { ERRORS, type ErrorCode, type ErrorEntry } from './error-codes.ts';

export interface ErrorDetails {
  readonly hint?: string;
  readonly cause?: unknown;
}

/** Of a class that stands for several codes: the code, where it is not the most general one. */
type Coded<Code extends ErrorCode> = ErrorDetails & { readonly code?: Code };

export abstract class FeedSyncError extends Error {
  abstract readonly code: ErrorCode;
  /** What a person can do about it; null where the message says all there is. */
  readonly hint: string | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = new.target.name;
    this.hint = details.hint ?? null;
  }
}

/** Every error that is none of ours is a bug. */
export function errorCodeOf(error: unknown): ErrorCode {
  return error instanceof FeedSyncError ? error.code : 'bug';
}

export function errorEntryOf(error: unknown): ErrorEntry {
  return ERRORS[errorCodeOf(error)];
}

/** A command line that makes no sense, or SQL of the user's that does not run. */
export class UsageError extends FeedSyncError {
  readonly code = 'usage_invalid';
}

/** A configuration that cannot be used, naming the key, the trouble and the source of the value. */
export class ConfigurationError extends FeedSyncError {
  readonly code = 'configuration_invalid';
}

/** The service could not be reached or gave no usable answer, within the budget of retries. */
export class ServiceUnavailableError extends FeedSyncError {
  readonly code = 'service_unavailable';
  /** How long the service asked us to wait, in milliseconds; null where it did not. */
  readonly retryAfterMs: number | null;

  constructor(message: string, details: ErrorDetails & { readonly retryAfterMs?: number | null } = {}) {
    super(message, details);
    this.retryAfterMs = details.retryAfterMs ?? null;
  }
}

type BusyCode = 'mirror_busy' | 'checkpoint_busy' | 'instance_running';

/** Another process holds what we need: a reader the mirror, another instance the data directory. */
export class BusyError extends FeedSyncError {
  readonly code: BusyCode;

  constructor(message: string, { code = 'mirror_busy', ...details }: Coded<BusyCode> = {}) {
    super(message, details);
    this.code = code;
  }
}

/** A person or the system asked the process to stop before it was done. */
export class InterruptedError extends FeedSyncError {
  readonly code = 'interrupted';
}

/** The command that is run after commits failed. What it was to be told of, it is told again. */
export class HookError extends FeedSyncError {
  readonly code = 'hook_failed';
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
  readonly code = 'refused';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusalSentence(refusal));
    this.refusal = refusal;
  }
}

/** The service refused what an operator asked for by a command. Nothing is suspended for it. */
export class CommandRefusedError extends FeedSyncError {
  /** `input_refused` where another id or address of the command line may be accepted at once. */
  readonly code: 'command_refused' | 'input_refused';
  readonly refusal: RefusalWords;

  constructor(refusal: RefusalWords, code: 'command_refused' | 'input_refused' = 'command_refused') {
    super(refusalSentence(refusal), {
      hint:
        code === 'input_refused'
          ? 'It suspends nothing. Correct the input of the command, and run it again.'
          : 'It suspends nothing. Once you have acted on it, run the command again.',
    });
    this.code = code;
    this.refusal = refusal;
  }
}

function refusalSentence({ operation, status, code, message }: RefusalWords): string {
  return `The service refused to ${operation} (${status} ${code ?? 'without a code'}): ${message}`;
}

/** The cursor is past the retention of the log (the interface, Events: 410). */
export class CursorExpiredError extends FeedSyncError {
  readonly code = 'cursor_expired';
  /** Service time of the answer that said so; null where it is not known. */
  readonly readAt: Date | null;

  constructor(message: string, readAt: Date | null = null) {
    super(message);
    this.readAt = readAt;
  }
}

type ViolationCode = 'contract_violation' | 'response_too_large';

/** An answer that does not fit the interface; `path` is the offending field. Never applied in part. */
export class ContractViolationError extends FeedSyncError {
  readonly code: ViolationCode;
  readonly path: string;

  constructor(
    message: string,
    path: string,
    { code = 'contract_violation', ...details }: Coded<ViolationCode> = {},
  ) {
    super(message, details);
    this.code = code;
    this.path = path;
  }
}

export const DATA_CODES = ['data_invalid', 'content_mismatch', 'changes_invalid', 'columns_unknown'] as const;
type DataCode = (typeof DATA_CODES)[number];

/** Content that cannot be mirrored as it is: a bad file, a value that would have to be bent, a proof that failed. */
export class DataError extends FeedSyncError {
  /**
   * `content_mismatch`: the content was not read, and the statement or the transfer may be at fault, so it is tried again
   * sooner than content that was found wrong.
   */
  readonly code: DataCode;

  constructor(message: string, { code = 'data_invalid', ...details }: Coded<DataCode> = {}) {
    super(message, details);
    this.code = code;
  }
}

/** Changes of one version that do not say what they must: a value that would have to be bent, a key that is null or repeated. */
export class BadChangesError extends DataError {
  readonly datasetId: string;
  readonly version: number;

  /** `message` names version, page, column and value. */
  constructor(datasetId: string, version: number, message: string) {
    super(message, {
      code: 'changes_invalid',
      hint: `To load the snapshot instead: feed-sync resync ${shellWord(datasetId)}`,
    });
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
      code: 'columns_unknown',
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
  readonly code = 'changes_inapplicable';
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

type StorageCode = 'storage_failed' | 'dataset_storage_failed' | 'disk_full' | 'copy_failed';

/** A local disk or file cannot be used; the message names the path. */
export class StorageError extends FeedSyncError {
  readonly code: StorageCode;

  constructor(message: string, { code = 'storage_failed', ...details }: Coded<StorageCode> = {}) {
    super(message, details);
    this.code = code;
  }
}
