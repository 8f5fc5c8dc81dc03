/** The operation of PostgreSQL as the mirror: `doctor`, poolers, and what happens to a server or a role while the program works. */

import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEBIAN, EMBEDDED, PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { setUpScriptFor } from '../../src/cli/doctor/database.ts';
import { openParts } from '../../src/cli/open-parts.ts';
import { Connection } from '../../src/destination/postgres/connection.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { optionsOf } from '../support/fixture-daemon.ts';
import { eventually } from '../support/patience.ts';
import { PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { HAS_PGBOUNCER, pgbouncer } from '../support/pgbouncer.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTest, postgresOfTests } from '../support/postgres-of-tests.ts';
import { program } from '../support/program.ts';
import { psql } from '../support/psql.ts';
import { column } from '../support/small-content.ts';

/** The program looks up mkfifo in the PATH. */
const inDatabase = (address: string) => ({
  FEED_SYNC_DESTINATION_URL: address,
  PATH: process.env['PATH'] ?? '',
});

if (!HAS_PGBOUNCER) process.stderr.write('SKIPPED: PgBouncer is not installed.\n');

describe.skipIf(EMBEDDED.folder === null)(EMBEDDED.name, () => {
  const server = postgresOfTests(EMBEDDED);

  it('a renewal of the lease is no wait on purpose, behind which the daemon would see no standstill', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 5 });
    const address = await server.database();
    const waits: number[] = [];
    const clock: Clock = {
      ...systemClock,
      sleep(durationMs, signal) {
        waits.push(durationMs);
        return systemClock.sleep(durationMs, signal);
      },
    };
    const environment = { ...inDatabase(address), FEED_SYNC_DESTINATION_LEASE: '5s' };
    const ending = new AbortController();
    const options = optionsOf(await program({ feed }), feed, silentLog, ending.signal, environment);
    const { close } = await openParts({ ...options, clock });
    onTestFinished(close);
    const expiry = () => statement(address, 'SELECT expires_at FROM feed_sync.lease');
    const first = await expiry();
    await eventually(async () => expect(await expiry()).not.toEqual(first));
    expect(waits).toEqual([]);
  });

  describe('doctor', () => {
    it('doctor finds a mirror in order, and names the right that the role has lost', async () => {
      const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 5 });
      const address = await server.database();
      await statement(address, 'CREATE ROLE mirror LOGIN');
      await statement(
        address,
        `GRANT CREATE ON DATABASE ${new URL(address.replace('@/', '@s/')).pathname.slice(1)} TO mirror`,
      );
      const own = address.replace('postgres://feeds', 'postgres://mirror');
      const line = commandLine({
        feed,
        now: () => feed.clock.now(),
        environment: inDatabase(own),
      });
      onTestFinished(() => line.remove());
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      const sound = await line.run('doctor');
      expect(sound.stdout).toMatch(/role +mirror, with the rights that it needs/);
      expect(sound.stdout).toMatch(/lease +free/);
      expect(sound.stdout).toMatch(/scrub +none: it is for a mirror in a file/);
      expect(sound.stdout).not.toContain(PASSWORD);
      await statement(address, 'ALTER TABLE feed_sync.meta OWNER TO feeds');
      const wrong = await line.run('doctor');
      expect([wrong.exitCode, wrong.stdout]).toEqual([
        77,
        expect.stringMatching(/may not: own the table feed_sync\.meta[\s\S]*doctor --sql/),
      ]);
      await statement(address, 'ALTER TABLE feed_sync.meta OWNER TO mirror');
      const [[table = ''] = []] = await statement(address, 'SELECT table_name FROM feed_sync.datasets');
      await statement(address, `ALTER TABLE feeds."${table}" OWNER TO feeds`);
      const foreign = await line.run('doctor');
      expect([foreign.exitCode, foreign.stdout]).toEqual([
        77,
        expect.stringContaining(`may not: own the table feeds.${table}.`),
      ]);
      await statement(
        address,
        `ALTER TABLE feeds."${table}" OWNER TO mirror; ALTER TABLE feeds."${table}" SET UNLOGGED`,
      );
      const unlogged = await line.run('doctor');
      expect([unlogged.exitCode, unlogged.stdout]).toEqual([
        77,
        expect.stringContaining(`ALTER TABLE feeds.${table} SET LOGGED`),
      ]);
      await statement(
        address,
        `ALTER TABLE feeds."${table}" SET LOGGED; ALTER ROLE mirror SET default_transaction_read_only = on`,
      );
      expect(await line.run('once')).toMatchObject({ exitCode: 75 });
      const reading = await line.run('doctor');
      expect([reading.exitCode, reading.stdout]).toEqual([
        75,
        expect.stringContaining('The sessions of mirror may only read: default_transaction_read_only = on.'),
      ]);
    });
  });

  describe.skipIf(!HAS_PGBOUNCER)('behind PgBouncer in transaction mode', () => {
    it('loads, changes, alters and retires a table behind PgBouncer in transaction mode', async () => {
      const { address } = await pgbouncer(await server.database());
      const world = await databaseAtWork(address);
      const course = await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      course.publishRows([
        [1, 'ONE'],
        [4, 'four'],
      ]);
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
      const wider = { ...sourceSchema([...PEOPLE.columns, column('age', 'integer')]), schemaVersion: '2' };
      const rows: readonly Row[] = [[9, 'nine', 99]];
      course.publish({ schema: wider, rowCount: 1, rows: () => rows, changes: null });
      expect(await world.load(course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand('SELECT id, name, age FROM feeds.parcels')).toEqual([['9', 'nine', '99']]);
      expect(await world.retire(course, 'archive')).toMatchObject({ kind: 'retired' });
    });

    it('an interrupted statement ends in the server behind PgBouncer, and no statement of others does', async () => {
      const direct = await server.database();
      const { address } = await pgbouncer(direct);
      const world = await databaseAtWork(address);
      await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
      const running = `SELECT count(*) FROM pg_stat_activity WHERE (query ~ 'pg_sleep[(]2000[)]' OR query LIKE 'FETCH%') AND state = 'active'`;
      const other = statement(direct, 'SELECT pg_sleep(2000.5)').catch(String);
      const stop = new AbortController();
      const reader = present(
        await openPostgresReader({ url: new Secret(address), clock: systemClock, signal: stop.signal }),
        'the catalog is there',
      );
      const reading = reader.query('SELECT pg_sleep(2000)').then(async ({ rows }) => {
        for await (const _ of rows) expect.unreachable('the statement sleeps');
      });
      await eventually(async () => expect(await statement(direct, running)).toEqual([['1']]));
      stop.abort();
      await expect(reading).rejects.toThrow();
      await eventually(async () => expect(await statement(direct, running)).toEqual([['0']]));
      const others = `FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(2000.5)' AND state = 'active'`;
      expect(await statement(direct, `SELECT count(*) ${others}`)).toEqual([['1']]);
      await statement(direct, `SELECT pg_terminate_backend(pid) ${others}`);
      await other;
      await reader.close();
    });

    it('a transaction whose session the server ends behind PgBouncer takes no effect, and the next one is done', async () => {
      const direct = await server.database();
      const { address } = await pgbouncer(direct);
      const connection = new Connection({ url: new Secret(address), clock: systemClock });
      onTestFinished(() => connection.close());
      await statement(direct, 'CREATE TABLE public.kept (id int)');
      const writing = connection.transaction(async (begun) => {
        await begun.run('INSERT INTO public.kept VALUES (1)');
        const [[backend] = []] = await begun.rows('SELECT pg_backend_pid()');
        await statement(direct, `SELECT pg_terminate_backend(${backend}, 10000)`);
        await begun.run('INSERT INTO public.kept VALUES (2)');
      });
      await expect(writing).rejects.toMatchObject({ fault: 'unavailable' });
      await connection.transaction((next) => next.run('INSERT INTO public.kept VALUES (3)'));
      expect(await statement(direct, 'SELECT id FROM public.kept')).toEqual([['3']]);
    });

    it('doctor reports PgBouncer, and finds nothing wrong with it', async () => {
      const { feed } = await countyFeed({ kinds: ['permits'], rowsPerDataset: 5 });
      const { address } = await pgbouncer(await server.database());
      const line = commandLine({
        feed,
        now: () => feed.clock.now(),
        environment: inDatabase(address),
      });
      onTestFinished(() => line.remove());
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      expect(await line.run('verify')).toMatchObject({ exitCode: 0 });
      expect((await line.run('doctor')).stdout).toContain('PgBouncer or another pooler stands between');
    });

    it("verify --deep behind PgBouncer compares and repairs several tables, and leaves nothing in the pooler's sessions", async () => {
      const { feed, datasetOf } = await countyFeed({ kinds: ['permits', 'parcels'], rowsPerDataset: 20 });
      const direct = await server.database();
      const { address } = await pgbouncer(direct);
      const line = commandLine({ feed, now: () => feed.clock.now(), environment: inDatabase(address) });
      onTestFinished(() => line.remove());
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      for (const _ of ['first', 'again']) {
        expect(await line.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
      }
      const names = `SELECT table_name FROM feed_sync.datasets WHERE dataset_id = '${datasetOf('permits')}'`;
      const [[table = ''] = []] = await statement(direct, names);
      await statement(
        direct,
        `UPDATE feeds.${table} SET status = 'by hand' WHERE ctid IN
        (SELECT ctid FROM feeds.${table} LIMIT 2)`,
      );
      const found = await line.run('verify', '--deep');
      expect([found.exitCode, found.stdout]).toEqual([65, expect.stringContaining('2 rows changed')]);
      const repaired = await line.run('verify', '--deep', '--repair', '--yes');
      expect(repaired.exitCode, repaired.stdout + repaired.stderr).toBe(0);
      expect(await line.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
      const left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
      expect(await statement(direct, left)).toEqual([['0']]);
    });
  });
});

describe.skipIf(DEBIAN.folder === null)(DEBIAN.name, () => {
  it('the script of doctor --sql makes all that a catch-up needs, and may be run again', async () => {
    const server = await postgresOfTest(DEBIAN);
    const admin = await server.database();
    const url = admin.replace(/\/\/feeds:/, '//mirror:').replace(/county_\d+/, 'made');
    const script = setUpScriptFor(new Secret(url), ['qgis']);
    await psql(admin, script);
    await psql(admin, script);
    const world = await databaseAtWork(url, { readers: ['qgis'] });
    await world.loaded(firstContent(PEOPLE, THREE_PEOPLE));
    expect(await world.byHand('SELECT count(*) FROM feeds.parcels')).toEqual([['3']]);
  });
});
