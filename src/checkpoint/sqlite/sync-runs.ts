/** Records of the newest sync runs and webhooks, each up to a limit, and how far the hook has got. */

import type Database from 'better-sqlite3';
import type { CommitPosition } from '../../model/commits.ts';
import type { HookRecord, KeptWebhook, SyncRun } from '../checkpoint.ts';
import {
  id,
  integer,
  MAX_DELIVERIES,
  MAX_DELIVERY_AGE_MS,
  MAX_SYNC_RUNS,
  MAX_WEBHOOKS,
  orNull,
  shortText,
  table,
  time,
  whole,
} from './table.ts';

export function syncRunTable(database: Database.Database) {
  const runs = table<SyncRun>(database, 'sync_runs', {
    at: time,
    kind: shortText,
    datasetId: orNull(shortText),
    detail: shortText,
  });
  const newest = runs.select('ORDER BY run_number DESC LIMIT ?');
  const append = runs.putAll();
  const dropOldest = database.prepare<[number]>(
    'DELETE FROM sync_runs WHERE run_number <= (SELECT max(run_number) FROM sync_runs) - ?',
  );
  return {
    newest: (limit: number): readonly SyncRun[] => newest(limit),
    append(run: SyncRun) {
      append(run);
      dropOldest.run(MAX_SYNC_RUNS);
    },
  };
}

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

export function webhooksTable(database: Database.Database) {
  const webhooks = table<KeptWebhook>(database, 'webhooks', { webhookId: id, url: id, createdAt: time });
  const all = webhooks.select('ORDER BY created_at DESC, webhook_id');
  const put = webhooks.putAll();
  const deleteOldest = database.prepare<[]>(
    `DELETE FROM webhooks WHERE webhook_id NOT IN
      (SELECT webhook_id FROM webhooks ORDER BY created_at DESC, webhook_id LIMIT ${MAX_WEBHOOKS})`,
  );
  return {
    all: () => all(),
    put(webhook: KeptWebhook) {
      put(webhook);
      deleteOldest.run();
    },
  };
}

const INSERT = 'INSERT INTO deliveries (delivery_id, arrived_at) VALUES (?, ?) ON CONFLICT DO NOTHING';

const DELETE_OLDEST_DELIVERIES = `
  DELETE FROM deliveries WHERE delivery_number <= (SELECT max(delivery_number) FROM deliveries) - ${MAX_DELIVERIES}`;

export function deliveriesTable(database: Database.Database) {
  const insert = database.prepare<[string, string]>(INSERT);
  const deleteOld = database.prepare<[string]>('DELETE FROM deliveries WHERE arrived_at < ?');
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST_DELIVERIES);
  return {
    /** Returns false where the delivery had arrived before. */
    add(deliveryId: string, at: Date): boolean {
      deleteOld.run(new Date(at.getTime() - MAX_DELIVERY_AGE_MS).toISOString());
      const { changes } = insert.run(whole(deliveryId, 'deliveryId'), at.toISOString());
      deleteOldest.run();
      return changes === 1;
    },
  };
}
