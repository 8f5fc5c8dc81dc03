/**
 * With PostgreSQL: the program killed just before and just after each COMMIT, and at every effect beside the database.
 *
 * By default a COMMIT in four is killed, in each state other ones; `CRASH_CASES=all` plays all kills, and `CRASH_CASES='before
 * destination.commit-postgres 4'` that one alone.
 */

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { program } from '../support/program.ts';
import { steered } from '../support/steered-process.ts';
import { killPointsIn, nameOf } from './kills.ts';

const COMMIT = 'destination.commit-postgres';
const { CRASH_CASES } = process.env;

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

/** Returns the kills to play: at every COMMIT, and at all else where it comes first and last. */
function killsIn(record: string, share: number): readonly string[] {
  const kills = [...killPointsIn(record)].flatMap(([point, count]) => {
    const all = Array.from({ length: count }, (_, index) => `${point} ${index + 1}`);
    return all.filter((_, index) => nameOf(point) === COMMIT || index === 0 || index === count - 1);
  });
  if (CRASH_CASES === 'all') return kills;
  if (CRASH_CASES !== undefined) return kills.filter((kill) => kill === CRASH_CASES);
  const commits = kills.filter((kill) => kill.includes(COMMIT));
  return commits.filter((kill, index) => (index + Number(kill.startsWith('after'))) % 4 === share % 4);
}

/** What a database has, but for times. */
async function contentOf(address: string) {
  const rows = (sql: string) => statement(address, sql);
  const tables = await rows('SELECT table_name FROM feed_sync.datasets ORDER BY dataset_id');
  const contents = tables.map(([name]) =>
    rows(`SELECT '${name}', count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM feeds."${name}" t`),
  );
  return {
    contents: (await Promise.all(contents)).flat(),
    datasets: await rows(
      'SELECT dataset_id, version, row_count, key_columns::text, checksum FROM feed_sync.datasets ORDER BY dataset_id',
    ),
    commits: await rows(`SELECT dataset_id, kind, from_version, to_version, added, changed, removed
      FROM feed_sync.commits ORDER BY dataset_id, commit_number`),
    archived: await rows('SELECT dataset_id, version, reason FROM feed_sync.archived ORDER BY dataset_id'),
    relations: await rows(`SELECT n.nspname::text, regexp_replace(c.relname, '__.*', '') FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname IN ('feeds', 'archived', 'history') AND c.relkind = 'r' ORDER BY 1, 2`),
    candidates: await rows(
      'SELECT dataset_id, version, content, approved_at IS NOT NULL FROM feed_sync.candidates',
    ),
    positions: await rows(
      'SELECT subscription_id, log_number, event_number FROM feed_sync.subscriptions ORDER BY subscription_id',
    ),
    members: await rows(
      'SELECT subscription_id, dataset_id FROM feed_sync.members WHERE dropped_event IS NULL ORDER BY dataset_id',
    ),
  };
}

/** What is done in a state, and again after the kill. */
interface Act {
  readonly words: readonly string[];
  /** How it ends; and how it may end, too, where it was killed after all was done. */
  readonly exitCodes: readonly number[];
}

type Run = (...words: readonly string[]) => Promise<{ readonly stdout: string }>;

const ONCE: Act = { words: ['once'], exitCodes: [0] };

interface State {
  readonly name: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly prepare: (county: CountyFeed, run: Run) => Promise<Act>;
}

/** No row may change without approval. */
const GATED = { FEED_SYNC_GATES_CHANGED_ROWS: '0' };

const STATES: readonly State[] = [
  { name: 'load', prepare: async () => ONCE },
  {
    name: 'apply and retire',
    async prepare({ feed, publishNext, datasetOf }, run) {
      await run('once');
      feed.publisher.remove(datasetOf('zoning'), 'source_retired');
      publishNext(datasetOf('permits'));
      return ONCE;
    },
  },
  {
    name: 'wait',
    environment: GATED,
    async prepare({ publishNext, datasetOf }, run) {
      await run('once');
      publishNext(datasetOf('permits'));
      return { ...ONCE, exitCodes: [77] };
    },
  },
  {
    name: 'approve',
    environment: GATED,
    async prepare({ publishNext, datasetOf }, run) {
      await run('once');
      publishNext(datasetOf('permits'));
      await run('once');
      const { datasets } = JSON.parse((await run('approve', '--json')).stdout);
      return { words: String(datasets[0].command).split(' ').slice(1), exitCodes: [0, 64] };
    },
  },
];

describe.skipIf(EMBEDDED.folder === null)('F01 F02 kills with PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  it.each(STATES)('leaves the database as undisturbed after each kill in the state $name', async (state) => {
    const county = await countyFeed({ kinds: ['permits', 'zoning'], rowsPerDataset: 20 });
    const address = await server.database();
    const environment = {
      FEED_SYNC_DESTINATION_URL: address,
      FEED_SYNC_DESTINATION_LEASE: '5s',
      ...state.environment,
    };
    const installed = await program({ feed: county.feed, environment, secrets: [PASSWORD] });
    const { words, exitCodes } = await state.prepare(county, installed.run);
    await county.feed.prepareSnapshots();
    const folder = mkdtempSync(join(tmpdir(), 'feed-sync-crash-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    cpSync(installed.home, join(folder, 'start'), { recursive: true });
    const [, database = ''] = /(county_\d+)/.exec(address) ?? [];
    const elsewhere = address.replace(database, 'postgres');
    await statement(elsewhere, `CREATE DATABASE ${database}_start TEMPLATE ${database}`);
    const fromTheStart = async (steering: Readonly<Record<string, string>>) => {
      await statement(elsewhere, `DROP DATABASE ${database} WITH (FORCE)`);
      await statement(elsewhere, `CREATE DATABASE ${database} TEMPLATE ${database}_start`);
      for (const file of readdirSync(installed.home)) {
        rmSync(join(installed.home, file), { recursive: true });
      }
      cpSync(join(folder, 'start'), installed.home, { recursive: true });
      return await installed.runWith(steering, ...words);
    };
    const recordTo = join(folder, 'record');
    const undisturbed = await fromTheStart(steered({ recordTo }));
    expect(undisturbed.exitCode, undisturbed.stderr).toBe(exitCodes[0]);
    const expected = await contentOf(address);
    const kills = killsIn(readFileSync(recordTo, 'utf8'), STATES.indexOf(state));
    expect(kills.length).toBeGreaterThan(0);
    for (const kill of kills) {
      const killed = await fromTheStart(steered({ killAt: kill }));
      expect(killed, kill).toMatchObject({ signal: 'SIGKILL' });
      const again = await installed.run(...words);
      expect(exitCodes, `${kill}: ${again.stdout}${again.stderr}`).toContain(again.exitCode);
      expect(await contentOf(address), kill).toEqual(expected);
    }
  });
});
