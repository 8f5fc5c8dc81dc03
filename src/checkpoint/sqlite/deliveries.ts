/** The ids of webhooks that arrived, so that one that comes again is known. The newest up to a limit, for a while. */

import type Database from 'better-sqlite3';
import { MAX_DELIVERIES, MAX_DELIVERY_AGE_MS } from './limits.ts';
import { whole } from './text.ts';

const INSERT = 'INSERT INTO deliveries (delivery_id, arrived_at) VALUES (?, ?) ON CONFLICT DO NOTHING';

const DELETE_OLD = 'DELETE FROM deliveries WHERE arrived_at < ?';

const DELETE_OLDEST = `
  DELETE FROM deliveries WHERE line <= (SELECT max(line) FROM deliveries) - ${MAX_DELIVERIES}`;

export interface DeliveriesTable {
  /** False where it is there already. Three statements: part of a transaction of the caller's. */
  add(deliveryId: string, at: Date): boolean;
}

export function deliveriesTable(database: Database.Database): DeliveriesTable {
  const insert = database.prepare<[string, string]>(INSERT);
  const deleteOld = database.prepare<[string]>(DELETE_OLD);
  const deleteOldest = database.prepare<[]>(DELETE_OLDEST);
  return {
    add(deliveryId, at) {
      deleteOld.run(new Date(at.getTime() - MAX_DELIVERY_AGE_MS).toISOString());
      const { changes } = insert.run(whole(deliveryId, 'deliveryId'), at.toISOString());
      deleteOldest.run();
      return changes === 1;
    },
  };
}
