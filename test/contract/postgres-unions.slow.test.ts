/** Unions in PostgreSQL: the views of DuckDB, and readers' views on them that stay. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Row, SourceColumn } from '../../fixtures/source/content.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { localInstallation } from '../support/local-installation.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const TRAVIS = 'us-tx-travis-parcels';
const LAKEWAY = 'us-tx-lakeway-parcels';
const PERMITS = 'us-tx-travis-permits';
const UNIONS = 'unions: {parcels: "us-*-parcels"}';

function schemaOf(version: string, ...columns: readonly SourceColumn[]) {
  return { ...SMALL_SCHEMA, schemaVersion: version, columns };
}

describe.skipIf(EMBEDDED.folder === null)(`a union with ${EMBEDDED.name}`, () => {
  const server = postgresOfTests(EMBEDDED);
  beforeAll(async () => {
    await statement(await server.database(), 'CREATE ROLE analyst');
  });

  async function mirroring(settings = UNIONS, lockWait = '1s') {
    const feed = await startedFeed();
    publishSmall(feed, [TRAVIS, LAKEWAY, PERMITS]);
    const address = await server.database();
    const installed = (environment: Readonly<Record<string, string>>) => {
      const common = { FEED_SYNC_LOG_LEVEL: 'warn', FEED_SYNC_LOG_FORMAT: 'json' };
      return localInstallation({ feed, environment: { ...common, ...environment } });
    };
    const inDatabase = installed({
      FEED_SYNC_DESTINATION_URL: address,
      FEED_SYNC_DESTINATION_READERS: 'analyst',
      FEED_SYNC_LOCK_WAIT: lockWait,
      PATH: process.env['PATH'] ?? '',
    });
    const inFile = installed({});
    const configure = (text: string): void => {
      for (const { home } of [inDatabase, inFile]) writeFileSync(join(home, 'feed-sync.yaml'), text);
    };
    configure(settings);
    const rowsOf = async (here: typeof inFile, sql: string): Promise<readonly string[]> => {
      const { exitCode, stdout, stderr } = await here.run('query', '--format', 'csv', sql);
      expect(exitCode, stderr).toBe(0);
      return stdout.trimEnd().split('\n');
    };
    return {
      feed,
      address,
      configure,
      run: inDatabase.run,
      /** Catches up and returns what was logged. */
      async once(): Promise<string> {
        await feed.prepareSnapshots();
        const { exitCode, stderr } = await inDatabase.run('once');
        expect(exitCode, stderr).toBe(0);
        return stderr;
      },
      /** Rows of the database, and those of the same statement in DuckDB. */
      async both(sql: string) {
        const caughtUp = await inFile.run('once');
        expect(caughtUp.exitCode, caughtUp.stderr).toBe(0);
        return [await rowsOf(inDatabase, sql), await rowsOf(inFile, sql)] as const;
      },
      rows: (sql: string) => rowsOf(inDatabase, sql),
      publish(datasetId: string, rows: readonly Row[], schema: typeof SMALL_SCHEMA = SMALL_SCHEMA): void {
        feed.publisher.publish(datasetId, smallContent(rows, null, schema));
      },
    };
  }

  const WIDER = schemaOf('2', ...SMALL_SCHEMA.columns, column('side', 'string'));
  const AS_TEXT = schemaOf('3', column('id', 'string', false), column('amount', 'string'));

  it('a union has what it has in DuckDB: rows of new and of retired members, and columns by name', async () => {
    const { once, both, publish, feed } = await mirroring();
    const all = 'SELECT * FROM parcels ORDER BY dataset_id, id';
    await once();
    const [first, ofFile] = await both(all);
    expect(first[0]).toBe('dataset_id,id,amount');
    expect(first).toHaveLength(5);
    expect(first).toEqual(ofFile);
    publish(TRAVIS, [['a', 5, 'north']], WIDER);
    await once();
    const [wider, widerOfFile] = await both(all);
    expect(wider).toEqual([
      'dataset_id,id,amount,side',
      `${LAKEWAY},r00000,0,`,
      `${LAKEWAY},r00001,1,`,
      `${TRAVIS},a,5,north`,
    ]);
    expect(wider).toEqual(widerOfFile);
    feed.publisher.remove(LAKEWAY, 'source_retired');
    await once();
    const [without, withoutOfFile] = await both(all);
    expect(without).toEqual(['dataset_id,id,amount,side', `${TRAVIS},a,5,north`]);
    expect(without).toEqual(withoutOfFile);
    feed.publisher.restore(LAKEWAY);
    await once();
    const [again, againOfFile] = await both(all);
    expect(again).toEqual(wider);
    expect(again).toEqual(againOfFile);
  });

  it('a union keeps the view of a reader through conflicts, lost columns and the end of all members', async () => {
    const { once, publish, feed, address, run } = await mirroring();
    await once();
    await statement(address, 'CREATE VIEW public.mine AS SELECT dataset_id, id, amount FROM feeds.parcels');
    await statement(address, 'CREATE MATERIALIZED VIEW public.counted AS SELECT count(*) FROM feeds.parcels');
    const mine = () => statement(address, 'SELECT * FROM public.mine ORDER BY dataset_id, id');
    expect(await mine()).toHaveLength(4);
    const plan = await statement(address, "EXPLAIN SELECT * FROM feeds.parcels WHERE id = 'r00001'");
    // The server sees through the view: it reads the tables, by their keys where that is quicker.
    expect(plan.join('\n')).not.toContain('Function Scan');
    // A role of destination.readers has every right that the view asks for.
    await statement(address, 'DO $$ BEGIN SET LOCAL ROLE analyst; PERFORM * FROM feeds.parcels; END $$');
    publish(TRAVIS, [['a', 'five']], AS_TEXT);
    const logged = await once();
    expect(logged).toContain('Columns are left out of a union');
    expect(logged).toContain(`integer in 1 (${LAKEWAY}), string in 1 (${TRAVIS})`);
    const status = JSON.parse((await run('status', '--json')).stdout) as { readonly unions: unknown };
    expect(status.unions).toMatchObject([
      { name: 'parcels', tables: 2, leftOutColumns: [{ column: 'amount' }], leftOutDatasets: [] },
    ]);
    expect(await mine()).toEqual([
      [LAKEWAY, 'r00000', null],
      [LAKEWAY, 'r00001', null],
      [TRAVIS, 'a', null],
    ]);
    publish(TRAVIS, [['b', 7]], schemaOf('4', ...SMALL_SCHEMA.columns));
    expect(await once()).toBe('');
    expect((await mine()).at(-1)).toEqual([TRAVIS, 'b', '7']);
    for (const datasetId of [TRAVIS, LAKEWAY]) feed.publisher.remove(datasetId, 'source_retired');
    await once();
    expect(await mine()).toEqual([]);
    feed.publisher.restore(TRAVIS);
    await once();
    expect(await mine()).toEqual([[TRAVIS, 'b', '7']]);
    await statement(address, 'REFRESH MATERIALIZED VIEW public.counted');
    expect(await statement(address, 'SELECT * FROM public.counted')).toEqual([['1']]);
  });

  it('a union keeps its name from a later dataset, whose table has a name that the server can take', async () => {
    const { once, rows, feed } = await mirroring('unions: {parcels: "*"}');
    const ids = ['Parcels', 'parcels', '漢'.repeat(100), '字'.repeat(100)];
    publishSmall(feed, ids);
    await once();
    expect(await rows('SELECT count(*) AS n, count(DISTINCT dataset_id) AS ids FROM parcels')).toEqual([
      'n,ids',
      '14,7',
    ]);
  });

  it('a union follows the setting, and takes neither an existing name nor a view that readers need', async () => {
    const { once, run, rows, configure, address, feed } = await mirroring();
    await once();
    publishSmall(feed, ['parcels']);
    await once();
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '4']);
    configure('unions: {us_tx_travis_permits: "us-*-parcels"}');
    const named = await run('once');
    expect([named.exitCode, named.stdout + named.stderr]).toEqual([
      78,
      expect.stringContaining(`the table of ${PERMITS} has this name`),
    ]);
    await statement(address, 'CREATE VIEW feeds.mine AS SELECT 42 AS answer');
    configure('unions: {mine: "*"}');
    const taken = await run('once');
    expect([taken.exitCode, taken.stdout + taken.stderr]).toEqual([
      78,
      expect.stringContaining('the database has feeds.mine already'),
    ]);
    await statement(address, 'CREATE VIEW public.needed AS SELECT id FROM feeds.parcels');
    configure('');
    const needed = await run('once');
    expect([needed.exitCode, needed.stdout + needed.stderr]).toEqual([
      78,
      expect.stringMatching(/The union parcels cannot be dropped: .*view .*needed/),
    ]);
    await statement(address, 'DROP VIEW public.needed');
    configure('unions: {all_of_it: ["*-parcels", "*-permits"]}');
    await once();
    expect(await rows('SELECT count(*) AS n FROM all_of_it')).toEqual(['n', '6']);
    const left = "SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'feeds'::regnamespace";
    expect(await statement(address, `${left} ORDER BY relname`)).toEqual([['all_of_it'], ['mine']]);
  });

  it('a union leaves out a table that was altered by hand, and is made again where somebody dropped it', async () => {
    const { once, rows, publish, address, run } = await mirroring();
    await once();
    await statement(address, 'ALTER TABLE feeds.us_tx_travis_parcels DROP COLUMN amount');
    publish(LAKEWAY, [['a', 5, 'north']], WIDER);
    expect(await once()).toContain('Tables are left out of a union');
    expect(await rows('SELECT * FROM parcels')).toEqual([
      'dataset_id,id,amount,side',
      `${LAKEWAY},a,5,north`,
    ]);
    await run('resync', TRAVIS);
    await once();
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '3']);
    await statement(address, 'DROP VIEW feeds.parcels');
    await once();
    expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '3']);
    expect(await run('verify')).toMatchObject({ exitCode: 0 });
  });

  it('the next start repairs a union that somebody replaced, also below a view of readers', async () => {
    const { once, rows, address } = await mirroring();
    await once();
    const all = await rows('SELECT * FROM parcels ORDER BY dataset_id, id');
    const comment = "SELECT obj_description('feeds.parcels'::regclass, 'pg_class')";
    const made = await statement(address, comment);
    await statement(address, 'DROP VIEW feeds.parcels');
    await statement(address, 'CREATE VIEW feeds.parcels AS SELECT 42 AS mine');
    await once();
    expect(await rows('SELECT * FROM parcels ORDER BY dataset_id, id')).toEqual(all);
    await statement(address, 'CREATE VIEW public.needed AS SELECT id FROM feeds.parcels');
    const definition = "SELECT pg_get_viewdef('feeds.parcels'::regclass)";
    const [[selected = ''] = []] = await statement(address, definition);
    const filtered = String(selected).replace(/;\s*$/, ' WHERE false');
    await statement(address, `CREATE OR REPLACE VIEW feeds.parcels AS ${filtered}`);
    expect(await rows('SELECT * FROM parcels')).toHaveLength(1);
    await once();
    expect(await rows('SELECT * FROM parcels ORDER BY dataset_id, id')).toEqual(all);
    expect(await statement(address, 'SELECT count(*) FROM public.needed')).toEqual([['4']]);
    expect(await statement(address, comment)).toEqual(made);
  });

  it('the next commit and the next start make a union again once nothing else has its name', async () => {
    const { once, rows, publish, address } = await mirroring();
    await once();
    for (const amount of [1, 2]) {
      await statement(address, 'DROP VIEW feeds.parcels');
      await statement(address, 'CREATE TABLE feeds.parcels (mine int)');
      publish(TRAVIS, [['a', 10 * amount]]);
      expect(await once()).toContain('something that feed-sync did not make has its name');
      await statement(address, 'DROP TABLE feeds.parcels');
      if (amount === 1) publish(TRAVIS, [['a', 11]]);
      await once();
      expect(await rows('SELECT count(*) AS n FROM parcels')).toEqual(['n', '3']);
    }
  });

  it('a union keeps the rights that were granted on it in a database that was restored from a dump', async () => {
    const { once, rows, address } = await mirroring();
    await once();
    const all = await rows('SELECT * FROM parcels ORDER BY dataset_id, id');
    await statement(address, 'CREATE ROLE colleague');
    await statement(address, 'GRANT SELECT ON feeds.parcels TO colleague');
    // There the function of the view has another number.
    await statement(address, "COMMENT ON VIEW feeds.parcels IS 'Union of tables, made by feed-sync, 0123'");
    await once();
    expect(await rows('SELECT * FROM parcels ORDER BY dataset_id, id')).toEqual(all);
    const allowed = "SELECT has_table_privilege('colleague', 'feeds.parcels', 'SELECT')";
    expect(await statement(address, allowed)).toEqual([['t']]);
  });

  it("a union stops no commit where a reader's function returns the rows of the view that took its place", async () => {
    const { once, rows, publish, address } = await mirroring();
    await once();
    await statement(address, 'DROP VIEW feeds.parcels');
    await statement(address, 'CREATE VIEW feeds.parcels AS SELECT 42 AS mine');
    await statement(
      address,
      "CREATE FUNCTION public.mine() RETURNS SETOF feeds.parcels LANGUAGE sql AS 'SELECT 42'",
    );
    publish(TRAVIS, [['a', 5]]);
    await once();
    expect(await rows('SELECT * FROM parcels ORDER BY dataset_id, id')).toEqual([
      'mine,dataset_id,id,amount',
      `,${LAKEWAY},r00000,0`,
      `,${LAKEWAY},r00001,1`,
      `,${TRAVIS},a,5`,
    ]);
  });

  it.each([
    'DROP VIEW feeds.all_of_it',
    'DROP VIEW feeds.all_of_it; CREATE VIEW feeds.all_of_it AS SELECT 42 AS mine',
    "CREATE OR REPLACE VIEW feeds.all_of_it AS SELECT 'mine'::text AS dataset_id, 'x'::text AS id, 42::bigint AS amount",
  ])('the next commit of one of its tables repairs a union, without a start in between: %s', async (sql) => {
    const address = await server.database();
    const unions = [{ name: 'all_of_it', globs: ['*'], includes: () => true }];
    const world = await databaseAtWork(address, { unions });
    const course = await world.loaded(firstContent(SMALL_SCHEMA, [['a', 1]]));
    await world.loaded(firstContent(SMALL_SCHEMA, [['b', 2]]), 'zones');
    const all = 'SELECT dataset_id, id, amount::text FROM feeds.all_of_it ORDER BY 1';
    expect(await statement(address, all)).toEqual([
      ['parcels', 'a', '1'],
      ['zones', 'b', '2'],
    ]);
    await statement(address, sql);
    course.publishRows([['c', 3]]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await statement(address, all)).toEqual([
      ['parcels', 'c', '3'],
      ['zones', 'b', '2'],
    ]);
  });

  it('a union waits for an open transaction within lock.wait only, and for none where no column is added', async () => {
    const { once, run, rows, publish, address } = await mirroring();
    await once();
    const reader = new pg.Client({ connectionString: address });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query('BEGIN; SELECT * FROM feeds.parcels WHERE false');
    publish(LAKEWAY, [['a', 5]]);
    await once();
    publish(TRAVIS, [['b', 6, 'north']], WIDER);
    publish(LAKEWAY, [['a', 7]]);
    const waited = await run('once');
    expect([waited.exitCode, waited.stdout]).toEqual([75, expect.stringContaining('[table_locked]')]);
    // Others go on.
    expect(await rows('SELECT * FROM parcels ORDER BY id')).toContain(`${LAKEWAY},a,7`);
    await reader.query('COMMIT');
    await once();
    expect(await rows('SELECT * FROM parcels ORDER BY id')).toEqual([
      'dataset_id,id,amount,side',
      `${LAKEWAY},a,7,`,
      `${TRAVIS},b,6,north`,
    ]);
  });

  it('a reader that has begun reads a union while a commit waits to alter a table and the view', async () => {
    const { once, run, rows, publish, address, feed } = await mirroring(UNIONS, '5m');
    await once();
    const reader = new pg.Client({ connectionString: address, statement_timeout: 60_000 });
    await reader.connect();
    onTestFinished(() => reader.end());
    // A statement has the view first, and then one table after another.
    await reader.query('BEGIN; LOCK TABLE feeds.parcels IN ACCESS SHARE MODE');
    publish(TRAVIS, [['b', 6, 'north']], WIDER);
    await feed.prepareSnapshots();
    const writing = run('once');
    const isWaiting =
      "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
    await expect.poll(() => statement(address, isWaiting), { timeout: 120_000 }).toHaveLength(1);
    const read = await reader.query('SELECT count(*)::int AS n FROM feeds.parcels');
    expect(read.rows).toEqual([{ n: 4 }]);
    await reader.query('COMMIT');
    const { exitCode, stdout } = await writing;
    expect(exitCode, stdout).toBe(0);
    expect(await rows('SELECT count(*) AS n, count(side) AS sides FROM parcels')).toEqual(['n,sides', '3,1']);
  });

  it('a union keeps a column whose name another member writes in another case', async () => {
    const { once, rows, publish } = await mirroring();
    await once();
    publish(LAKEWAY, [['a', 5]], schemaOf('2', column('id', 'string', false), column('AMOUNT', 'integer')));
    expect(await once()).toBe('');
    expect(await rows('SELECT * FROM parcels ORDER BY id')).toEqual([
      'dataset_id,id,amount',
      `${LAKEWAY},a,5`,
      `${TRAVIS},r00000,0`,
      `${TRAVIS},r00001,1`,
    ]);
  });

  it('a union of more than 200 tables is refused before any load; one that grows beyond stops nothing', async () => {
    const { once, run, rows, feed, configure } = await mirroring('');
    const more = Array.from({ length: 199 }, (_, index) => `us-tx-${index}-parcels`);
    publishSmall(feed, more, 1);
    configure(UNIONS);
    const refused = await run('once');
    expect([refused.exitCode, refused.stdout + refused.stderr]).toEqual([
      78,
      expect.stringContaining('The union parcels would have 201 tables; with PostgreSQL it can have 200.'),
    ]);
    const [last = ''] = more;
    feed.publisher.remove(last, 'source_retired');
    await once();
    feed.publisher.restore(last);
    await once();
    expect(await rows('SELECT count(DISTINCT dataset_id) AS n FROM parcels')).toEqual(['n', '201']);
  });
});
