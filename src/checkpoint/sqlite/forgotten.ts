/** Subscriptions that a person gave up, until the destination names them no more. */

import type Database from 'better-sqlite3';

const SELECT = 'SELECT subscription_id FROM forgotten ORDER BY subscription_id';

const INSERT = 'INSERT INTO forgotten (subscription_id) VALUES (?) ON CONFLICT DO NOTHING';

const DELETE = 'DELETE FROM forgotten WHERE subscription_id = ?';

export interface ForgottenTable {
  all(): readonly string[];
  add(subscriptionId: string): void;
  remove(subscriptionId: string): void;
}

export function forgottenTable(database: Database.Database): ForgottenTable {
  const select = database.prepare<[], string>(SELECT).pluck();
  const insert = database.prepare<[string]>(INSERT);
  const remove = database.prepare<[string]>(DELETE);
  return {
    all: () => select.all(),
    add(subscriptionId) {
      insert.run(subscriptionId);
    },
    remove(subscriptionId) {
      remove.run(subscriptionId);
    },
  };
}
