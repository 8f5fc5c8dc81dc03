/** What an operator has set in a server or a database has no part in a commit: not its time limits, and not the way it writes values. */

import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { eventually } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';
import { type DatabaseAtWork, databaseAtWork, openReaderOf } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column } from '../support/small-content.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

const all = sourceSchema([
  column('id', 'integer', false),
  column('name', 'string'),
  column('size', 'number'),
  column('is', 'boolean'),
  column('day', 'date'),
  column('at', 'timestamp'),
  column('more', 'json'),
]);
const rowOf = (id: number, name = "a\\'b"): Row => {
  const more = { json: { a: ["\\'"] } };
  return [id, name, 0.1 + 0.2 + id, true, '2026-02-03', '2026-02-03T04:05:06.123456Z', more];
};

async function playAll(world: DatabaseAtWork): Promise<void> {
  const course = await world.loaded(firstContent(all, [rowOf(1), rowOf(2)]));
  course.publishRows([rowOf(1), rowOf(2, 'TWO'), rowOf(3)]);
  expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  course.publishRows([rowOf(1), rowOf(3)]);
  expect(await world.load(course)).toMatchObject({ kind: 'committed' });
}

const RECORDED = `SELECT kind, added, changed, removed, d.row_count, d.checksum::text
  FROM feed_sync.commits JOIN feed_sync.datasets d USING (dataset_id) ORDER BY commits.commit_number`;
const MADE = `SELECT c.relname, m.amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND n.nspname IN ('feeds', 'feed_sync') ORDER BY 1`;

/** With whom a promise would not be kept if a transaction did not set them itself. */
const OTHERS: Readonly<Record<string, string>> = {
  synchronous_commit: 'off',
  session_replication_role: 'replica',
  default_table_access_method: 'other',
  search_path: 'public, pg_catalog',
  row_security: 'on',
  quote_all_identifiers: 'on',
  DateStyle: "'German, DMY'",
  IntervalStyle: 'iso_8601',
  TimeZone: "'Asia/Kolkata'",
  extra_float_digits: '-15',
  bytea_output: 'escape',
  standard_conforming_strings: 'off',
  backslash_quote: 'off',
  array_nulls: 'off',
  transform_null_equals: 'on',
  xmloption: 'document',
  default_transaction_isolation: 'serializable',
  client_encoding: 'LATIN1',
  default_transaction_deferrable: 'on',
  default_tablespace: 'missing',
  temp_tablespaces: 'missing',
  temp_file_limit: '0',
  statement_timeout: "'2s'",
  lock_timeout: "'1ms'",
  idle_in_transaction_session_timeout: "'1ms'",
  idle_session_timeout: "'300ms'",
};

describe.skipIf(EMBEDDED.folder === null)('commits in a database with settings of its own', () => {
  const server = postgresOfTests(EMBEDDED);

  /** Sessions that begin from now on have the settings. */
  async function set(address: string, settings: Readonly<Record<string, string>>): Promise<void> {
    const name = address.match(/county_\d+/)?.[0];
    for (const [setting, value] of Object.entries(settings))
      await statement(address, `ALTER DATABASE ${name} SET ${setting} = '${value}'`);
  }

  it('F74 a commit is not ended by the time limits for statements, transactions and idle sessions', async () => {
    const address = await server.database();
    const known = await statement(address, "SELECT current_setting('transaction_timeout', true)");
    await set(address, {
      statement_timeout: '200ms',
      idle_in_transaction_session_timeout: '1ms',
      lock_timeout: '1ms',
      // The server has it since version 17.
      ...(known[0]?.[0] === null ? {} : { transaction_timeout: '500ms' }),
    });
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand(`CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$`);
    await world.byHand(
      'CREATE TRIGGER slow BEFORE INSERT ON feed_sync.commits EXECUTE FUNCTION public.slow()',
    );
    course.publishRows([[1, 'ONE']]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('F74 a commit waits for the rows that a reader has locked, whatever time limit there is for locks', async () => {
    const address = await server.database();
    await set(address, { lock_timeout: '1ms' });
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const reader = new pg.Client({ connectionString: address });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query('BEGIN; SELECT * FROM feeds.parcels FOR UPDATE');
    course.publishRows([[1, 'ONE']]);
    let isOver = false;
    const applied = world.apply(course).finally(() => {
      isOver = true;
    });
    const waiting =
      "SELECT 1 FROM pg_stat_activity WHERE application_name = 'feed-sync' AND wait_event_type = 'Lock'";
    await eventually(async () => {
      if (!isOver) expect(await statement(address, waiting)).not.toEqual([]);
    });
    await reader.query('COMMIT');
    expect(await applied).toMatchObject({ kind: 'committed' });
  });

  it.each(['DATABASE', 'ROLE'])('a commit is the same whatever the settings of the %s are', async (of) => {
    const address = await server.database();
    await statement(address, 'CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler');
    const name = of === 'ROLE' ? 'feeds' : address.match(/county_\d+/)?.[0];
    for (const [setting, value] of Object.entries(OTHERS))
      await statement(address, `ALTER ${of} ${name} SET ${setting} = ${value}`);
    // The other tests have sessions of the role, too.
    const reset = async () => void (await statement(address, `ALTER ${of} ${name} RESET ALL`));
    onTestFinished(reset);
    const world = await databaseAtWork(address, { leaseMs: 600 });
    await world.byHand(`CREATE TABLE public.seen AS SELECT ''::text AS setting, ''::text AS value WHERE false;
      CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.seen SELECT s, current_setting(s) FROM unnest('{synchronous_commit,session_replication_role}'::text[]) AS s;
        RETURN NEW; END $$;
      CREATE TRIGGER see BEFORE INSERT ON feed_sync.commits EXECUTE FUNCTION public.see();
      ALTER TABLE feed_sync.commits ENABLE ALWAYS TRIGGER see`);
    await playAll(world);
    await reset();
    const plain = await databaseAtWork(await server.database());
    await playAll(plain);
    expect(await world.byHand(RECORDED)).toEqual(await plain.byHand(RECORDED));
    expect(await world.byHand(MADE)).toEqual(await plain.byHand(MADE));
    expect(await world.byHand('SELECT DISTINCT setting, value FROM public.seen ORDER BY 1')).toEqual([
      ['session_replication_role', 'origin'],
      ['synchronous_commit', 'on'],
    ]);
  });

  it('refuses a role that would skip the foreign keys of readers and may not change that', async () => {
    const address = await server.database();
    const name = address.match(/county_\d+/)?.[0];
    await statement(
      address,
      `CREATE ROLE plain LOGIN; GRANT CREATE, TEMP ON DATABASE ${name} TO plain;
      ALTER ROLE plain SET session_replication_role = replica`,
    );
    const refused = databaseAtWork(address.replace('//feeds:', '//plain:'));
    await expect(refused).rejects.toMatchObject({
      code: 'configuration_invalid',
      hint: 'ALTER ROLE "plain" SET session_replication_role = origin',
    });
  });

  it('says which right makes temporary tables where the role has lost it, and goes on once it is back', async () => {
    const address = await server.database();
    const name = address.match(/county_\d+/)?.[0];
    await statement(address, `CREATE ROLE modest LOGIN; GRANT CREATE, TEMP ON DATABASE ${name} TO modest`);
    const world = await databaseAtWork(address.replace('//feeds:', '//modest:'));
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await statement(address, `REVOKE TEMP ON DATABASE ${name} FROM modest, PUBLIC`);
    course.publishRows([[1, 'ONE']]);
    expect(await world.apply(course)).toMatchObject({
      kind: 'failed',
      error: {
        code: 'destination_refused',
        message: expect.stringContaining('permission denied to create temporary tables'),
        hint: expect.stringContaining('GRANT TEMPORARY ON DATABASE'),
      },
    });
    await statement(address, `GRANT TEMPORARY ON DATABASE ${name} TO modest`);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('never takes the rows that a policy shows for all that there are', async () => {
    const address = await server.database();
    const name = address.match(/county_\d+/)?.[0];
    await statement(address, `CREATE ROLE owner LOGIN; GRANT CREATE, TEMP ON DATABASE ${name} TO owner`);
    const world = await databaseAtWork(address.replace('//feeds:', '//owner:'));
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand(`ALTER TABLE feeds.parcels ENABLE ROW LEVEL SECURITY;
      ALTER TABLE feeds.parcels FORCE ROW LEVEL SECURITY;
      CREATE POLICY first ON feeds.parcels USING (id = 1) WITH CHECK (true)`);
    course.publishRows([
      [1, 'ONE'],
      [2, 'TWO'],
    ]);
    const inTheWay = {
      code: 'reader_dependency',
      message: expect.stringContaining('row-level security policy'),
    };
    expect(await world.apply(course)).toMatchObject({ kind: 'failed', error: inTheWay });
    expect(await world.load(course)).toMatchObject({ kind: 'failed', error: inTheWay });
    expect(await statement(address, 'SELECT * FROM feeds.parcels ORDER BY id')).toEqual([
      ['1', 'one'],
      ['2', 'two'],
    ]);
    await world.byHand('ALTER TABLE feeds.parcels DISABLE ROW LEVEL SECURITY');
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('compares checksums whatever way the database writes bytes', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const places = sourceSchema([column('id', 'integer', false), column('place', 'geometry')]);
    await world.loaded(firstContent(places, [[1, { type: 'Point', coordinates: [-97.7, 30.2] }]]));
    await set(address, { bytea_output: 'escape' });
    const reader = await openReaderOf(address);
    const [counted] = await reader.count(['parcels'], () => false);
    expect(counted?.table).toMatchObject({ rowCount: 1, hasRecordedChecksum: true });
    const digits = (await statement(address, "SELECT encode(place, 'hex') FROM feeds.parcels"))[0]?.[0];
    const { rows } = await reader.query('SELECT place FROM parcels');
    for await (const row of rows) expect(row).toEqual([digits]);
  });
});
