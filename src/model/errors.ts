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

/** The options of a class that stands for several codes; `code` is missing where it is the most general one. */
type Coded<Code extends ErrorCode> = ErrorDetails & { readonly code?: Code };

/** The advice where only a further look helps. `doctor` leaves it out of its own report. */
export const ASK_DOCTOR = 'If it lasts: feed-sync doctor';

export abstract class FeedSyncError extends Error {
  abstract readonly code: ErrorCode;
  /** The advice to an operator; null where the message says everything. */
  readonly hint: string | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = new.target.name;
    this.hint = details.hint ?? null;
  }
}

/** Returns whatever was thrown as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** Returns the code of an error; every error of another class is a bug. */
export function errorCodeOf(error: unknown): ErrorCode {
  return error instanceof FeedSyncError ? error.code : 'bug';
}

export function errorEntryOf(error: unknown): ErrorEntry {
  return ERRORS[errorCodeOf(error)];
}

/** The error of a command line that makes no sense, or of SQL that does not run. */
export class UsageError extends FeedSyncError {
  readonly code = 'usage_invalid';
}

/** The configuration cannot be used. The message names the key, the fault and the source of the value. */
export class ConfigurationError extends FeedSyncError {
  readonly code = 'configuration_invalid';
}

/** The service could not be reached or gave no usable response, within the budget of retries. */
export class ServiceUnavailableError extends FeedSyncError {
  readonly code = 'service_unavailable';
  /** How long the service asked to wait, in milliseconds; null where it did not ask. */
  readonly retryAfterMs: number | null;
  /** True where the service refused the request for the number of requests. */
  readonly isThrottled: boolean;

  constructor(
    message: string,
    details: ErrorDetails & { readonly retryAfterMs?: number | null; readonly isThrottled?: boolean } = {},
  ) {
    super(message, details);
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.isThrottled = details.isThrottled ?? false;
  }
}

type BusyCode = 'mirror_busy' | 'table_locked' | 'checkpoint_busy' | 'instance_running';

/** The error of a lock that another process has: on the mirror (a reader) or on the data directory (another instance). */
export class BusyError extends FeedSyncError {
  readonly code: BusyCode;

  constructor(message: string, { code = 'mirror_busy', ...details }: Coded<BusyCode> = {}) {
    super(message, details);
    this.code = code;
  }
}

/** An operator or the system asked the process to stop before its work was done. */
export class InterruptedError extends FeedSyncError {
  readonly code = 'interrupted';
}

/** The command that is run after commits failed. It is notified of the same commits again. */
export class HookError extends FeedSyncError {
  readonly code = 'hook_failed';
}

/** A notification could not be delivered. The condition or occurrence that it reports stays due. */
export class NotificationError extends FeedSyncError {
  readonly code = 'notification_failed';
}

export type RefusalScope =
  | { readonly kind: 'workspace' }
  | { readonly kind: 'subscription'; readonly subscriptionId: string }
  | { readonly kind: 'dataset'; readonly datasetId: string }
  /** Concerns all tables that are to be retired: so many at once that an operator has to approve. */
  | { readonly kind: 'retirement' };

export interface Refusal extends RefusalWords {
  readonly scope: RefusalScope;
}

export interface RefusalWords {
  /** The operation that was refused, in the words of the log: `list subscriptions`. */
  readonly operation: string;
  /** Null where no response said so: feed-sync itself found the cause, and the code and the message are its own. */
  readonly status: number | null;
  /** The service's own code; null where it gave none (a 401 has none). */
  readonly code: string | null;
  /** The service's message, to be relayed as it is. */
  readonly message: string;
  readonly links: ReadonlyMap<string, string>;
}

/** A refusal by the service. Nothing is tried again until an operator has acted (the interface, Errors, rule 1). */
export class RefusalError extends FeedSyncError {
  readonly code = 'refused';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusalSentence(refusal));
    this.refusal = refusal;
  }
}

/** The service refused the request of an operator's command. Nothing is suspended for it. */
export class CommandRefusedError extends FeedSyncError {
  /** `input_refused` where the service may accept another id or address of the command line at once. */
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

/** The program that works on the destination refused what a command requested: its error, in the process of the command. */
export class RequestRefusedError extends FeedSyncError {
  readonly code: ErrorCode;

  constructor(message: string, { code, ...details }: ErrorDetails & { readonly code: ErrorCode }) {
    super(message, details);
    this.code = code;
  }
}

function refusalSentence({ operation, status, code, message }: RefusalWords): string {
  return `The service refused to ${operation} (${status} ${code ?? 'without a code'}): ${message}`;
}

/** The cursor is past the retention of the log (the interface, Events: 410). */
export class CursorExpiredError extends FeedSyncError {
  readonly code = 'cursor_expired';
  /** Service time of the response; null where unknown. */
  readonly readAt: Date | null;

  constructor(message: string, readAt: Date | null = null) {
    super(message);
    this.readAt = readAt;
  }
}

type ViolationCode = 'contract_violation' | 'response_too_large';

/** A response does not fit the interface; `path` is the offending field. Never applied in part. */
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

/** The error of data that cannot be mirrored unaltered: a bad file, a value that would have to be altered, a proof that failed. */
export class DataError extends FeedSyncError {
  /**
   * `content_mismatch`: the content was not read, and the statement or the transfer may be at fault, so the content is
   * retried sooner than content that was found wrong.
   */
  readonly code: DataCode;

  constructor(message: string, { code = 'data_invalid', ...details }: Coded<DataCode> = {}) {
    super(message, details);
    this.code = code;
  }
}

/** The changes of a version are invalid: a value would have to be altered, or a key is null or repeated. */
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

/** The most unexpected columns that an error names. */
const MAX_SHOWN_NAMES = 20;
/** The most characters of each name. */
const MAX_SHOWN_NAME = 200;

/** The error of files or rows of changes whose columns the schema lacks: the schemas may have been read too early. */
export class UnknownColumnsError extends DataError {
  readonly datasetId: string;
  readonly columns: readonly string[];

  /** `holder` names the file or row with the columns: `The file part-0.parquet of parcels`. */
  constructor(datasetId: string, columns: readonly string[], holder: string) {
    const names = columns
      .slice(0, MAX_SHOWN_NAMES)
      .map((name) => JSON.stringify(name.slice(0, MAX_SHOWN_NAME)));
    const rest = columns.length > names.length ? ` and ${columns.length - names.length} more` : '';
    super(`${holder} has columns that the schema does not know: ${names.join(', ')}${rest}.`, {
      code: 'columns_unknown',
      hint: 'The schemas were read again, and do not list them. Report it to the service.',
    });
    this.datasetId = datasetId;
    this.columns = columns;
  }
}

/**
 * The error of recorded changes that cannot be applied to the table although their values are valid: their counts differ, or they lack
 * something that the table needs. The dataset falls back to the snapshot.
 */
export class InapplicableChangesError extends FeedSyncError {
  readonly code = 'changes_inapplicable';
  readonly datasetId: string;
  /** The version of the changes. The changes of earlier versions may be sound. */
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

type StorageCode =
  | 'storage_failed'
  | 'mirror_missing'
  | 'mirror_damaged'
  | 'dataset_storage_failed'
  | 'disk_full'
  | 'copy_failed'
  | 'export_failed';

/** A local disk or file cannot be used; the message names the path. */
export class StorageError extends FeedSyncError {
  readonly code: StorageCode;

  constructor(message: string, { code = 'storage_failed', ...details }: Coded<StorageCode> = {}) {
    super(message, details);
    this.code = code;
  }
}

type DestinationCode =
  | 'destination_unavailable'
  | 'destination_refused'
  | 'node_unavailable'
  | 'reader_dependency';

/** The server of the destination cannot be used, or something in it stands in the way. The message names the database. */
export class DestinationError extends FeedSyncError {
  readonly code: DestinationCode;

  constructor(message: string, { code, ...details }: ErrorDetails & { readonly code: DestinationCode }) {
    super(message, details);
    this.code = code;
  }
}
