/** F76 the view of a union in PostgreSQL, or what has its name, altered by hand: no commit fails, and what can be is put right. */

import { describe, expect, it } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { PublishedCourse } from '../support/duckdb-changes.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { type DatabaseAtWork, databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column, SMALL_SCHEMA } from '../support/small-content.ts';

const UNIONS = [{ name: 'all_of_it', globs: ['*'], includes: () => true }];
const ALL = 'SELECT dataset_id, id, amount::text FROM feeds.all_of_it ORDER BY 1';
const WIDER = {
  ...SMALL_SCHEMA,
  schemaVersion: '2',
  columns: [...SMALL_SCHEMA.columns, column('side', 'string')],
};

interface World {
  readonly world: DatabaseAtWork;
  readonly parcels: PublishedCourse;
}

describe.skipIf(EMBEDDED.folder === null)('F76 a union in PostgreSQL', () => {
  const server = postgresOfTests(EMBEDDED);

  async function united(address: string): Promise<World> {
    const world = await databaseAtWork(address, { unions: UNIONS });
    const parcels = await world.loaded(firstContent(SMALL_SCHEMA, [['a', 1]]));
    await world.loaded(firstContent(SMALL_SCHEMA, [['b', 2]]), 'zones');
    return { world, parcels };
  }

  async function commit({ world, parcels }: World, id: string): Promise<void> {
    parcels.publishRows([[id, 3]]);
    expect(await world.apply(parcels)).toMatchObject({ kind: 'committed' });
  }

  it.each([
    [
      'a column of its view has another name',
      'ALTER VIEW feeds.all_of_it RENAME COLUMN amount TO "Betrag, ""neu"" (1)"',
    ],
    [
      'its function returns other rows',
      `DO $$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef('feed_sync.all_of_it()'::regprocedure), 'UNION ALL', 'WHERE false UNION ALL')); END $$`,
    ],
    ['its function runs with other rights', 'ALTER FUNCTION feed_sync.all_of_it() SECURITY DEFINER'],
    ['its view has a comment of an operator', `COMMENT ON VIEW feeds.all_of_it IS 'ours'`],
    [
      'its view has no comment, and fewer columns than its tables',
      `COMMENT ON VIEW feeds.all_of_it IS NULL;
       CREATE OR REPLACE FUNCTION feed_sync.all_of_it() RETURNS SETOF record LANGUAGE sql STABLE
         AS $$ SELECT 'x'::text, 'y'::text $$`,
    ],
  ])(
    'F76 the next commit repairs a union, with its rights and the views of readers, where %s',
    async (_, sql) => {
      const address = await server.database();
      const { world, parcels } = await united(address);
      await statement(address, 'DROP ROLE IF EXISTS colleague');
      await statement(address, 'CREATE ROLE colleague; GRANT SELECT ON feeds.all_of_it TO colleague');
      await statement(address, sql);
      await commit({ world, parcels }, 'c');
      const right = [
        ['parcels', 'c', '3'],
        ['zones', 'b', '2'],
      ];
      expect(await statement(address, ALL)).toEqual(right);
      const columns = `SELECT attname FROM pg_attribute WHERE attrelid = 'feeds.all_of_it'::regclass ORDER BY attnum`;
      expect(await statement(address, columns)).toEqual([['dataset_id'], ['id'], ['amount']]);
      const allowed = "SELECT has_table_privilege('colleague', 'feeds.all_of_it', 'SELECT')";
      expect(await statement(address, allowed)).toEqual([['t']]);
      const definer = "SELECT prosecdef FROM pg_proc WHERE proname = 'all_of_it'";
      expect(await statement(address, definer)).toEqual([['f']]);
      await statement(address, 'REVOKE ALL ON feeds.all_of_it FROM colleague; DROP ROLE colleague');
    },
  );

  it("F76 a union keeps a reader's view on a renamed column, and the next new column comes after it", async () => {
    const address = await server.database();
    const { world, parcels } = await united(address);
    await statement(address, 'CREATE VIEW public.mine AS SELECT id, amount FROM feeds.all_of_it');
    await statement(address, 'ALTER VIEW feeds.all_of_it RENAME COLUMN amount TO betrag');
    const rows = [['c', 3, 'north']] as const;
    parcels.publish({ schema: WIDER, rowCount: 1, rows: () => rows, changes: null });
    expect(await world.load(parcels)).toMatchObject({ kind: 'committed' });
    expect(await statement(address, 'SELECT * FROM public.mine ORDER BY 1')).toEqual([
      ['b', '2'],
      ['c', '3'],
    ]);
    expect(await statement(address, 'SELECT * FROM feeds.all_of_it ORDER BY 1')).toEqual([
      ['parcels', 'c', '3', 'north'],
      ['zones', 'b', '2', null],
    ]);
  });

  it.each([
    ['an index', 'CREATE INDEX all_of_it ON feeds.zones (amount)', 'DROP INDEX feeds.all_of_it'],
    ['a type', `CREATE TYPE feeds.all_of_it AS ENUM ('one')`, 'DROP TYPE feeds.all_of_it'],
  ])(
    'F76 a union stops no commit while %s has its name, and is made again afterwards',
    async (_, take, give) => {
      const address = await server.database();
      const { world, parcels } = await united(address);
      await statement(address, 'DROP VIEW feeds.all_of_it');
      await statement(address, take);
      await commit({ world, parcels }, 'c');
      await statement(address, give);
      await commit({ world, parcels }, 'd');
      expect(await statement(address, ALL)).toEqual([
        ['parcels', 'd', '3'],
        ['zones', 'b', '2'],
      ]);
    },
  );

  it('F76 a union stops no commit while a view of another role has its name, which stays', async () => {
    const admin = await server.database();
    await statement(admin, 'CREATE ROLE mirror LOGIN');
    await statement(admin, `GRANT CREATE, TEMP ON DATABASE ${admin.match(/county_\d+/)?.[0]} TO mirror`);
    const { world, parcels } = await united(admin.replace('postgres://feeds', 'postgres://mirror'));
    await statement(admin, 'DROP VIEW feeds.all_of_it');
    await statement(admin, 'CREATE VIEW feeds.all_of_it AS SELECT 42 AS mine');
    await commit({ world, parcels }, 'c');
    expect(await statement(admin, 'SELECT * FROM feeds.all_of_it')).toEqual([['42']]);
    await statement(admin, 'DROP VIEW feeds.all_of_it');
    await commit({ world, parcels }, 'd');
    expect(await statement(admin, ALL)).toEqual([
      ['parcels', 'd', '3'],
      ['zones', 'b', '2'],
    ]);
  });
});
