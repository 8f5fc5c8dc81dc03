/** How far the post-commit work has come: the last commit that the command was given, and the notifications that were sent. */

import type Database from 'better-sqlite3';
import type { CommitPosition } from '../../model/commits.ts';
import { EMPTY_LEDGER, type NotificationLedger } from '../../model/notification.ts';
import type { HookRecord } from '../checkpoint.ts';
import { exactText, id, integer, orNull, shortText, table, time, whole } from './table.ts';

interface HookRow {
  readonly singleton: number;
  readonly commitNumber: number;
  readonly commitMark: string;
  readonly reportedAt: Date | null;
  readonly attempts: number;
  readonly failedAt: Date | null;
  readonly message: string | null;
}

export function hookTable(database: Database.Database) {
  const hook = table<HookRow>(database, 'hook', {
    singleton: integer,
    commitNumber: integer,
    commitMark: { ...id, write: (mark) => whole(mark, 'mark') },
    reportedAt: orNull(time),
    attempts: integer,
    failedAt: orNull(time),
    message: orNull(shortText),
  });
  const select = hook.select();
  const reported = hook.putAll();
  const failed = hook.put(['singleton', 'commitNumber', 'commitMark', 'attempts', 'failedAt', 'message'], {
    commitNumber: 'commit_number',
    commitMark: 'commit_mark',
    attempts: 'attempts + 1',
  });
  const none = { singleton: 1, commitNumber: 0, commitMark: '', attempts: 0, failedAt: null, message: null };
  return {
    get: () => hookFrom(select()[0]),
    reported: ({ commitNumber, mark }: CommitPosition, at: Date) =>
      reported({ ...none, commitNumber, commitMark: mark, reportedAt: at }),
    failed: (message: string, at: Date) => failed({ ...none, attempts: 1, failedAt: at, message }),
  };
}

function hookFrom(row: HookRow | undefined): HookRecord {
  if (row === undefined) return { reported: null, reportedAt: null, failure: null };
  const { commitNumber, commitMark: mark, reportedAt, attempts, failedAt, message } = row;
  const hasFailed = failedAt !== null && message !== null;
  return {
    reported: reportedAt === null ? null : { commitNumber, mark },
    reportedAt,
    failure: hasFailed ? { message, attempts, failedAt } : null,
  };
}

interface NotificationRow {
  readonly singleton: number;
  readonly ledger: string;
}

export function notificationsTable(database: Database.Database) {
  const notifications = table<NotificationRow>(database, 'notifications', {
    singleton: integer,
    ledger: exactText,
  });
  const select = notifications.select();
  const put = notifications.putAll();
  return {
    get: (): NotificationLedger => ledgerFrom(select()[0]),
    put: (ledger: NotificationLedger) => put({ singleton: 1, ledger: JSON.stringify(ledger) }),
  };
}

/** A ledger that another version of the program wrote may be unreadable. Conditions that last are then reported once more. */
function ledgerFrom(row: NotificationRow | undefined): NotificationLedger {
  try {
    return row === undefined ? EMPTY_LEDGER : { ...EMPTY_LEDGER, ...JSON.parse(row.ledger) };
  } catch {
    return EMPTY_LEDGER;
  }
}
