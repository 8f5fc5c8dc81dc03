/** Stores how far the mirror has followed the service, either in a write session of its own or in one that commits jobs. */

import type { Log } from '../../../lib/log.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import {
  bigintOrNullAt,
  booleanAt,
  dateAt,
  dateOrNullAt,
  numberAt,
  textAt,
  textOrNullAt,
} from '../../../staging/engine/sql.ts';
import type {
  JobQueue,
  OwedReload,
  StoredMember,
  StoredProgress,
  StoredSubscription,
} from '../../destination.ts';
import type { WaitForReaders, WriteSession, WriteSessions } from '../write-session.ts';
import { ensureSchema, readFormat, reloadMarkAt } from './observed-state.ts';
import { type CatalogRow, deleteRows, insertRows, jsonRow } from './rows.ts';
import { type CatalogTable, catalogTable, storesProgress } from './schema.ts';

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
    if ((await readFormat(engine, path)) === null) return false;
    await ensureSchema(engine, path);
    for (const statement of replaceProgress(await readProgress(engine), progress))
      await engine.run(statement);
    return true;
  }, 'progress');
}

/** Reads a mirror whose format has the tables of progress. Returns null when nothing was ever stored. */
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
    FROM ${catalogTable('subscriptions')} ORDER BY ALL`);
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

/** The cells of the query in `readMembers`: dataset, number of the adding event, number of the dropping event. */
type MemberCells = readonly [string, string | null, string | null];

/** The members of a subscription come as one JSON text, for the same reason as the columns of a table do. */
async function readMembers(engine: Engine): Promise<readonly StoredMember[]> {
  const rows = await engine.rows(`SELECT subscription_id,
      to_json(list([dataset_id, added_event::VARCHAR, dropped_event::VARCHAR] ORDER BY dataset_id))::VARCHAR
    FROM ${catalogTable('members')} GROUP BY subscription_id ORDER BY subscription_id`);
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
    FROM ${catalogTable('owed')} ORDER BY ALL`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    subscriptionId: textAt(row, 1),
    ...reloadMarkAt(row, 2),
  }));
}

interface ProgressTable {
  readonly table: CatalogTable;
  /** The number of leading columns that identify the subject of a row. Rows of the same subject are replaced together. */
  readonly keyColumns: number;
  /** In the order of the table's columns. */
  readonly rows: (progress: StoredProgress) => readonly CatalogRow[];
}

const PROGRESS_TABLES: readonly ProgressTable[] = [
  {
    table: 'subscriptions',
    keyColumns: 1,
    rows: ({ subscriptions }) =>
      subscriptions.map((one) => [
        one.subscriptionId,
        one.name?.replaceAll('\0', '\u{fffd}') ?? null,
        one.logNumber,
        one.eventNumber,
        one.eventCreatedAt,
        one.positionAt,
        one.statesLastEvent,
      ]),
  },
  {
    table: 'members',
    keyColumns: 2,
    rows: ({ members }) =>
      members.map(({ subscriptionId, datasetId, addedEvent, droppedEvent }) => {
        return [subscriptionId, datasetId, addedEvent, droppedEvent];
      }),
  },
  {
    table: 'owed',
    keyColumns: 2,
    rows: ({ owed }) =>
      owed.map(({ datasetId, subscriptionId, logNumber, eventNumber, createdAt }) => {
        return [datasetId, subscriptionId, logNumber, eventNumber, createdAt];
      }),
  },
];

/** Returns statements for one transaction; none when `progress` is already stored. */
export function replaceProgress(stored: StoredProgress | null, progress: StoredProgress): readonly string[] {
  const before = stored ?? { subscriptions: [], members: [], owed: [] };
  return PROGRESS_TABLES.flatMap(({ table, keyColumns, rows }) => {
    const [is, shall] = [before, progress].map((of) => rowsByKey(rows(of), keyColumns));
    const differing = (left: RowsByKey = new Map(), right: RowsByKey = new Map()): readonly StoredRows[] =>
      [...left].flatMap(([key, own]) => (right.get(key)?.text === own.text ? [] : [own]));
    const superseded = differing(is, shall).map(({ rows: [first = []] }) => first.slice(0, keyColumns));
    const written = differing(shall, is).flatMap((own) => own.rows);
    return [...deleteRows(table, superseded), ...insertRows(table, written)];
  });
}

interface StoredRows {
  readonly rows: readonly CatalogRow[];
  /** Does not depend on the order of the rows. */
  readonly text: string;
}

type RowsByKey = ReadonlyMap<string, StoredRows>;

/** The keys are texts as the database stores them; ids that are not valid Unicode may share a key. */
function rowsByKey(rows: readonly CatalogRow[], keyColumns: number): RowsByKey {
  const byKey = Map.groupBy(rows.filter(isStorable), (row) => jsonRow(row.slice(0, keyColumns)));
  return new Map(
    [...byKey].map(([key, own]) => [key, { rows: own, text: own.map(jsonRow).toSorted().join() }]),
  );
}

/** A dataset whose id cannot be stored has no table, because no name can hold the id. */
function isStorable(row: CatalogRow): boolean {
  return !row.some((cell) => typeof cell === 'string' && cell.includes('\0'));
}
