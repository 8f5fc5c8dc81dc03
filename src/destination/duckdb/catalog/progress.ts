/** Stores how far the mirror has followed the service, either in a write session of its own or in one that commits jobs. */

import type { Log } from '../../../lib/log.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import {
  owedReloadAt,
  progressOf,
  replaceProgress,
  storedMembersAt,
  storedSubscriptionAt,
} from '../../catalog/progress.ts';
import type {
  JobQueue,
  OwedReload,
  StoredMember,
  StoredProgress,
  StoredSubscription,
} from '../../destination.ts';
import type { WaitForReaders, WriteSession, WriteSessions } from '../write-session.ts';
import { migrateFrom, readFormat } from './format.ts';
import { statementsOf } from './rows.ts';
import { catalogTable, storesProgress } from './schema.ts';

/** Resolves to whether the mirror contains `progress` now: false when there is no mirror. */
export async function storeProgress(
  session: WriteSessions,
  path: string,
  progress: StoredProgress,
  wait: WaitForReaders,
): Promise<boolean> {
  // Reading does not conflict with readers, so the file is opened for writing only when something differs.
  const isStored = await session.read((engine) => isProgressStored(engine, path, progress), wait);
  if (isStored === null) return false;
  if (isStored) return true;
  return await session.write((opened) => writeProgress(opened, path, progress), wait);
}

/** Stores the queue's progress before the write session ends. A failure is only logged, because the jobs are committed. */
export async function storeBesideCommits(
  session: WriteSession,
  queue: JobQueue,
  { path, log }: { readonly path: string; readonly log: Log },
): Promise<void> {
  const progress = (await queue.progressToStore?.()) ?? null;
  if (progress === null) return;
  try {
    await writeProgress(session, path, progress);
  } catch (error) {
    log.warn(
      { path, why: String(error) },
      'The progress was not stored in the mirror; its tables are committed.',
    );
  }
}

/** Returns null when there is no mirror yet. */
async function isProgressStored(
  engine: Engine,
  path: string,
  progress: StoredProgress,
): Promise<boolean | null> {
  const format = await readFormat(engine, path);
  if (format === null) return null;
  return storesProgress(format) && replaceProgress(await readProgress(engine), progress).length === 0;
}

function writeProgress(session: WriteSession, path: string, progress: StoredProgress): Promise<boolean> {
  return session.transaction(async (engine) => {
    const format = await readFormat(engine, path);
    if (format === null) return false;
    await migrateFrom(engine, format);
    const writes = replaceProgress(await readProgress(engine), progress);
    for (const statement of statementsOf(writes)) await engine.run(statement);
    return true;
  }, 'progress');
}

/** Reads a mirror whose format has the tables of progress. Returns null when nothing was ever stored. */
export async function readProgress(engine: Engine): Promise<StoredProgress | null> {
  const subscriptions = await readSubscriptions(engine);
  const members = await readMembers(engine);
  const owed = await readOwed(engine);
  return progressOf({ subscriptions, members, owed });
}

async function readSubscriptions(engine: Engine): Promise<readonly StoredSubscription[]> {
  const rows = await engine.rows(`SELECT subscription_id, name, log_number, event_number,
      epoch_ms(event_created_at), epoch_ms(position_at), states_last_event
    FROM ${catalogTable('subscriptions')} ORDER BY ALL`);
  return rows.map(storedSubscriptionAt);
}

/** The members of a subscription come as one JSON text, for the same reason as the columns of a table do. */
async function readMembers(engine: Engine): Promise<readonly StoredMember[]> {
  const rows = await engine.rows(`SELECT subscription_id,
      to_json(list([dataset_id, added_event::VARCHAR, dropped_event::VARCHAR] ORDER BY dataset_id))::VARCHAR
    FROM ${catalogTable('members')} GROUP BY subscription_id ORDER BY subscription_id`);
  return rows.flatMap(storedMembersAt);
}

async function readOwed(engine: Engine): Promise<readonly OwedReload[]> {
  const rows =
    await engine.rows(`SELECT dataset_id, subscription_id, log_number, event_number, epoch_ms(created_at)
    FROM ${catalogTable('owed')} ORDER BY ALL`);
  return rows.map(owedReloadAt);
}
