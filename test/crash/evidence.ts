/** What an installation has left behind, in a form in which two of them can be compared. */

import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import Database from 'better-sqlite3';
import { identifier, literal, openExactly } from '../support/exact-mirror.ts';
import type { Program } from '../support/program.ts';

/** By dataset: its lines of the history, oldest first. */
export type History = ReadonlyMap<string, readonly string[]>;

/**
 * Every file below the home of the installation, but for the log of the mirror: what is in it is committed, and the next
 * commit puts it into the mirror. A time in a name is anybody's.
 */
export function filesOf({ home }: Program): readonly string[] {
  return readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(home, join(entry.parentPath, entry.name)))
    .filter((path) => path !== 'data/mirror.duckdb.wal')
    .map((path) => path.replace(/\.corrupt-[0-9TZ.]+/, '.corrupt-TIME'))
    .toSorted();
}

/**
 * How many files of snapshots are downloaded and verified, and wait to be committed or removed. Where the manifest states no
 * digests, only a whole note beside a file says what it is.
 */
export function stagedFiles(installed: Program, { hasDigests }: { readonly hasDigests: boolean }): number {
  return filesOf(installed)
    .filter((path) => /staging\/[0-9a-f]+\/[0-9a-f]+\.parquet$/.test(path))
    .filter((path) => hasDigests || isWholeNote(join(installed.home, `${path}.json`))).length;
}

/** A process that is killed while it writes a note leaves a part of it, or an empty file. */
function isWholeNote(path: string): boolean {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) !== null;
  } catch {
    return false;
  }
}

/**
 * Of a mirror as a process that was killed has left it: read from a copy, because reading it is a change. Empty where it
 * cannot be read.
 */
export async function historyAtTheKill({ mirrorPath }: Program): Promise<History> {
  if (!existsSync(mirrorPath)) return new Map();
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-killed-'));
  try {
    const copy = join(folder, 'mirror.duckdb');
    for (const suffix of ['', '.wal']) {
      if (existsSync(mirrorPath + suffix)) copyFileSync(mirrorPath + suffix, copy + suffix);
    }
    return await historyOf(copy);
  } catch {
    return new Map();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Empty where there is no history yet: no mirror, or one of no table. */
export async function historyOf(mirrorPath: string): Promise<History> {
  const mirror = await openExactly(mirrorPath);
  try {
    const [table] = await mirror.rows("SELECT table_name FROM duckdb_tables() WHERE table_name = 'commits'");
    if (table === undefined) return new Map();
    const lines =
      await mirror.rows(`SELECT dataset_id, kind || ' from ' || coalesce(from_version::VARCHAR, 'none')
        || ' to ' || to_version || ': ' || coalesce(added || '+' || changed || '~' || removed || '-', 'uncounted')
      FROM feed_sync.commits ORDER BY commit_number`);
    const byDataset = Map.groupBy(lines, ([datasetId]) => datasetId ?? '');
    return new Map([...byDataset].map(([id, own]) => [id, own.map(([, line]) => line ?? '')]));
  } finally {
    mirror.close();
  }
}

/** Tells how many commits of the dataset there were up to this one: datasets that commit at once do so in any order. */
const ofDataset = (commit: string): string =>
  `(SELECT count(*)::VARCHAR FROM feed_sync.commits AS one WHERE one.dataset_id = logs.dataset_id AND commit_number <= ${commit})`;

/**
 * The undo logs as the catalog lists them, then their entries, without timestamps. Of each log it says whether it has the number of
 * entries and the checksum that were recorded.
 */
export async function pastOf(mirrorPath: string): Promise<readonly string[]> {
  const mirror = await openExactly(mirrorPath);
  try {
    const [table] = await mirror.rows(
      "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'feed_sync' AND table_name = 'history_logs'",
    );
    if (table === undefined) return [];
    const logs =
      await mirror.rows(`SELECT log_name, logs.table_name, closed_reason, ${ofDataset('first_commit')},
        ${ofDataset('closed_commit')}, ${ofDataset('frozen_commit')}, row_count::VARCHAR, checksum::VARCHAR, dataset_id
      FROM feed_sync.history_logs AS logs ORDER BY log_name`);
    const texts: string[] = [];
    for (const [logName, tableName, reason, first, closed, frozen, entries, checksum, datasetId] of logs) {
      const log = `history.${identifier(logName ?? '')}`;
      const [sums] = await mirror.rows(`SELECT count(*)::VARCHAR AS entries,
          coalesce(sum(hash(hash(*COLUMNS(*)))), 0)::HUGEINT::VARCHAR AS hashes FROM ${log}`);
      const isAsRecorded = sums?.[0] === entries && sums?.[1] === checksum;
      const states = [first, closed, frozen].map((commit) => commit ?? 'none').join(', ');
      texts.push(
        `${unnumbered(logName)} of ${unnumbered(tableName)}: ${states}; ${reason ?? 'open'}; as recorded: ${isAsRecorded}`,
      );
      const rows = await mirror.rows(`SELECT ${ofDataset('_commit')} || ': ' ||
          to_json({'entry': COLUMNS(* EXCLUDE (_commit, _published_at, _applied_at))::VARCHAR})::VARCHAR
        FROM (SELECT *, ${literal(datasetId ?? '')} AS dataset_id FROM ${log}) AS logs`);
      texts.push(...rows.map((row) => `${unnumbered(logName)}: ${row.join(' ')}`).toSorted());
    }
    return texts;
  } finally {
    mirror.close();
  }
}

/** The number of a commit in the name of a frozen table, and the time in that of an archived one. */
function unnumbered(name: string | null | undefined): string {
  return (name ?? 'none').replaceAll(/__\d+(?:_\d{8}t\d{6}z)?/g, '__N');
}

/**
 * The content of the checkpoint without timestamps, sync runs and counters: of requests it says
 * what is still owed. The number of a resync is a time: `owedResyncs` says whether the table satisfies it.
 */
const QUERIES: readonly (readonly [name: string, sql: string])[] = [
  [
    'subscriptions',
    'SELECT subscription_id, name, cursor_text, log_number, states_last_event FROM subscriptions',
  ],
  [
    'desired states',
    `SELECT dataset_id, refreshes_requested > refreshes_done AS is_refresh_pending, resync_number > 0 AS was_resync_asked,
       retirement_approved FROM desired_states`,
  ],
  [
    'members',
    'SELECT dataset_id, subscription_id, is_member, event_number, announced, reason FROM desired_members',
  ],
  [
    'reloads',
    `SELECT dataset_id, subscription_id, log_number, event_number, known_version, listed_version, is_withdrawal
       FROM desired_reloads`,
  ],
  ['absences', 'SELECT subject FROM absences'],
  ['mentions', 'SELECT dataset_id, subscription_id FROM mentions'],
  ['forgotten', 'SELECT subscription_id FROM forgotten'],
  ['suspensions', 'SELECT scope_kind, scope_id, operation, status, code FROM suspensions'],
  ['failures', 'SELECT dataset_id, error, content FROM failures'],
  ['webhooks', 'SELECT webhook_id, url FROM webhooks'],
  ['deliveries', 'SELECT delivery_id FROM deliveries'],
  ['hook', 'SELECT commit_number, message FROM hook'],
  ['notifications', "SELECT key FROM notifications, json_each(ledger, '$.told')"],
];

/** As part of a text. */
const TIMESTAMP = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

export function checkpointOf({ checkpointPath }: Program): Readonly<Record<string, unknown>> {
  if (!existsSync(checkpointPath)) return {};
  const database = new Database(checkpointPath, { readonly: true });
  try {
    return Object.fromEntries(QUERIES.map(([name, sql]) => [name, inOrder(database.prepare(sql).all())]));
  } finally {
    database.close();
  }
}

/** The datasets whose tables owe a resync that an operator asked for, by the checkpoint and the mirror together. */
export async function owedResyncs({ checkpointPath, mirrorPath }: Program): Promise<readonly string[]> {
  if (!existsSync(checkpointPath)) return [];
  const database = new Database(checkpointPath, { readonly: true });
  const asked = database
    .prepare<[], [datasetId: string, number: number]>('SELECT dataset_id, resync_number FROM desired_states')
    .raw()
    .all();
  database.close();
  const satisfied = existsSync(mirrorPath) ? await satisfiedResyncs(mirrorPath) : new Map();
  return asked
    .filter(([datasetId, number]) => number > (satisfied.get(datasetId) ?? 0))
    .map(([datasetId]) => datasetId)
    .toSorted();
}

/** By dataset. Empty where there is no table that could satisfy one. */
async function satisfiedResyncs(mirrorPath: string): Promise<ReadonlyMap<string, number>> {
  const mirror = await openExactly(mirrorPath);
  try {
    const [table] = await mirror.rows("SELECT table_name FROM duckdb_tables() WHERE table_name = 'reloads'");
    if (table === undefined) return new Map();
    const rows = await mirror.rows(
      "SELECT dataset_id, event_number::VARCHAR FROM feed_sync.reloads WHERE subscription_id = ''",
    );
    return new Map(rows.map(([datasetId, number]) => [datasetId ?? '', Number(number)]));
  } finally {
    mirror.close();
  }
}

function inOrder(rows: readonly unknown[]): readonly string[] {
  return rows.map((row) => JSON.stringify(row).replaceAll(TIMESTAMP, 'a timestamp')).toSorted();
}
