/** Webhooks that were added from here. Of their secrets nothing is kept. */

import type Database from 'better-sqlite3';
import type { KeptWebhook } from '../checkpoint.ts';
import { MAX_WEBHOOKS } from './limits.ts';
import { whole } from './text.ts';

const SELECT = `
  SELECT webhook_id AS webhookId, url, created_at AS createdAt FROM webhooks ORDER BY created_at DESC, webhook_id`;

const REPLACE = `
  INSERT INTO webhooks (webhook_id, url, created_at) VALUES (@webhookId, @url, @createdAt)
  ON CONFLICT DO UPDATE SET url = excluded.url, created_at = excluded.created_at`;

const DELETE_OLDEST = `
  DELETE FROM webhooks WHERE webhook_id NOT IN
    (SELECT webhook_id FROM webhooks ORDER BY created_at DESC, webhook_id LIMIT ${MAX_WEBHOOKS})`;

type Row = Omit<KeptWebhook, 'createdAt'> & { readonly createdAt: string };

export interface WebhooksTable {
  all(): readonly KeptWebhook[];
  put(webhook: KeptWebhook): void;
}

export function webhooksTable(database: Database.Database): WebhooksTable {
  const select = database.prepare<[], Row>(SELECT);
  const replace = database.prepare<[Row]>(REPLACE);
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST);
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
