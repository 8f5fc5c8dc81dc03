/** Suspensions, at most one for each scope; failures, and candidates that wait for approval, at most one for each dataset. */

import type Database from 'better-sqlite3';
import { z } from 'zod';
import type { Candidate } from '../../model/candidate.ts';
import { candidateFromText, candidateText } from '../../model/candidate-text.ts';
import { ERRORS, type ErrorCode } from '../../model/error-codes.ts';
import type { RefusalScope, RefusalWords } from '../../model/errors.ts';
import type { DifferingContent, Failure, Suspension } from '../checkpoint.ts';
import {
  type Column,
  exactText,
  id,
  integer,
  json,
  MAX_LINKS,
  MAX_TEXT_CHARACTERS,
  oneOf,
  orNull,
  shortText,
  table,
  time,
  whole,
} from './table.ts';

interface ScopeRow {
  readonly scopeKind: RefusalScope['kind'];
  /** Empty for the workspace and for retirements. */
  readonly scopeId: string;
}

type SuspensionRow = ScopeRow & RefusalWords & Omit<Suspension, 'refusal'>;

/** Each of a name and an address. */
const pairs = json(z.array(z.tuple([z.string(), z.string()])));

/** A cut link would lead elsewhere, so a longer one is left out. */
const links: Column<ReadonlyMap<string, string>> = {
  write: (given) => {
    const kept = [...given].filter(([name, address]) => name.length + address.length <= MAX_TEXT_CHARACTERS);
    return pairs.write(kept.slice(0, MAX_LINKS), 'links');
  },
  read: (stored) => new Map(pairs.read(stored)),
};

export function suspensionTable(database: Database.Database) {
  const suspensions = table<SuspensionRow>(database, 'suspensions', {
    scopeKind: oneOf('workspace', 'subscription', 'dataset', 'retirement'),
    scopeId: exactText,
    operation: shortText,
    status: orNull(integer),
    code: orNull(shortText),
    message: shortText,
    links,
    suspendedAt: time,
    keyHash: exactText,
  });
  const select = suspensions.select('ORDER BY scope_kind, scope_id');
  const put = suspensions.putAll();
  const remove = database.prepare<[ScopeRow]>(
    'DELETE FROM suspensions WHERE scope_kind = @scopeKind AND scope_id = @scopeId',
  );
  return {
    all: (): readonly Suspension[] =>
      select().map(({ scopeKind, scopeId, suspendedAt, keyHash, ...words }) => ({
        refusal: { scope: scopeFrom(scopeKind, scopeId), ...words },
        suspendedAt,
        keyHash,
      })),
    put: ({ refusal, ...suspension }: Suspension) =>
      put({ ...scopeRow(refusal.scope), ...refusal, ...suspension }),
    /** Returns true where the scope was suspended. */
    remove: (scope: RefusalScope) => remove.run(scopeRow(scope)).changes > 0,
  };
}

function scopeRow(scope: RefusalScope): ScopeRow {
  switch (scope.kind) {
    case 'workspace':
    case 'retirement':
      return { scopeKind: scope.kind, scopeId: '' };
    case 'subscription':
      return { scopeKind: scope.kind, scopeId: whole(scope.subscriptionId, 'subscriptionId') };
    case 'dataset':
      return { scopeKind: scope.kind, scopeId: whole(scope.datasetId, 'datasetId') };
  }
}

function scopeFrom(kind: RefusalScope['kind'], scopeId: string): RefusalScope {
  switch (kind) {
    case 'workspace':
    case 'retirement':
      return { kind };
    case 'subscription':
      return { kind, subscriptionId: scopeId };
    case 'dataset':
      return { kind, datasetId: scopeId };
  }
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

function isErrorCode(stored: string): stored is ErrorCode {
  return Object.hasOwn(ERRORS, stored);
}

export const errorCode: Column<ErrorCode> = {
  write: (code) => code,
  read(stored) {
    const text = String(stored);
    return isErrorCode(text) ? text : (CODES_BY_CLASS.get(text) ?? 'bug');
  },
};

type FailureRow = Omit<Failure, 'contents' | 'differing'> & {
  /**
   * One line for each identity. A word and two times precede the identity of differing content. Identities beyond the limit of a
   * text are cut. Their content is then fetched again, nothing worse.
   */
  readonly content: string | null;
};

export function failuresTable(database: Database.Database) {
  const failures = table<FailureRow>(database, 'failures', {
    datasetId: id,
    error: errorCode,
    message: shortText,
    hint: orNull(shortText),
    content: orNull(shortText),
    attempts: integer,
    failedAt: time,
    retryAt: time,
  });
  const select = failures.select('ORDER BY dataset_id');
  const selectOne = failures.select('WHERE dataset_id = ?');
  const put = failures.putAll();
  const remove = database.prepare<[string]>('DELETE FROM failures WHERE dataset_id = ?');
  return {
    all: (): ReadonlyMap<string, Failure> =>
      new Map(select().map((row) => [row.datasetId, failureFrom(row)])),
    one: (datasetId: string): Failure | null => selectOne(datasetId).map(failureFrom)[0] ?? null,
    put: (failure: Failure) => put({ ...failure, content: linesOf(failure) }),
    remove: (datasetId: string) => remove.run(datasetId),
  };
}

const DIFFERS = 'differs ';

function failureFrom({ content, ...failure }: FailureRow): Failure {
  const lines = content === null ? [] : content.split('\n');
  return {
    ...failure,
    contents: lines.filter((line) => !line.startsWith(DIFFERS)),
    differing: lines.filter((line) => line.startsWith(DIFFERS)).flatMap(differingOf),
  };
}

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
  if (times.some((each) => Number.isNaN(each.getTime()))) return [];
  return [{ content: content.join(' '), failedAt: times[0], retryAt: times[1] }];
}

interface CandidateRow {
  readonly datasetId: string;
  readonly content: string;
}

export function candidatesTable(database: Database.Database) {
  const candidates = table<CandidateRow>(database, 'candidates', {
    datasetId: id,
    content: exactText,
  });
  const select = candidates.select('ORDER BY dataset_id');
  const put = candidates.putAll();
  const remove = database.prepare<[string]>('DELETE FROM candidates WHERE dataset_id = ?');
  return {
    all: (): readonly Candidate[] => select().flatMap(({ content }) => candidateFromText(content) ?? []),
    put: (candidate: Candidate) => put({ datasetId: candidate.datasetId, content: candidateText(candidate) }),
    /** Returns true where there was one. */
    remove: (datasetId: string) => remove.run(datasetId).changes > 0,
  };
}
