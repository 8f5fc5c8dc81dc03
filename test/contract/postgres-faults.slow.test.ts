/** What a server, its operators and its readers can do to a commit in PostgreSQL (F72 to F76): it is done once and whole, or not at all. */

import process from 'node:process';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { Connection } from '../../src/destination/postgres/connection.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { asError } from '../../src/model/errors.ts';
import { ALTERED } from '../../src/model/lost-past.ts';
import { commandLine } from '../support/command-line.ts';
import { commitAll } from '../support/commit-all.ts';
import { countyFeed } from '../support/county-feed.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { firstContent, type PublishedCourse, publishedCourse } from '../support/duckdb-changes.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { eventually, PATIENCE_MS } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';
import { HAS_PGBOUNCER, pgbouncer } from '../support/pgbouncer.ts';
import { type DatabaseAtWork, databaseAtWork, openDatabase } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];
/** Its wall clock gives every commit the same time, as one does that was set back: times never fall. */
const STANDING = { ...systemClock, now: () => new Date('2026-03-01T12:00:00.000Z') };

if (!HAS_PGBOUNCER) process.stderr.write('SKIPPED: PgBouncer is not installed.\n');

describe.skipIf(EMBEDDED.folder === null)('commits in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  /** The table has the rows, and each version was committed once. */
  async function expectVersions(address: string, newest: number, rows: readonly Row[]): Promise<void> {
    const found = await statement(address, 'SELECT id, name FROM feeds.parcels ORDER BY id');
    expect(found).toEqual(rows.map((row) => row.map(String)));
    const versions = await statement(
      address,
      'SELECT to_version FROM feed_sync.commits ORDER BY commit_number',
    );
    expect(versions).toEqual(Array.from({ length: newest }, (_, index) => [String(index + 1)]));
  }

  /** Commits the changes with the fault, which is armed when only the commit itself is left to do. */
  async function committedWith(
    world: DatabaseAtWork,
    course: PublishedCourse,
    arm: () => void,
    disarm: () => void,
  ) {
    const job = await course.changes(await world.observed());
    const validated = await world.destination.validate(job);
    arm();
    const [result] = await commitAll(world.destination, [validated]);
    disarm();
    return result;
  }

  /** A table that keeps its history and has taken changes, over a connection that can be cut. */
  async function twoVersionsWithHistory() {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address, {
      history: { keeps: () => true, keepMs: Number.POSITIVE_INFINITY },
    });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    course.publishRows([[1, 'ONE']]);
    await world.apply(course);
    return { address, proxy, world, course };
  }

  it.each(['before', 'after'] as const)(
    'F74 a commit is done once where the connection is cut just %s any statement',
    async (when) => {
      const address = await server.database();
      const proxy = await cuttingProxy(address);
      const world = await databaseAtWork(proxy.address);
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      let version = 1;
      for (let at = 1; ; at += 1) {
        version += 1;
        const rows: readonly Row[] = [
          [1, `one ${version}`],
          [version + 1, 'new'],
        ];
        course.publishRows(rows);
        const before = proxy.cuts();
        const result = await committedWith(world, course, () => proxy.cutAt(at, when), proxy.disarm);
        expect(result, `cut at statement ${at}`).toMatchObject({ kind: 'committed' });
        await expectVersions(address, version, rows);
        if (proxy.cuts() === before) break;
      }
      expect(version).toBeGreaterThan(10);
    },
  );

  it('F74 a commit without effect is repeated, also where an earlier one of the same version has the same time', async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address, { clock: STANDING });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const job = await course.snapshot(course.newest(), await world.observed());
    const validated = await world.destination.validate(job);
    proxy.before('COMMIT\0', async () => proxy.cutNow());
    expect(await commitAll(world.destination, [validated])).toMatchObject([{ kind: 'committed' }]);
    const commits = 'SELECT commit_number, kind FROM feed_sync.commits ORDER BY commit_number';
    expect(await statement(address, commits)).toEqual([
      ['1', 'load'],
      ['2', 'reload'],
    ]);
  });

  it('F74 a commit is reported as done where the answer to COMMIT is lost and the database is away for a while', async () => {
    const { address, proxy, world } = await twoVersionsWithHistory();
    const fetched = { bytes: 0, elapsedMs: () => 0 };
    const back = { kind: 'rollback', datasetId: 'parcels', toCommit: 1, version: 1, fetched } as const;
    const job = { ...back, plannedFrom: await world.observed() };
    const validated = await world.destination.validate(job);
    proxy.cutNext();
    proxy.before('COMMIT\0', async () => proxy.before('BEGIN ISOLATION', async () => proxy.cutNow()));
    expect(await commitAll(world.destination, [validated])).toMatchObject([{ kind: 'committed' }]);
    expect(proxy.cuts()).toBe(1);
    const commits = 'SELECT kind, to_version FROM feed_sync.commits ORDER BY commit_number';
    expect(await statement(address, commits)).toEqual([
      ['load', '1'],
      ['changes', '2'],
      ['rollback', '1'],
    ]);
  });

  it('F74 a commit reports the past that it has lost, also where the answer to COMMIT is lost', async () => {
    const { address, proxy, world, course } = await twoVersionsWithHistory();
    await statement(address, "UPDATE feeds.parcels SET name = 'by hand'");
    const job = await course.snapshot(course.newest(), await world.observed());
    const validated = await world.destination.validate(job);
    proxy.cutNext();
    const committed = { lostPast: ALTERED, net: { added: 0, changed: 1, removed: 0 } };
    expect(await commitAll(world.destination, [validated])).toMatchObject([{ kind: 'committed', committed }]);
    expect(proxy.cuts()).toBe(1);
  });

  it("F74 a commit is done once where the connection breaks unnoticed by the server, which keeps the session's locks", async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address, { leaseMs: 600 });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const rows: readonly Row[] = [[1, 'ONE']];
    course.publishRows(rows);
    const validated = await world.destination.validate(await course.changes(await world.observed()));
    proxy.before('DELETE FROM', async () => proxy.leave());
    expect(await commitAll(world.destination, [validated])).toMatchObject([{ kind: 'committed' }]);
    await expectVersions(address, 2, rows);
  });

  it('F74 F73 only the instance that holds the lease reports a commit as its own', async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    // The lease is not renewed before the test is over.
    const world = await databaseAtWork(proxy.address, { clock: STANDING, leaseMs: 10 * PATIENCE_MS });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    course.publishRows([[1, 'ONE']]);
    const validated = await world.destination.validate(await course.changes(await world.observed()));
    // The lease ends, and the other instance ends the session of the first and commits the same version.
    proxy.before('COMMIT\0', async () => {
      proxy.lose();
      await statement(address, 'UPDATE feed_sync.lease SET expires_at = clock_timestamp()');
      const other = await databaseAtWork(address, { clock: STANDING, lockWaitMs: PATIENCE_MS });
      const same = publishedCourse(other.folder, firstContent(PEOPLE, FIRST), 'parcels');
      same.publishRows([[1, 'ONE']]);
      expect(await other.apply(same)).toMatchObject({ kind: 'committed' });
      proxy.cutNow();
      proxy.restore();
    });
    const [result] = await commitAll(world.destination, [validated]);
    expect(errorOf(present(result, 'a job has a result')).message).toContain('has taken over the database');
    await expectVersions(address, 2, [[1, 'ONE']]);
  });

  it.each([4, 9])('F74 a commit is done once where the server restarts at statement %i', async (at) => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const rows: readonly Row[] = [[1, 'ONE']];
    course.publishRows(rows);
    const result = await committedWith(
      world,
      course,
      () => {
        proxy.cutAt(at, 'before', () => server.restart());
      },
      proxy.disarm,
    );
    expect(result).toMatchObject({ kind: 'committed' });
    expect(proxy.cuts()).toBe(1);
    await expectVersions(address, 2, rows);
  });

  it.each([
    ['changes rows', [[1, 'ONE']]],
    ['leaves every row as it is', FIRST],
  ] as const)(
    'F74 a commit that %s is done once where the connection breaks while the server is at COMMIT',
    async (_, rows) => {
      const address = await server.database();
      const proxy = await cuttingProxy(address);
      const world = await databaseAtWork(proxy.address);
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      course.publishRows(rows);
      const validated = await world.destination.validate(await course.changes(await world.observed()));
      const set = async (setting: string) => {
        await statement(address, `ALTER SYSTEM ${setting}`);
        await statement(address, 'SELECT pg_reload_conf()');
      };
      const sessions = async (condition: string) => {
        const named = "application_name = 'feed-sync' AND datname = current_database()";
        await eventually(async () => {
          const query = `SELECT count(*) FROM pg_stat_activity WHERE ${named} AND ${condition}`;
          expect(await statement(address, query)).toEqual([['1']]);
        });
      };
      // A server whose standby does not answer holds every COMMIT.
      await set("SET synchronous_standby_names = 'nobody'");
      const committing = commitAll(world.destination, [validated]);
      try {
        await sessions("wait_event = 'SyncRep'");
        proxy.cutNow();
        await sessions("wait_event_type = 'Lock'");
      } finally {
        await set('RESET synchronous_standby_names');
      }
      expect(await committing).toMatchObject([{ kind: 'committed' }]);
      await expectVersions(address, 2, rows);
      expect(await statement(address, 'SELECT version FROM feed_sync.datasets')).toEqual([['2']]);
    },
  );

  it.skipIf(!HAS_PGBOUNCER)(
    'F74 a commit is done once where PgBouncer restarts in it, and before it',
    async () => {
      const address = await server.database();
      const pooler = await pgbouncer(address);
      const proxy = await cuttingProxy(pooler.address.replace('&port=6432', ''), 6432);
      const world = await databaseAtWork(proxy.address);
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      const rows: readonly Row[] = [[1, 'ONCE']];
      course.publishRows(rows);
      const result = await committedWith(
        world,
        course,
        () => {
          proxy.cutAt(5, 'before', () => pooler.restart());
        },
        proxy.disarm,
      );
      expect(result).toMatchObject({ kind: 'committed' });
      await expectVersions(address, 2, rows);
      course.publishRows([[1, 'ONE']]);
      const job = await course.changes(await world.observed());
      const validated = await world.destination.validate(job);
      await pooler.restart();
      expect(await commitAll(world.destination, [validated])).toMatchObject([{ kind: 'committed' }]);
    },
  );

  it('a transaction is not mixed up with another one that begins on the same connection meanwhile', async () => {
    const connection = new Connection({ url: new Secret(await server.database()), clock: systemClock });
    onTestFinished(() => connection.close());
    const [read, written] = await Promise.all([
      connection.transaction((transaction) => transaction.rows('SELECT 1'), { isReadOnly: true }),
      connection.transaction((transaction) => transaction.run('CREATE TABLE public.kept (id int)')),
    ]);
    expect([read, written]).toEqual([[[1n]], 0]);
    expect(await connection.rows('SELECT count(*) FROM public.kept')).toEqual([[0n]]);
  });

  it.each([
    { how: 'the server ends its session between two statements', isOurs: false, hasSecond: true },
    { how: 'the server ends its session before COMMIT', isOurs: false, hasSecond: false },
    { how: 'the connection is closed here between two statements', isOurs: true, hasSecond: true },
  ])('F74 a transaction takes effect in no part where $how', async ({ isOurs, hasSecond }) => {
    const address = await server.database();
    const connection = new Connection({ url: new Secret(address), clock: systemClock });
    onTestFinished(() => connection.close());
    await statement(address, 'CREATE TABLE public.kept (id int)');
    const sessions = "FROM pg_stat_activity WHERE application_name = 'feed-sync'";
    const transaction = connection.transaction(async (begun) => {
      await begun.run('INSERT INTO public.kept VALUES (1)');
      if (isOurs) await connection.close();
      else await statement(address, `SELECT pg_terminate_backend(pid, 10000) ${sessions}`);
      // The end has arrived here, too, which no statement has met yet.
      await eventually(async () => expect(connection.isPooled).toBeNull());
      if (hasSecond) await begun.run('INSERT INTO public.kept VALUES (2)');
    });
    await expect(transaction).rejects.toMatchObject({ fault: 'unavailable' });
    expect(await statement(address, 'SELECT id FROM public.kept')).toEqual([]);
    await connection.transaction((next) => next.run('INSERT INTO public.kept VALUES (3)'));
    expect(await statement(address, 'SELECT id FROM public.kept')).toEqual([['3']]);
  });

  it('F74 a transaction is no commit where the server answers COMMIT with ROLLBACK, because a statement failed', async () => {
    const connection = new Connection({ url: new Secret(await server.database()), clock: systemClock });
    onTestFinished(() => connection.close());
    const writing = connection.transaction((begun) => begun.run('SELECT 1 / 0').catch(asError));
    await expect(writing).rejects.toMatchObject({ fault: 'conflict' });
  });

  it('a request begins once, also where the connection breaks while the server begins it', async () => {
    const proxy = await cuttingProxy(await server.database());
    const world = await databaseAtWork(proxy.address);
    const requests = present(world.destination.requests, 'a database has requests');
    const asked = { requestId: 'one', datasetId: 'us-az-permits', command: 'resume', parameters: {} };
    const now = new Date();
    await requests.ask(asked, now);
    proxy.cutNext();
    await expect(requests.begin(asked.datasetId, now)).rejects.toMatchObject({
      code: 'destination_unavailable',
    });
    expect(proxy.cuts()).toBe(1);
    expect(await requests.state('one')).toEqual({ kind: 'begun' });
    expect(await requests.waitingDatasets(now)).toEqual([asked.datasetId]);
    expect(await requests.begin(asked.datasetId, now)).toMatchObject(asked);
    expect(await requests.waitingDatasets(now)).toEqual([]);
    expect(await requests.begin(asked.datasetId, now)).toBeNull();
    await requests.answer('one', { kind: 'done', text: 'Resumed.' });
    expect(await requests.state('one')).toEqual({ kind: 'done', text: 'Resumed.' });
    expect(await requests.waitingDatasets(now)).toEqual([]);
  });

  it('a connection needs one session of the server, even where statements open it at once', async () => {
    const address = await server.database();
    const connection = new Connection({ url: new Secret(address), clock: systemClock });
    const sessions = () =>
      statement(
        address,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'feed-sync' AND datname = current_database()",
      );
    await Promise.all([connection.rows('SELECT 1'), connection.rows('SELECT 2')]);
    expect(await sessions()).toEqual([['1']]);
    // A connection that is closed while it opens leaves none either.
    await connection.close();
    const opening = connection.rows('SELECT 3');
    await connection.close();
    await opening.catch(() => {});
    await connection.close();
    await eventually(async () => expect(await sessions()).toEqual([['0']]));
  });

  it('several instances that start at once on an empty database make the catalog once', async () => {
    const address = await server.database();
    const opened = await Promise.all(
      [1, 2, 3].map(async () => {
        const folder = await temporaryFolder();
        onTestFinished(() => folder[Symbol.asyncDispose]());
        const destination = await openDatabase(address, folder.path, { lockWaitMs: 0 }).catch(asError);
        if (!(destination instanceof Error)) onTestFinished(() => destination.close());
        return destination;
      }),
    );
    const refused = opened.filter((each) => each instanceof Error);
    expect(refused).toHaveLength(2);
    for (const error of refused) expect(error).toMatchObject({ code: 'instance_running' });
  });

  it("F75 a commit is done, whichever side the server ends, where a reader's DDL closes a circle of locks with it", async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const rows: readonly Row[] = [[1, 'ONE']];
    course.publishRows(rows);
    const reader = new pg.Client({ connectionString: address });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query('BEGIN; LOCK TABLE feed_sync.datasets IN SHARE MODE');
    const applied = world.apply(course);
    const waiting =
      "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'feed_sync.datasets'::regclass AND NOT granted";
    await eventually(async () => expect(await statement(address, waiting)).toEqual([['t']]));
    await reader.query('CREATE INDEX by_name ON feeds.parcels (name)').catch((error: pg.DatabaseError) => {
      expect(error.code).toBe('40P01');
    });
    await reader.query('COMMIT');
    expect(await applied).toMatchObject({ kind: 'committed' });
    await expectVersions(address, 2, rows);
  });

  it('F74 a commit waits for a server that lets nobody write, and loads no snapshot in the place of its changes', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const name = address.match(/county_\d+/)?.[0];
    await statement(address, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    const ended = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '${name}' AND pid <> pg_backend_pid()`;
    await statement(address, ended);
    course.publishRows([[1, 'ONE']]);
    const refused = errorOf(await world.apply(course));
    expect(refused).toMatchObject({ code: 'destination_unavailable' });
    const elsewhere = address.replace(`/${name}`, '/postgres');
    await statement(elsewhere, `ALTER DATABASE ${name} RESET default_transaction_read_only`);
    await statement(elsewhere, ended);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    await expectVersions(address, 2, [[1, 'ONE']]);
  });

  it('F76 the next instance works where somebody has deleted the row of the lease', async () => {
    const address = await server.database();
    const first = await databaseAtWork(address);
    const course = await first.loaded(firstContent(PEOPLE, FIRST));
    await statement(address, 'DELETE FROM feed_sync.lease');
    course.publishRows([[1, 'ONE']]);
    expect(errorOf(await first.apply(course))).toMatchObject({ code: 'instance_running' });
    const second = await databaseAtWork(address);
    const same = publishedCourse(second.folder, firstContent(PEOPLE, FIRST), 'parcels');
    same.publishRows([[1, 'ONE']]);
    expect(await second.apply(same)).toMatchObject({ kind: 'committed' });
    await expectVersions(address, 2, [[1, 'ONE']]);
  });

  describe('alterations by hand', () => {
    async function installation() {
      const made = await countyFeed({ kinds: ['permits'], rowsPerDataset: 20 });
      const address = await server.database();
      const environment = { FEED_SYNC_DESTINATION_URL: address, PATH: process.env['PATH'] ?? '' };
      const line = commandLine({ feed: made.feed, now: () => made.feed.clock.now(), environment });
      onTestFinished(() => line.remove());
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      const [[table = ''] = []] = await statement(address, 'SELECT table_name FROM feed_sync.datasets');
      return { ...made, address, line, table: `feeds.${table}` };
    }

    it.each([
      ['a dropped table', (table: string) => `DROP TABLE ${table}`],
      ['a dropped column', (table: string) => `ALTER TABLE ${table} DROP COLUMN status`],
      [
        'a column of another type',
        (table: string) => `ALTER TABLE ${table} ALTER COLUMN status TYPE varchar(99)`,
      ],
      ['deleted rows', (table: string) => `DELETE FROM ${table}`],
      ['a table that was emptied', (table: string) => `TRUNCATE ${table}`],
    ])('F76 verify names %s, and one resync repairs it', async (_, byHand) => {
      const { address, line, table } = await installation();
      await statement(address, byHand(table));
      const verified = await line.run('verify');
      const resynced = [await line.run('resync', '--all', '--yes'), await line.run('once')];
      const again = await line.run('verify');
      expect(
        [verified.exitCode, resynced.map(({ exitCode }) => exitCode), again.exitCode],
        verified.stdout,
      ).toEqual([65, [0, 0], 0]);
    });

    it('F76 once loads a dropped table again, which it names', async () => {
      const { address, line, table } = await installation();
      await statement(address, `DROP TABLE ${table}`);
      const once = await line.run('once');
      expect([once.exitCode, once.stderr]).toEqual([0, expect.stringContaining('A table was dropped')]);
      expect(await statement(address, `SELECT count(*) FROM ${table}`)).toEqual([['20']]);
    });

    it('F76 a reload makes a dropped key again', async () => {
      const { address, line, table } = await installation();
      await statement(address, `ALTER TABLE ${table} DROP CONSTRAINT ${table.split('.')[1]}_pkey`);
      await line.run('resync', '--all', '--yes');
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      const keys =
        "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND connamespace = 'feeds'::regnamespace";
      expect(await statement(address, keys)).toEqual([['1']]);
    });

    it('F76 a dropped catalog is no mirror: everything is loaded anew, and an existing table is left alone', async () => {
      const { address, line, table } = await installation();
      await statement(address, 'DROP SCHEMA feed_sync CASCADE');
      await statement(address, `DELETE FROM ${table}`);
      const once = await line.run('once');
      expect([once.exitCode, once.stderr]).toEqual([0, expect.stringContaining('The mirror is missing')]);
      const [[anew = ''] = []] = await statement(address, 'SELECT table_name FROM feed_sync.datasets');
      expect(`feeds.${anew}`).not.toBe(table);
      expect(await statement(address, `SELECT count(*) FROM feeds.${anew}`)).toEqual([['20']]);
      expect(await statement(address, `SELECT count(*) FROM ${table}`)).toEqual([['0']]);
    });

    it('F76 a role that lost a table ends with 77 and a hint at the repair', async () => {
      const { address, line, table, publishNext, datasetOf } = await installation();
      await statement(address, 'DROP ROLE IF EXISTS somebody');
      await statement(address, 'CREATE ROLE somebody LOGIN');
      const name = address.match(/county_\d+/)?.[0];
      await statement(address, `GRANT CREATE, TEMP ON DATABASE ${name} TO somebody`);
      await statement(
        address,
        'ALTER SCHEMA feeds OWNER TO somebody; ALTER SCHEMA feed_sync OWNER TO somebody; ALTER SCHEMA archived OWNER TO somebody',
      );
      for (const [owned] of await statement(
        address,
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'feed_sync'",
      ))
        await statement(address, `ALTER TABLE ${owned} OWNER TO somebody`);
      publishNext(datasetOf('permits'));
      line.environment['FEED_SYNC_DESTINATION_URL'] = address.replace(
        'postgres://feeds',
        'postgres://somebody',
      );
      const once = await line.run('once');
      expect([once.exitCode, once.stderr + once.stdout]).toEqual([
        77,
        expect.stringMatching(/lacks a right[\s\S]*owner of the schemas/),
      ]);
      await statement(address, `ALTER TABLE ${table} OWNER TO somebody`);
      await line.run('resume', '--all');
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
    });
  });
});
