/** What was done, a line each, for people. The newest lines up to a limit; nothing is decided by them. */

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
  'SELECT at, kind, dataset_id AS datasetId, detail FROM journal ORDER BY line DESC LIMIT ?';

const APPEND = 'INSERT INTO journal (at, kind, dataset_id, detail) VALUES (@at, @kind, @datasetId, @detail)';

const DROP_OLDEST = 'DELETE FROM journal WHERE line <= (SELECT max(line) FROM journal) - ?';

type RunRow = Omit<SyncRun, 'at'> & { readonly at: string };

export interface SyncRunTable {
  newest(limit: number): readonly SyncRun[];
  /** Two statements: part of a transaction of the caller's. */
  append(entry: SyncRun): void;
}

export function syncRunTable(database: Database.Database): SyncRunTable {
  const select = database.prepare<[number], RunRow>(SELECT_RUNS);
  const append = database.prepare<[RunRow]>(APPEND);
  const dropOldest = database.prepare<[number]>(DROP_OLDEST);
  return {
    newest: (limit) => select.all(limit).map((row) => ({ ...row, at: new Date(row.at) })),
    append({ at, kind, datasetId, detail }) {
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
  SELECT told_lines AS commitNumber, told_last AS mark, told_at AS reportedAt, attempts, failed_at AS failedAt, message FROM hook`;

const TOLD = `
  INSERT INTO hook (singleton, told_lines, told_last, told_at, attempts) VALUES (1, @commitNumber, @mark, @at, 0)
  ON CONFLICT DO UPDATE SET told_lines = excluded.told_lines, told_last = excluded.told_last,
    told_at = excluded.told_at, attempts = 0, failed_at = NULL, message = NULL`;

const FAILED = `
  INSERT INTO hook (singleton, told_lines, told_last, attempts, failed_at, message) VALUES (1, 0, '', 1, @at, @message)
  ON CONFLICT DO UPDATE SET attempts = attempts + 1, failed_at = excluded.failed_at, message = excluded.message`;

interface HookRow {
  readonly commitNumber: number;
  readonly mark: string;
  readonly reportedAt: string | null;
  readonly attempts: number;
  readonly failedAt: string | null;
  readonly message: string | null;
}

export interface HookTable {
  get(): HookRecord;
  reported(position: CommitPosition, at: Date): void;
  failed(message: string, at: Date): void;
}

export function hookTable(database: Database.Database): HookTable {
  const select = database.prepare<[], HookRow>(SELECT_HOOK);
  const reported = database.prepare<[CommitPosition & { readonly at: string }]>(TOLD);
  const failed = database.prepare<[{ readonly message: string; readonly at: string }]>(FAILED);
  return {
    get: () => fromRow(select.get()),
    reported({ commitNumber, mark }, at) {
      reported.run({ commitNumber, mark: whole(mark, 'mark'), at: at.toISOString() });
    },
    failed(message, at) {
      failed.run({ message: cut(message), at: at.toISOString() });
    },
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

export interface WebhooksTable {
  all(): readonly KeptWebhook[];
  put(webhook: KeptWebhook): void;
}

export function webhooksTable(database: Database.Database): WebhooksTable {
  const select = database.prepare<[], WebhookRow>(SELECT_WEBHOOKS);
  const replace = database.prepare<[WebhookRow]>(REPLACE);
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST_WEBHOOKS);
  return {
    all: () => select.all().map((row) => ({ ...row, createdAt: new Date(row.createdAt) })),
    put({ webhookId, url, createdAt }) {
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
  DELETE FROM deliveries WHERE line <= (SELECT max(line) FROM deliveries) - ${MAX_DELIVERIES}`;

export interface DeliveriesTable {
  /** False where it is there already. Three statements: part of a transaction of the caller's. */
  add(deliveryId: string, at: Date): boolean;
}

export function deliveriesTable(database: Database.Database): DeliveriesTable {
  const insert = database.prepare<[string, string]>(INSERT);
  const deleteOld = database.prepare<[string]>(DELETE_OLD);
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST_DELIVERIES);
  return {
    add(deliveryId, at) {
      deleteOld.run(new Date(at.getTime() - MAX_DELIVERY_AGE_MS).toISOString());
      const { changes } = insert.run(whole(deliveryId, 'deliveryId'), at.toISOString());
      deleteOldest.run();
      return changes === 1;
    },
  };
}
