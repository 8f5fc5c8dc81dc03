/** Records of the newest sync runs and webhooks, each up to a limit, and how far the hook has got. */

import type Database from 'better-sqlite3';
import type { CommitPosition } from '../../model/commits.ts';
import type { HookRecord, KeptWebhook, SyncRun } from '../checkpoint.ts';
import {
  cut,
  cutOrNull,
  MAX_DELIVERIES,
  MAX_DELIVERY_AGE_MS,
  MAX_SYNC_RUNS,
  MAX_WEBHOOKS,
  whole,
} from './errors.ts';

const SELECT_RUNS =
  'SELECT at, kind, dataset_id AS datasetId, detail FROM sync_runs ORDER BY run_number DESC LIMIT ?';

const APPEND =
  'INSERT INTO sync_runs (at, kind, dataset_id, detail) VALUES (@at, @kind, @datasetId, @detail)';

const DROP_OLDEST = 'DELETE FROM sync_runs WHERE run_number <= (SELECT max(run_number) FROM sync_runs) - ?';

type RunRow = Omit<SyncRun, 'at'> & { readonly at: string };

export function syncRunTable(database: Database.Database) {
  const select = database.prepare<[number], RunRow>(SELECT_RUNS);
  const append = database.prepare<[RunRow]>(APPEND);
  const dropOldest = database.prepare<[number]>(DROP_OLDEST);
  return {
    newest: (limit: number): readonly SyncRun[] =>
      select.all(limit).map((row) => ({ ...row, at: new Date(row.at) })),
    append({ at, kind, datasetId, detail }: SyncRun) {
      append.run({
        at: at.toISOString(),
        kind: cut(kind),
        datasetId: cutOrNull(datasetId),
        detail: cut(detail),
      });
      dropOldest.run(MAX_SYNC_RUNS);
    },
  };
}

const SELECT_HOOK = `
  SELECT commit_number AS commitNumber, commit_mark AS mark, reported_at AS reportedAt, attempts, failed_at AS failedAt, message FROM hook`;

const REPORTED = `
  INSERT INTO hook (singleton, commit_number, commit_mark, reported_at, attempts) VALUES (1, @commitNumber, @mark, @at, 0)
  ON CONFLICT DO UPDATE SET commit_number = excluded.commit_number, commit_mark = excluded.commit_mark,
    reported_at = excluded.reported_at, attempts = 0, failed_at = NULL, message = NULL`;

const FAILED = `
  INSERT INTO hook (singleton, commit_number, commit_mark, attempts, failed_at, message) VALUES (1, 0, '', 1, @at, @message)
  ON CONFLICT DO UPDATE SET attempts = attempts + 1, failed_at = excluded.failed_at, message = excluded.message`;

interface HookRow {
  readonly commitNumber: number;
  readonly mark: string;
  readonly reportedAt: string | null;
  readonly attempts: number;
  readonly failedAt: string | null;
  readonly message: string | null;
}

export function hookTable(database: Database.Database) {
  const select = database.prepare<[], HookRow>(SELECT_HOOK);
  const reported = database.prepare<[CommitPosition & { readonly at: string }]>(REPORTED);
  const failed = database.prepare<[{ readonly message: string; readonly at: string }]>(FAILED);
  return {
    get: () => fromRow(select.get()),
    reported: ({ commitNumber, mark }: CommitPosition, at: Date) =>
      reported.run({ commitNumber, mark: whole(mark, 'mark'), at: at.toISOString() }),
    failed: (message: string, at: Date) => failed.run({ message: cut(message), at: at.toISOString() }),
  };
}

function fromRow(row: HookRow | undefined): HookRecord {
  if (row === undefined) return { reported: null, reportedAt: null, failure: null };
  const { commitNumber, mark, reportedAt, attempts, failedAt, message } = row;
  const hasFailed = failedAt !== null && message !== null;
  return {
    reported: reportedAt === null ? null : { commitNumber, mark },
    reportedAt: reportedAt === null ? null : new Date(reportedAt),
    failure: hasFailed ? { message, attempts, failedAt: new Date(failedAt) } : null,
  };
}

const SELECT_WEBHOOKS = `
  SELECT webhook_id AS webhookId, url, created_at AS createdAt FROM webhooks ORDER BY created_at DESC, webhook_id`;

const REPLACE = `
  INSERT INTO webhooks (webhook_id, url, created_at) VALUES (@webhookId, @url, @createdAt)
  ON CONFLICT DO UPDATE SET url = excluded.url, created_at = excluded.created_at`;

const DELETE_OLDEST_WEBHOOKS = `
  DELETE FROM webhooks WHERE webhook_id NOT IN
    (SELECT webhook_id FROM webhooks ORDER BY created_at DESC, webhook_id LIMIT ${MAX_WEBHOOKS})`;

type WebhookRow = Omit<KeptWebhook, 'createdAt'> & { readonly createdAt: string };

export function webhooksTable(database: Database.Database) {
  const select = database.prepare<[], WebhookRow>(SELECT_WEBHOOKS);
  const replace = database.prepare<[WebhookRow]>(REPLACE);
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST_WEBHOOKS);
  return {
    all: () => select.all().map((row) => ({ ...row, createdAt: new Date(row.createdAt) })),
    put({ webhookId, url, createdAt }: KeptWebhook) {
      replace.run({
        webhookId: whole(webhookId, 'webhookId'),
        url: whole(url, 'url'),
        createdAt: createdAt.toISOString(),
      });
      deleteOldest.run();
    },
  };
}

const INSERT = 'INSERT INTO deliveries (delivery_id, arrived_at) VALUES (?, ?) ON CONFLICT DO NOTHING';

const DELETE_OLD = 'DELETE FROM deliveries WHERE arrived_at < ?';

const DELETE_OLDEST_DELIVERIES = `
  DELETE FROM deliveries WHERE delivery_number <= (SELECT max(delivery_number) FROM deliveries) - ${MAX_DELIVERIES}`;

export function deliveriesTable(database: Database.Database) {
  const insert = database.prepare<[string, string]>(INSERT);
  const deleteOld = database.prepare<[string]>(DELETE_OLD);
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
