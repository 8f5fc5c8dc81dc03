/** The past in PostgreSQL, and what is read of tables, beside readers and a writer at work (F69). */

import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { examineServer } from '../../src/destination/postgres/examine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { destinationAtWork } from '../support/mirror-at-work.ts';
import { eventually } from '../support/patience.ts';
import { ALL_HISTORY, OWNERS, PEOPLE } from '../support/people.ts';
import { databaseAtWork, openDatabase, openReaderOf } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

describe.skipIf(EMBEDDED.folder === null)('history and reads in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  /** A session of a reader or an operator. */
  async function session(address: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: address });
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  }

  it('F69 a commit does not wait for the reader of a past that is to be forgotten, and the rest of it goes', async () => {
    const address = await server.database();
    const first = await databaseAtWork(address, { history: ALL_HISTORY });
    const course = await first.loaded(firstContent(PEOPLE, FIRST));
    const zoning = await first.loaded(firstContent(PEOPLE, FIRST), 'zoning');
    for (const one of [course, zoning]) {
      one.publish(firstContent(OWNERS, [[1, 'Ann']]));
      await first.load(one);
    }
    await first.destination.close();
    const logs = () =>
      statement(address, 'SELECT log_name FROM feed_sync.history_logs WHERE frozen_commit IS NOT NULL');
    expect(await logs()).toEqual([['parcels__3_log'], ['zoning__4_log']]);
    const reader = await session(address);
    await reader.query('BEGIN; SELECT * FROM history.parcels__3');
    const history = { keeps: () => true, keepMs: 1 };
    const destination = await openDatabase(address, first.folder, { history });
    onTestFinished(() => destination.close());
    const second = await destinationAtWork(first.folder, destination);
    course.publish(firstContent(OWNERS, [[1, 'Bob']]));
    expect(await second.load(course)).toMatchObject({ kind: 'committed' });
    expect(await logs()).toEqual([['parcels__3_log']]);
  });

  it('F69 F75 a view and a function of readers keep the past that they read, and nothing else; doctor names them', async () => {
    const address = await server.database();
    const first = await databaseAtWork(address, { history: ALL_HISTORY });
    for (const id of ['parcels', 'permits', 'zoning']) {
      const course = await first.loaded(firstContent(PEOPLE, FIRST), id);
      course.publish(firstContent(OWNERS, [[1, 'Ann']]));
      await first.load(course);
    }
    await first.destination.close();
    const logs = () =>
      statement(
        address,
        'SELECT log_name FROM feed_sync.history_logs WHERE frozen_commit IS NOT NULL ORDER BY 1',
      );
    expect(await logs()).toEqual([['parcels__2_log'], ['permits__4_log'], ['zoning__6_log']]);
    await statement(address, 'CREATE VIEW public.past AS SELECT name FROM history.parcels__2');
    await statement(
      address,
      'CREATE VIEW public.earlier AS SELECT name FROM history.permits__4_log_as_of_commit(3)',
    );
    // What hangs on the log of a live table is in nobody's way.
    await statement(address, 'CREATE VIEW public.now AS SELECT owner FROM history.parcels_as_of_commit(2)');
    const url = new Secret(address);
    const { pastHolders } = await examineServer({ url, readers: [], clock: systemClock });
    expect(pastHolders).toEqual([
      { what: 'view public.earlier', on: 'history.permits__4_log_as_of_commit' },
      { what: 'view public.past', on: 'history.parcels__2' },
    ]);
    const warned: unknown[] = [];
    const forgetting = async () => {
      const log = { ...silentLog, warn: (fields: unknown) => warned.push(fields) } as unknown as Log;
      const history = { keeps: () => true, keepMs: 1 };
      const destination = await openDatabase(address, first.folder, { history, log });
      try {
        await destination.has();
        return [await destination.forgetPast(), await destination.forgetPast()];
      } finally {
        await destination.close();
      }
    };
    expect(await forgetting()).toEqual(['all', 'nothing']);
    expect(await logs()).toEqual([['parcels__2_log'], ['permits__4_log']]);
    expect(warned).toMatchObject([
      { table: 'history.parcels__2_log', why: expect.stringContaining('view public.past depends on') },
      { table: 'history.permits__4_log', why: expect.stringContaining('view public.earlier depends on') },
    ]);
    expect(await statement(address, 'SELECT * FROM public.past')).toEqual([['one'], ['two']]);
    await statement(address, 'DROP VIEW public.past, public.earlier');
    expect(await forgetting()).toEqual(['all', 'nothing']);
    expect(await logs()).toEqual([]);
    expect(await statement(address, 'SELECT * FROM public.now')).toEqual([['Ann']]);
  });

  it('F69 a past that cannot be forgotten keeps no other from being forgotten, also where there is time for one alone', async () => {
    const address = await server.database();
    const logged: string[] = [];
    const log = { ...silentLog, info: (_fields: unknown, message: string) => void logged.push(message) };
    const first = await databaseAtWork(address, { history: ALL_HISTORY });
    for (const id of ['areas', 'parcels']) {
      const course = await first.loaded(firstContent(PEOPLE, FIRST), id);
      course.publishRows([[1, 'ONE']]);
      await first.apply(course);
    }
    await first.destination.close();
    await statement(address, 'ALTER TABLE history.areas DROP COLUMN _commit CASCADE');
    const history = { keeps: () => true, keepMs: 1 };
    const destination = await openDatabase(address, first.folder, { history, log });
    onTestFinished(() => destination.close());
    await destination.has();
    for (let time = 1; time <= 2; time += 1) {
      const forgotten = destination.forgetPast().catch(() => null);
      // Work that waits ends the pruning after its first log.
      await Promise.all([forgotten, destination.has()]);
    }
    expect(await statement(address, 'SELECT count(*) FROM history.parcels')).toEqual([['0']]);
    expect(logged).toEqual(['Forgot the past of tables that is older than history.keep.']);
  });

  it('F70 count compares a table as one commit left it, whatever is committed meanwhile', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    await world.loaded(firstContent(PEOPLE, FIRST));
    const zoning = await world.loaded(firstContent(PEOPLE, FIRST), 'zoning');
    const reader = await openReaderOf(address);
    const operator = await session(address);
    await operator.query('BEGIN; LOCK TABLE feeds.parcels IN ACCESS EXCLUSIVE MODE');
    const counting = reader.count(['parcels', 'zoning'], () => false);
    await eventually(async () => {
      const waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessShareLock'";
      expect(await statement(address, waiting)).toEqual([['1']]);
    });
    zoning.publishRows([[1, 'ONE']]);
    expect(await world.apply(zoning)).toMatchObject({ kind: 'committed' });
    await operator.query('COMMIT');
    const same = { strayColumns: [], hasRecordedChecksum: true };
    expect(await counting).toMatchObject([
      { observed: { version: 1 }, table: { rowCount: 2, ...same } },
      { observed: { version: 1 }, table: { rowCount: 2, ...same } },
    ]);
  });

  it('F69 diff compares two states as one commit left their log, whatever is forgotten meanwhile', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address, { history: ALL_HISTORY });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    course.publishRows([[1, 'ONE']]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    const proxy = await cuttingProxy(address);
    const reader = await openReaderOf(proxy.address);
    const forget = () => statement(address, 'DELETE FROM history.parcels').then(() => {});
    // The entries of the log go once the states were found, and before the rows are read.
    proxy.before('BEGIN', async () =>
      proxy.before('history_logs', async () => proxy.before('BEGIN', forget)),
    );
    const { rows } = await reader.diff('parcels', { from: { by: 'commit', commitNumber: 1 }, to: null });
    const found: unknown[] = [];
    for await (const { change, key } of rows) found.push([change, ...key]);
    expect(found).toEqual([
      ['changed', '1'],
      ['removed', '2'],
    ]);
  });
});
