/** Records of the newest sync runs and webhooks, each up to a limit, how far the hook and a scrub have got, and notifications. */

import type Database from 'better-sqlite3';
import type { CommitPosition } from '../../model/commits.ts';
import { EMPTY_LEDGER, type NotificationLedger } from '../../model/notification.ts';
import { NEVER_SCRUBBED, type ScrubRecord } from '../../model/scrub.ts';
import type { HookRecord, KeptWebhook, SyncRun } from '../checkpoint.ts';
import {
  type Column,
  exactText,
  flag,
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

interface NotificationRow {
  readonly singleton: number;
  readonly ledger: string;
}

export function notificationsTable(database: Database.Database) {
  const notifications = table<NotificationRow>(database, 'notifications', {
    singleton: integer,
    ledger: exactText as Column<string>,
  });
  const select = notifications.select();
  const put = notifications.putAll();
  return {
    get: (): NotificationLedger => ledgerFrom(select()[0]),
    put: (ledger: NotificationLedger) => put({ singleton: 1, ledger: JSON.stringify(ledger) }),
  };
}

/** A ledger that another version of the program wrote may be unreadable. What lasts is then told once more. */
function ledgerFrom(row: NotificationRow | undefined): NotificationLedger {
  try {
    return row === undefined ? EMPTY_LEDGER : { ...EMPTY_LEDGER, ...JSON.parse(row.ledger) };
  } catch {
    return EMPTY_LEDGER;
  }
}

interface ScrubRow extends Omit<ScrubRecord, 'position'> {
  readonly singleton: number;
  readonly positionTable: string | null;
  readonly positionRow: number | null;
}

export function scrubTable(database: Database.Database) {
  const scrubs = table<ScrubRow>(database, 'scrub', {
    singleton: integer,
    beganAt: orNull(time),
    positionTable: orNull(exactText),
    positionRow: orNull(integer),
    completedAt: orNull(time),
    isExaminationAsked: flag,
  });
  const select = scrubs.select();
  const put = scrubs.putAll();
  const get = (): ScrubRecord => {
    const [row] = select();
    if (row === undefined) return NEVER_SCRUBBED;
    const { beganAt, completedAt, isExaminationAsked, positionTable, positionRow } = row;
    const position =
      positionTable === null || positionRow === null ? null : { table: positionTable, row: positionRow };
    return { beganAt, position, completedAt, isExaminationAsked };
  };
  const keep = ({ position, ...record }: ScrubRecord): void => {
    put({
      singleton: 1,
      ...record,
      positionTable: position?.table ?? null,
      positionRow: position?.row ?? null,
    });
  };
  return { get, put: keep };
}

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
