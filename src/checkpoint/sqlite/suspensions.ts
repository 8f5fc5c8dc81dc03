/** Suspensions, at most one for each scope, and failures, at most one for each dataset. */

import type Database from 'better-sqlite3';
import { unreachable } from '../../lib/assert.ts';
import { ERRORS, type ErrorCode } from '../../model/error-codes.ts';
import type { RefusalScope } from '../../model/errors.ts';
import type { DifferingContent, Failure, Suspension } from '../checkpoint.ts';
import { cut, cutOrNull, MAX_LINKS, MAX_TEXT_CHARACTERS, whole } from './errors.ts';

const SELECT_SUSPENSIONS = `
  SELECT scope_kind AS scopeKind, scope_id AS scopeId, operation, status, code, message, links,
    suspended_at AS suspendedAt, key_hash AS keyHash
  FROM suspensions ORDER BY scope_kind, scope_id`;

const REPLACE_SUSPENSION = `
  INSERT INTO suspensions (scope_kind, scope_id, operation, status, code, message, links, suspended_at, key_hash)
  VALUES (@scopeKind, @scopeId, @operation, @status, @code, @message, @links, @suspendedAt, @keyHash)
  ON CONFLICT DO UPDATE SET
    operation = excluded.operation, status = excluded.status, code = excluded.code, message = excluded.message,
    links = excluded.links, suspended_at = excluded.suspended_at, key_hash = excluded.key_hash`;

const DELETE_SUSPENSION = 'DELETE FROM suspensions WHERE scope_kind = @scopeKind AND scope_id = @scopeId';

interface ScopeRow {
  readonly scopeKind: RefusalScope['kind'];
  /** Empty for the workspace and for retirements. */
  readonly scopeId: string;
}

interface SuspensionRow extends ScopeRow {
  readonly operation: string;
  readonly status: number | null;
  readonly code: string | null;
  readonly message: string;
  /** A JSON list of pairs of name and address. */
  readonly links: string;
  readonly suspendedAt: string;
  readonly keyHash: string;
}

export function suspensionTable(database: Database.Database) {
  const select = database.prepare<[], SuspensionRow>(SELECT_SUSPENSIONS);
  const replace = database.prepare<[SuspensionRow]>(REPLACE_SUSPENSION);
  const remove = database.prepare<[ScopeRow]>(DELETE_SUSPENSION);
  return {
    all: () => select.all().map(suspensionFromRow),
    put: (suspension: Suspension) => replace.run(suspensionToRow(suspension)),
    /** Returns true where the scope was suspended. */
    remove: (scope: RefusalScope) => remove.run(scopeToRow(scope)).changes > 0,
  };
}

function suspensionToRow({ refusal, suspendedAt, keyHash }: Suspension): SuspensionRow {
  return {
    ...scopeToRow(refusal.scope),
    operation: cut(refusal.operation),
    status: refusal.status,
    code: cutOrNull(refusal.code),
    message: cut(refusal.message),
    links: JSON.stringify([...refusal.links].filter(isKept).slice(0, MAX_LINKS)),
    suspendedAt: suspendedAt.toISOString(),
    keyHash,
  };
}

/** A cut link would lead elsewhere, so a longer one is left out. */
function isKept([name, address]: readonly [string, string]): boolean {
  return name.length + address.length <= MAX_TEXT_CHARACTERS;
}

function suspensionFromRow(row: SuspensionRow): Suspension {
  const { operation, status, code, message, keyHash } = row;
  const links = new Map(JSON.parse(row.links) as readonly [string, string][]);
  return {
    refusal: { scope: scopeFromRow(row), operation, status, code, message, links },
    suspendedAt: new Date(row.suspendedAt),
    keyHash,
  };
}

function scopeToRow(scope: RefusalScope): ScopeRow {
  switch (scope.kind) {
    case 'workspace':
    case 'retirement':
      return { scopeKind: scope.kind, scopeId: '' };
    case 'subscription':
      return { scopeKind: scope.kind, scopeId: whole(scope.subscriptionId, 'subscriptionId') };
    case 'dataset':
      return { scopeKind: scope.kind, scopeId: whole(scope.datasetId, 'datasetId') };
    default:
      return unreachable(scope);
  }
}

function scopeFromRow({ scopeKind, scopeId }: ScopeRow): RefusalScope {
  switch (scopeKind) {
    case 'workspace':
    case 'retirement':
      return { kind: scopeKind };
    case 'subscription':
      return { kind: scopeKind, subscriptionId: scopeId };
    case 'dataset':
      return { kind: scopeKind, datasetId: scopeId };
    default:
      return unreachable(scopeKind);
  }
}

const SELECT_FAILURES = `
  SELECT dataset_id AS datasetId, error, message, hint, content, attempts, failed_at AS failedAt,
    retry_at AS retryAt
  FROM failures`;

const SELECT_ALL = `${SELECT_FAILURES} ORDER BY dataset_id`;

const SELECT_ONE = `${SELECT_FAILURES} WHERE dataset_id = ?`;

const REPLACE_FAILURE = `
  INSERT INTO failures (dataset_id, error, message, hint, content, attempts, failed_at, retry_at)
  VALUES (@datasetId, @error, @message, @hint, @content, @attempts, @failedAt, @retryAt)
  ON CONFLICT DO UPDATE SET
    error = excluded.error, message = excluded.message, hint = excluded.hint, content = excluded.content,
    attempts = excluded.attempts, failed_at = excluded.failed_at, retry_at = excluded.retry_at`;

const DELETE_FAILURE = 'DELETE FROM failures WHERE dataset_id = ?';

interface FailureRow extends Omit<Failure, 'error' | 'contents' | 'differing' | 'failedAt' | 'retryAt'> {
  readonly error: string;
  /** One line for each identity. A word and two times precede the identity of differing content. */
  readonly content: string | null;
  readonly failedAt: string;
  readonly retryAt: string;
}

export function failuresTable(database: Database.Database) {
  const select = database.prepare<[], FailureRow>(SELECT_ALL);
  const selectOne = database.prepare<[string], FailureRow>(SELECT_ONE);
  const replace = database.prepare<[FailureRow]>(REPLACE_FAILURE);
  const remove = database.prepare<[string]>(DELETE_FAILURE);
  return {
    all: (): ReadonlyMap<string, Failure> =>
      new Map(select.all().map((row) => [row.datasetId, failureFromRow(row)])),
    one(datasetId: string): Failure | null {
      const row = selectOne.get(datasetId);
      return row === undefined ? null : failureFromRow(row);
    },
    put: (failure: Failure) => replace.run(failureToRow(failure)),
    remove: (datasetId: string) => remove.run(datasetId),
  };
}

/** Identities beyond the limit of a text are cut. Their content is then fetched again, nothing worse. */
function failureToRow(failure: Failure): FailureRow {
  return {
    datasetId: whole(failure.datasetId, 'datasetId'),
    error: failure.error,
    message: cut(failure.message),
    hint: cutOrNull(failure.hint),
    content: cutOrNull(linesOf(failure)),
    attempts: failure.attempts,
    failedAt: failure.failedAt.toISOString(),
    retryAt: failure.retryAt.toISOString(),
  };
}

/** Earlier programs stored the name of a class, which a row keeps until its dataset fails again. */
const CODES_BY_CLASS: ReadonlyMap<string, ErrorCode> = new Map<string, ErrorCode>([
  ['AnswerTooLargeError', 'response_too_large'],
  ['BadChangesError', 'changes_invalid'],
  ['BusyError', 'mirror_busy'],
  ['ContentMismatchError', 'content_mismatch'],
  ['ContractViolationError', 'contract_violation'],
  ['CursorExpiredError', 'cursor_expired'],
  ['DataError', 'data_invalid'],
  ['DatasetStorageError', 'dataset_storage_failed'],
  ['DiskFullError', 'disk_full'],
  ['InapplicableChangesError', 'changes_inapplicable'],
  ['RefusalError', 'refused'],
  ['ServiceUnavailableError', 'service_unavailable'],
  ['StorageError', 'storage_failed'],
  ['UnknownColumnsError', 'columns_unknown'],
]);

function errorCodeFrom(stored: string): ErrorCode {
  return isErrorCode(stored) ? stored : (CODES_BY_CLASS.get(stored) ?? 'bug');
}

function isErrorCode(stored: string): stored is ErrorCode {
  return Object.hasOwn(ERRORS, stored);
}

function failureFromRow({ error, content, failedAt, retryAt, ...row }: FailureRow): Failure {
  const lines = content === null ? [] : content.split('\n');
  return {
    ...row,
    error: errorCodeFrom(error),
    contents: lines.filter((line) => !line.startsWith(DIFFERS)),
    differing: lines.filter((line) => line.startsWith(DIFFERS)).flatMap(differingOf),
    failedAt: new Date(failedAt),
    retryAt: new Date(retryAt),
  };
}

const DIFFERS = 'differs ';

function linesOf({ contents, differing }: Failure): string | null {
  const lines = differing.map(
    ({ content, failedAt, retryAt }) =>
      `${DIFFERS}${failedAt.toISOString()} ${retryAt.toISOString()} ${content}`,
  );
  return contents.length + lines.length === 0 ? null : [...contents, ...lines].join('\n');
}

/** Returns nothing for a line that was cut. */
function differingOf(line: string): readonly DifferingContent[] {
  const [failedAt = '', retryAt = '', ...content] = line.slice(DIFFERS.length).split(' ');
  const times = [new Date(failedAt), new Date(retryAt)] as const;
  if (times.some((time) => Number.isNaN(time.getTime()))) return [];
  return [{ content: content.join(' '), failedAt: times[0], retryAt: times[1] }];
}
