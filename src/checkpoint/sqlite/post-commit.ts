/** How far the post-commit work has come: the last commit that the command was given, and the notifications that were sent. */

import type Database from 'better-sqlite3';
import { z } from 'zod';
import type { CommitPosition } from '../../model/commits.ts';
import { EMPTY_LEDGER, isKnownName, type NotificationLedger } from '../../model/notification.ts';
import type { HookRecord } from '../checkpoint.ts';
import { type Column, id, integer, json, orNull, shortText, table, time, whole } from './table.ts';

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
  readonly ledger: NotificationLedger;
}

const ledger = json<NotificationLedger>(
  z.object({
    sent: z
      .record(z.string().refine(isKnownName), z.object({ at: z.string(), keys: z.array(z.string()) }))
      .default({}),
    pending: z
      .record(
        z.string(),
        z.object({ items: z.array(z.object({ subject: z.string(), text: z.string() })), count: z.number() }),
      )
      .default({}),
  }),
);

/**
 * A ledger that is damaged, or that another version of the program wrote, is as good as none: conditions that last are reported once
 * more.
 */
const ledgerOrNone: Column<NotificationLedger> = {
  write: ledger.write,
  read(stored) {
    try {
      return ledger.read(stored);
    } catch {
      return EMPTY_LEDGER;
    }
  },
};

export function notificationsTable(database: Database.Database) {
  const notifications = table<NotificationRow>(database, 'notifications', {
    singleton: integer,
    ledger: ledgerOrNone,
  });
  const select = notifications.select();
  const put = notifications.putAll();
  return {
    get: (): NotificationLedger => select()[0]?.ledger ?? EMPTY_LEDGER,
    put: (given: NotificationLedger) => put({ singleton: 1, ledger: given }),
  };
}
