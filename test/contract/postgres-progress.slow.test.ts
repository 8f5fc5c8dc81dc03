/** What a destination in PostgreSQL counts as progress, which distinguishes a standstill from work that takes long. */

import { Readable, Writable } from 'node:stream';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { Connection } from '../../src/destination/postgres/connection.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { eventually } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

/** Runs until `public.enough` has a row. */
const LONG = `CREATE FUNCTION public.long() RETURNS trigger LANGUAGE plpgsql
  AS $$ BEGIN WHILE NOT EXISTS (SELECT FROM public.enough) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NEW; END $$`;
const IN_STATEMENT = 'CREATE TRIGGER long BEFORE INSERT ON feed_sync.commits EXECUTE FUNCTION public.long()';
const IN_COMMIT = `CREATE CONSTRAINT TRIGGER long AFTER INSERT ON feed_sync.commits DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION public.long()`;

describe.skipIf(EMBEDDED.folder === null)('the progress of a commit in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  it.each([
    ['one statement', IN_STATEMENT, ''],
    ['COMMIT', IN_COMMIT, ''],
    ['one statement, and tracks no activities', IN_STATEMENT, 'track_activities = off'],
  ])('a commit makes progress while the server works for long on %s', async (_, trigger, setting) => {
    const address = await server.database();
    if (setting !== '')
      await statement(address, `ALTER DATABASE ${address.match(/county_\d+/)?.[0]} SET ${setting}`);
    const world = await databaseAtWork(address, { leaseMs: 300 });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand('CREATE TABLE public.enough (id int)');
    await world.byHand(LONG);
    await world.byHand(trigger);
    const progress = () => world.destination.progress();
    course.publishRows([[1, 'ONE']]);
    const working = world.apply(course);
    const sleeping = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    await eventually(async () => expect(await world.byHand(sleeping)).not.toEqual([]));
    const atWork = progress();
    // Each renewal of the lease looks for progress.
    for (let renewals = 0; renewals < 10 && progress() <= atWork + 2; renewals += 1) await renewal(world);
    const made = progress() - atWork;
    await world.byHand('INSERT INTO public.enough VALUES (1)');
    expect(await working).toMatchObject({ kind: 'committed' });
    expect(made).toBeGreaterThan(2);
  });

  async function renewal(world: { byHand(sql: string): Promise<unknown> }): Promise<void> {
    const renewed = () => world.byHand('SELECT expires_at FROM feed_sync.lease');
    const before = await renewed();
    await eventually(async () => expect(await renewed()).not.toEqual(before));
  }

  it('a commit makes no progress while a statement waits for a lock', async () => {
    const world = await databaseAtWork(await server.database(), { leaseMs: 300 });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const reader = new pg.Client({ connectionString: world.address });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query('BEGIN; LOCK TABLE feed_sync.commits');
    course.publishRows([[1, 'one more']]);
    const waiting = world.apply(course);
    const locked = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'feed-sync' AND wait_event_type = 'Lock'`;
    await eventually(async () => expect(await world.byHand(locked)).not.toEqual([]));
    const standing = world.destination.progress();
    for (let renewals = 0; renewals < 3; renewals += 1) await renewal(world);
    expect(world.destination.progress()).toBe(standing);
    await reader.query('COMMIT');
    expect(await waiting).toMatchObject({ kind: 'committed' });
  });

  it('reads progress without harm to the lease, also where the role may not read the activity of the server', async () => {
    const address = await server.database();
    await statement(address, 'CREATE ROLE plain LOGIN');
    await statement(address, `GRANT CREATE, TEMP ON DATABASE ${address.match(/county_\d+/)?.[0]} TO plain`);
    await statement(address, 'GRANT CREATE ON SCHEMA public TO plain');
    await statement(address, 'REVOKE SELECT ON pg_catalog.pg_stat_activity FROM PUBLIC');
    const logged: string[] = [];
    const world = await databaseAtWork(address.replace('postgres://feeds', 'postgres://plain'), {
      leaseMs: 300,
      log: { ...silentLog, warn: (_fields, message) => void logged.push(message) },
    });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand('CREATE TABLE public.enough (id int)');
    await world.byHand(LONG);
    await world.byHand(IN_STATEMENT);
    course.publishRows([[1, 'ONE']]);
    const working = world.apply(course);
    const asleep = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    await eventually(async () => expect(await statement(address, asleep)).not.toEqual([]));
    const atWork = world.destination.progress();
    for (let renewals = 0; renewals < 5; renewals += 1) await renewal(world);
    const made = world.destination.progress() - atWork;
    await world.byHand('INSERT INTO public.enough VALUES (1)');
    expect(await working).toMatchObject({ kind: 'committed' });
    expect([made > 0, logged]).toEqual([true, []]);
  });

  it('a connection makes progress while rows pass in either direction', async () => {
    const connection = new Connection({ url: new Secret(await server.database()), clock: systemClock });
    onTestFinished(() => connection.close());
    const written: Buffer[] = [];
    const progress: number[] = [];
    await connection.transaction(async (transaction) => {
      const sink = new Writable({
        write(chunk: Buffer, _encoding, done) {
          written.push(chunk);
          progress.push(connection.progress);
          setImmediate(done);
        },
      });
      await transaction.copyOut('COPY (SELECT generate_series(1, 200000)) TO STDOUT', sink);
      expect(new Set(progress).size).toBeGreaterThan(2);
      await transaction.run('CREATE TEMPORARY TABLE kept (id int)');
      const before = connection.progress;
      expect(await transaction.copyIn('COPY kept FROM STDIN', Readable.from(written))).toBe(200_000);
      expect(connection.progress).toBeGreaterThan(before + 2);
    });
  });
});
