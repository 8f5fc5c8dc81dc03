/** The last polls of the list of subscriptions and of each subscription. The times are those of the clock of this machine. */

import type Database from 'better-sqlite3';
import type { ErrorCode } from '../../model/error-codes.ts';
import { errorCodeOf, FeedSyncError } from '../../model/errors.ts';
import type { Poll, ProcessName } from '../checkpoint.ts';
import { errorCode } from './suspensions.ts';
import { exactText, integer, orNull, shortText, table, time } from './table.ts';

/** The list of subscriptions has the empty subject. */
const OF_LIST = '';

interface PollRow {
  readonly subject: string;
  readonly succeededAt: Date | null;
  readonly command: string | null;
  readonly pid: number | null;
  readonly host: string | null;
  readonly failingSince: Date | null;
  readonly failedAt: Date | null;
  readonly error: ErrorCode | null;
  readonly message: string | null;
  readonly hint: string | null;
}

const NO_FAILURE = { failingSince: null, failedAt: null, error: null, message: null, hint: null };

export function pollsTable(database: Database.Database) {
  const polls = table<PollRow>(database, 'polls', {
    subject: exactText,
    succeededAt: orNull(time),
    command: orNull(shortText),
    pid: orNull(integer),
    host: orNull(shortText),
    failingSince: orNull(time),
    failedAt: orNull(time),
    error: orNull(errorCode),
    message: orNull(shortText),
    hint: orNull(shortText),
  });
  const select = polls.select('ORDER BY subject');
  const succeeded = polls.putAll();
  const failed = polls.put(['subject', 'failingSince', 'failedAt', 'error', 'message', 'hint'], {
    failingSince: 'ifnull(failing_since, excluded.failing_since)',
  });
  const remove = database.prepare<[string]>('DELETE FROM polls WHERE subject = ?');
  return {
    all: (): readonly Poll[] => select().map(pollFrom),
    ended(subscriptionId: string | null, at: Date, end: ProcessName | Error) {
      const subject = subscriptionId ?? OF_LIST;
      if (end instanceof Error) failed({ ...NEVER, subject, ...failureOf(end, at) });
      else succeeded({ subject, succeededAt: at, ...end, ...NO_FAILURE });
    },
    remove: (subscriptionId: string) => remove.run(subscriptionId),
  };
}

const NEVER = { succeededAt: null, command: null, pid: null, host: null };

function failureOf(error: Error, at: Date) {
  const hint = error instanceof FeedSyncError ? error.hint : null;
  return { failingSince: at, failedAt: at, error: errorCodeOf(error), message: error.message, hint };
}

function pollFrom(row: PollRow): Poll {
  const { subject, succeededAt, command, pid, host, failingSince, failedAt, error, message, hint } = row;
  const hasSucceeded = succeededAt !== null && command !== null && pid !== null && host !== null;
  const isFailing = failingSince !== null && failedAt !== null && error !== null && message !== null;
  return {
    subscriptionId: subject === OF_LIST ? null : subject,
    success: hasSucceeded ? { at: succeededAt, process: { command, pid, host } } : null,
    failure: isFailing ? { error, message, hint, since: failingSince, at: failedAt } : null,
  };
}
