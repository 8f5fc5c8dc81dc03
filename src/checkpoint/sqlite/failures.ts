/** Datasets that are not where they should be, though nothing is refused: at most one row for each. */

import type Database from 'better-sqlite3';
import type { DifferingContent, Failure } from '../checkpoint.ts';
import { cut, cutOrNull, whole } from './text.ts';

const SELECT = `
  SELECT dataset_id AS datasetId, error, message, hint, content, attempts, failed_at AS failedAt,
    retry_at AS retryAt
  FROM failures`;

const SELECT_ALL = `${SELECT} ORDER BY dataset_id`;

const SELECT_ONE = `${SELECT} WHERE dataset_id = ?`;

const REPLACE = `
  INSERT INTO failures (dataset_id, error, message, hint, content, attempts, failed_at, retry_at)
  VALUES (@datasetId, @error, @message, @hint, @content, @attempts, @failedAt, @retryAt)
  ON CONFLICT DO UPDATE SET
    error = excluded.error, message = excluded.message, hint = excluded.hint, content = excluded.content,
    attempts = excluded.attempts, failed_at = excluded.failed_at, retry_at = excluded.retry_at`;

const DELETE = 'DELETE FROM failures WHERE dataset_id = ?';

interface Row extends Omit<Failure, 'contents' | 'differing' | 'failedAt' | 'retryAt'> {
  /** A line for each identity; before that of differing content stand a word and its two times. */
  readonly content: string | null;
  readonly failedAt: string;
  readonly retryAt: string;
}

export interface FailuresTable {
  all(): ReadonlyMap<string, Failure>;
  one(datasetId: string): Failure | null;
  put(failure: Failure): void;
  remove(datasetId: string): void;
}

export function failuresTable(database: Database.Database): FailuresTable {
  const select = database.prepare<[], Row>(SELECT_ALL);
  const selectOne = database.prepare<[string], Row>(SELECT_ONE);
  const replace = database.prepare<[Row]>(REPLACE);
  const remove = database.prepare<[string]>(DELETE);
  return {
    all: () => new Map(select.all().map((row) => [row.datasetId, fromRow(row)])),
    one(datasetId) {
      const row = selectOne.get(datasetId);
      return row === undefined ? null : fromRow(row);
    },
    put(failure) {
      replace.run(toRow(failure));
    },
    remove(datasetId) {
      remove.run(datasetId);
    },
  };
}

/** Identities beyond the limit of a text are cut with it: what they stand for is then fetched again, no more. */
function toRow(failure: Failure): Row {
  return {
    datasetId: whole(failure.datasetId, 'datasetId'),
    error: cut(failure.error),
    message: cut(failure.message),
    hint: cutOrNull(failure.hint),
    content: cutOrNull(linesOf(failure)),
    attempts: failure.attempts,
    failedAt: failure.failedAt.toISOString(),
    retryAt: failure.retryAt.toISOString(),
  };
}

function fromRow({ content, failedAt, retryAt, ...row }: Row): Failure {
  const lines = content === null ? [] : content.split('\n');
  return {
    ...row,
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

/** Nothing where the line was cut. */
function differingOf(line: string): readonly DifferingContent[] {
  const [failedAt = '', retryAt = '', ...content] = line.slice(DIFFERS.length).split(' ');
  const times = [new Date(failedAt), new Date(retryAt)] as const;
  if (times.some((time) => Number.isNaN(time.getTime()))) return [];
  return [{ content: content.join(' '), failedAt: times[0], retryAt: times[1] }];
}
