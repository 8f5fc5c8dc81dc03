/** The progress that is stored in the mirror: how far it has followed the service. */

import type { OwedReload, StoredMember, StoredProgress, StoredSubscription } from '../../stored-progress.ts';
import { reloadMarkAt } from '../books/held.ts';
import { book } from '../books/mirror-schema.ts';
import type { Engine } from '../engine/engine.ts';
import {
  bigintOrNullAt,
  booleanAt,
  dateAt,
  dateOrNullAt,
  numberAt,
  textAt,
  textOrNullAt,
} from '../engine/rows.ts';

/** Of a mirror whose format has the tables for it; null where nothing was ever stored. */
export async function readProgress(engine: Engine): Promise<StoredProgress | null> {
  const subscriptions = await readSubscriptions(engine);
  const members = await readMembers(engine);
  const owed = await readOwed(engine);
  const isNone = subscriptions.length + members.length + owed.length === 0;
  return isNone ? null : { subscriptions, members, owed };
}

async function readSubscriptions(engine: Engine): Promise<readonly StoredSubscription[]> {
  const rows = await engine.rows(`SELECT subscription_id, name, log_number, event_number,
      epoch_ms(event_created_at), epoch_ms(position_at), states_last_event
    FROM ${book('subscriptions')} ORDER BY ALL`);
  return rows.map((row) => ({
    subscriptionId: textAt(row, 0),
    name: textOrNullAt(row, 1),
    logNumber: numberAt(row, 2),
    eventNumber: bigintOrNullAt(row, 3),
    eventCreatedAt: dateOrNullAt(row, 4),
    positionAt: dateAt(row, 5),
    statesLastEvent: booleanAt(row, 6),
  }));
}

/** As the query of `readMembers` writes them: dataset, number of the event that added it, of the one that dropped it. */
type MemberCells = readonly [string, string | null, string | null];

/** The members of a subscription come as one JSON text, for the same reason as the columns of a table do. */
async function readMembers(engine: Engine): Promise<readonly StoredMember[]> {
  const rows = await engine.rows(`SELECT subscription_id,
      to_json(list([dataset_id, added_event::VARCHAR, dropped_event::VARCHAR] ORDER BY dataset_id))::VARCHAR
    FROM ${book('members')} GROUP BY subscription_id ORDER BY subscription_id`);
  return rows.flatMap((row) => {
    const subscriptionId = textAt(row, 0);
    return (JSON.parse(textAt(row, 1)) as readonly MemberCells[]).map(([datasetId, added, dropped]) => ({
      subscriptionId,
      datasetId,
      addedEvent: added === null ? null : BigInt(added),
      droppedEvent: dropped === null ? null : BigInt(dropped),
    }));
  });
}

async function readOwed(engine: Engine): Promise<readonly OwedReload[]> {
  const rows =
    await engine.rows(`SELECT dataset_id, subscription_id, log_number, event_number, epoch_ms(created_at)
    FROM ${book('owed')} ORDER BY ALL`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    subscriptionId: textAt(row, 1),
    ...reloadMarkAt(row, 2),
  }));
}
