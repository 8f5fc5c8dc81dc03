/** The webhooks that were registered, and the deliveries that arrived, each up to a limit. */

import type Database from 'better-sqlite3';
import type { KeptWebhook } from '../checkpoint.ts';
import {
  exactText,
  id,
  MAX_DELIVERIES,
  MAX_DELIVERY_AGE_MS,
  MAX_WEBHOOKS,
  table,
  time,
  whole,
} from './table.ts';

export function webhooksTable(database: Database.Database) {
  const webhooks = table<Omit<KeptWebhook, 'secret'>>(database, 'webhooks', {
    webhookId: id,
    url: id,
    createdAt: time,
  });
  const secrets = table<WebhookSecret>(database, 'webhook_secrets', {
    webhookId: id,
    path: exactText,
    digest: exactText,
  });
  const all = webhooks.select('ORDER BY created_at DESC, webhook_id');
  const allSecrets = secrets.select();
  const put = webhooks.putAll();
  const putSecret = secrets.putAll();
  const remove = database.prepare<[string]>('DELETE FROM webhooks WHERE webhook_id = ?');
  const deleteOldest = database.prepare<[]>(
    `DELETE FROM webhooks WHERE webhook_id NOT IN
      (SELECT webhook_id FROM webhooks ORDER BY created_at DESC, webhook_id LIMIT ${MAX_WEBHOOKS})`,
  );
  const deleteSecrets = database.prepare<[]>(
    'DELETE FROM webhook_secrets WHERE webhook_id NOT IN (SELECT webhook_id FROM webhooks)',
  );
  return {
    all(): readonly KeptWebhook[] {
      const byId = new Map(allSecrets().map(({ webhookId, ...secret }) => [webhookId, secret]));
      return all().map((webhook) => ({ ...webhook, secret: byId.get(webhook.webhookId) ?? null }));
    },
    put({ secret, ...webhook }: KeptWebhook) {
      put(webhook);
      if (secret !== null) putSecret({ webhookId: webhook.webhookId, ...secret });
      deleteOldest.run();
      deleteSecrets.run();
    },
    remove(webhookId: string) {
      remove.run(webhookId);
      deleteSecrets.run();
    },
  };
}

type WebhookSecret = Pick<KeptWebhook, 'webhookId'> & NonNullable<KeptWebhook['secret']>;

const INSERT = 'INSERT INTO deliveries (delivery_id, arrived_at) VALUES (?, ?) ON CONFLICT DO NOTHING';

const DELETE_OLDEST_DELIVERIES = `
  DELETE FROM deliveries WHERE delivery_number <= (SELECT max(delivery_number) FROM deliveries) - ${MAX_DELIVERIES}`;

export function deliveriesTable(database: Database.Database) {
  const insert = database.prepare<[string, string]>(INSERT);
  const deleteOld = database.prepare<[string]>('DELETE FROM deliveries WHERE arrived_at < ?');
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST_DELIVERIES);
  const newest = database
    .prepare<[], number>('SELECT ifnull(max(delivery_number), 0) FROM deliveries')
    .pluck();
  return {
    newest: (): number => newest.get() ?? 0,
    /** Returns false where the delivery had arrived before. */
    add(deliveryId: string, at: Date): boolean {
      deleteOld.run(new Date(at.getTime() - MAX_DELIVERY_AGE_MS).toISOString());
      const { changes } = insert.run(whole(deliveryId, 'deliveryId'), at.toISOString());
      deleteOldest.run();
      return changes === 1;
    },
  };
}
