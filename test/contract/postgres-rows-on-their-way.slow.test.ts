/** Rows on their way from DuckDB into PostgreSQL, and what an operator or a neighbour does to the pipe and to the table meanwhile. */

import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEBIAN, EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Geometry, Row } from '../../fixtures/source/content.ts';
import { commitAll } from '../support/commit-all.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { firstContent, publishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { parquet, snapshot, column as snapshotColumn } from '../support/duckdb-mirror.ts';
import { eventually, PATIENCE_MS } from '../support/patience.ts';
import { PEOPLE } from '../support/people.ts';
import { poisonedFile } from '../support/poisoned-files.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { contentFrom, repairJob } from '../support/repairing.ts';
import { column } from '../support/small-content.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];
const SECOND: readonly Row[] = [
  [1, 'ONE'],
  [3, 'three'],
];
const ROWS = 'SELECT * FROM feeds.parcels ORDER BY id';
const TEXTS = (rows: readonly Row[]) => rows.map((row) => row.map(String));

describe.skipIf(EMBEDDED.folder === null)(EMBEDDED.name, () => {
  const server = postgresOfTests(EMBEDDED);

  it('F76 makes the named pipe again that somebody has removed', async () => {
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    for (const commit of [world.apply, world.load]) {
      rmSync(join(world.folder, 'postgres.pipe'));
      course.publishRows(SECOND);
      expect(await commit(course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand(ROWS)).toEqual(TEXTS(SECOND));
    }
  });

  it.each<[string, (path: string, other: string) => void]>([
    ['file', (path) => writeFileSync(path, 'precious')],
    ['folder', (path) => mkdirSync(path)],
    ['link to a file', (path, other) => symlinkSync(other, path)],
    ['link to nothing', (path) => symlinkSync('/nowhere', path)],
  ])(
    'F66 writes no row into a %s in the place of the named pipe, and says what to remove',
    async (_what, put) => {
      const world = await databaseAtWork(await server.database());
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      const path = join(world.folder, 'postgres.pipe');
      const other = join(world.folder, 'other');
      writeFileSync(other, 'precious');
      rmSync(path);
      put(path, other);
      course.publishRows(SECOND);
      for (const commit of [world.apply, world.load]) {
        expect(await commit(course)).toMatchObject({
          kind: 'failed',
          error: {
            code: 'storage_failed',
            message: `The named pipe ${path}, through which rows go to PostgreSQL, cannot be opened: something else lies at its path.`,
            hint: 'Remove what lies at its path; the next catch-up makes the pipe again.',
          },
        });
      }
      expect(await world.byHand(ROWS)).toEqual(TEXTS(FIRST));
      expect(readFileSync(other, 'utf8')).toBe('precious');
      rmSync(path, { recursive: true });
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    },
  );

  it('F06 a file that DuckDB gives up on fails its dataset alone, by name', async () => {
    const world = await databaseAtWork(await server.database());
    const columns = [
      snapshotColumn('id', 'integer', { nullable: false }),
      snapshotColumn('amount', 'integer'),
    ];
    const path = await parquet(
      world.folder,
      'poisoned.parquet',
      'SELECT 1::BIGINT AS id, 2::BIGINT AS amount',
    );
    const job = snapshot({ datasetId: 'poisoned', columns, files: [path], keyColumns: ['id'] });
    const poisoned = await world.destination.validate(job);
    await poisonedFile(world.folder, 'poisoned.parquet');
    const course = world.published(firstContent(PEOPLE, FIRST));
    const sound = await world.destination.validate(await course.snapshot(course.newest(), null));
    const [failed, committed] = await commitAll(world.destination, [poisoned, sound]);
    expect(failed).toMatchObject({
      kind: 'failed',
      error: { code: 'data_invalid', message: expect.stringContaining('poisoned.parquet') },
    });
    expect(committed).toMatchObject({ kind: 'committed' });
  });

  it('F11 a repair whose file is gone says which rows could not be written, and why', async () => {
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand("UPDATE feeds.parcels SET name = 'altered'");
    const content = await contentFrom(course.newest(), course, world);
    const repair = await world.destination.validate(await repairJob(world, content));
    for (const { path } of content.snapshot.files) rmSync(path);
    const [failed] = await commitAll(world.destination, [repair]);
    expect(failed).toMatchObject({
      kind: 'failed',
      error: {
        code: 'dataset_storage_failed',
        message: expect.stringMatching(
          /^The rows of parcels could not be written into PostgreSQL: .*\.parquet"\.$/,
        ),
      },
    });
  });

  it('F75 names the tables that inherit from a table, and never touches their rows', async () => {
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand(`CREATE TABLE public.own (extra bigint) INHERITS (feeds.parcels);
      INSERT INTO public.own VALUES (7, 'seven', 1), (8, 'eight', 2)`);
    course.publishRows(SECOND);
    await world.apply(course);
    expect(await world.load(course)).toMatchObject({
      kind: 'failed',
      error: {
        code: 'reader_dependency',
        message: expect.stringContaining(
          'tables inherit from feeds.parcels, so that their rows count as rows of it: public.own.',
        ),
      },
    });
    expect(await world.byHand('SELECT * FROM public.own ORDER BY id')).toEqual([
      ['7', 'seven', '1'],
      ['8', 'eight', '2'],
    ]);
    await world.byHand('ALTER TABLE public.own NO INHERIT feeds.parcels');
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await world.byHand('SELECT count(*) FROM public.own')).toEqual([['2']]);
  });

  it('F75 commits nothing into a table that the server would empty when it crashes, until it is logged again', async () => {
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand('ALTER TABLE feeds.parcels SET UNLOGGED');
    course.publishRows(SECOND);
    for (const commit of [world.apply, world.load]) {
      expect(await commit(course)).toMatchObject({
        kind: 'failed',
        error: {
          code: 'reader_dependency',
          message: expect.stringContaining('ALTER TABLE feeds.parcels SET LOGGED'),
        },
      });
    }
    expect(await world.byHand(ROWS)).toEqual(TEXTS(FIRST));
    await world.byHand('ALTER TABLE feeds.parcels SET LOGGED');
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    expect(await world.byHand(ROWS)).toEqual(TEXTS(SECOND));
  });

  it('F75 loads no values that the trigger of an event trigger has altered, and stages none', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const put = (event: string, written: string) => `CREATE OR REPLACE FUNCTION public.own() RETURNS trigger
        LANGUAGE plpgsql AS $own$ BEGIN ${written}; END $own$;
      CREATE OR REPLACE FUNCTION public.put() RETURNS event_trigger LANGUAGE plpgsql AS $put$
        DECLARE made record; BEGIN FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF made.object_identity ~ 'parcels|stage' THEN
          EXECUTE format('CREATE TRIGGER own ${event} ON %s FOR EACH ROW EXECUTE FUNCTION public.own()', made.objid::regclass);
        END IF; END LOOP; END $put$`;
    await world.byHand(`${put('BEFORE INSERT', 'NEW.name = upper(NEW.name); RETURN NEW')};
      CREATE EVENT TRIGGER put ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.put()`);
    const course = world.published(firstContent(PEOPLE, FIRST));
    expect(await world.load(course)).toMatchObject({
      kind: 'failed',
      error: {
        code: 'reader_dependency',
        message: expect.stringContaining(
          'a trigger, a rule or a policy alters the rows that are written into feeds.parcels',
        ),
      },
    });
    // One that leaves the rows as they are is in nobody's way.
    await world.byHand(put('AFTER INSERT', "PERFORM pg_notify('made', NEW.name); RETURN NULL"));
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.byHand(ROWS)).toEqual(TEXTS(FIRST));
    await world.byHand(put('BEFORE INSERT', 'NEW.name = upper(NEW.name); RETURN NEW'));
    for (const [commit, rows] of [
      [world.apply, SECOND],
      [world.load, FIRST],
    ] as const) {
      course.publishRows(rows);
      expect(await commit(course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand(ROWS)).toEqual(TEXTS(rows));
    }
  });

  it('F74 commits again where another session has written a row that the commit waited for', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    for (const [commit, rows] of [
      [world.apply, SECOND],
      [world.load, FIRST],
    ] as const) {
      const neighbour = new pg.Client({ connectionString: address });
      await neighbour.connect();
      onTestFinished(() => neighbour.end());
      await neighbour.query('BEGIN; UPDATE feeds.parcels SET name = name');
      course.publishRows(rows);
      let isOver = false;
      const committed = commit(course).finally(() => {
        isOver = true;
      });
      const waiting =
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'feed-sync' AND wait_event_type = 'Lock'";
      await eventually(async () => {
        if (!isOver) expect(await statement(address, waiting)).not.toEqual([]);
      });
      await neighbour.query('COMMIT');
      expect(await committed).toMatchObject({ kind: 'committed' });
      expect(await world.byHand(ROWS)).toEqual(TEXTS(rows));
    }
  });

  it('F76 writes texts that a collation of somebody takes for equal to those before', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand(`CREATE COLLATION public.any_case
      (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      ALTER TABLE feeds.parcels ALTER COLUMN name TYPE text COLLATE public.any_case`);
    for (const [commit, name] of [
      [world.apply, 'ONE'],
      [world.load, 'One'],
    ] as const) {
      course.publishRows([
        [1, name],
        [2, 'two'],
      ]);
      expect(await commit(course)).toMatchObject({ kind: 'committed', committed: { net: { changed: 1 } } });
      expect(await world.byHand(ROWS)).toEqual([
        ['1', name],
        ['2', 'two'],
      ]);
    }
  });

  it('F74 finds that no index can hold a key where the database ends a session at any error', async () => {
    const address = await server.database();
    await statement(address, `ALTER DATABASE ${address.match(/county_\d+/)?.[0]} SET exit_on_error = on`);
    const world = await databaseAtWork(address);
    const keyed = { ...sourceSchema([column('id', 'string', false)]), keyColumns: ['id'] };
    const digits = Array.from({ length: 20_000 }, (_, index) => (index * 7919).toString(36)).join('');
    const course = world.published(firstContent(keyed, [[digits], ['short']]));
    expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    expect(await world.byHand('SELECT count(*) FROM feeds.parcels')).toEqual([['2']]);
  });
});

const SHAPES = sourceSchema([
  column('id', 'integer', false),
  column('name', 'string'),
  column('shape', 'geometry'),
]);
/** PostGIS refuses it in bytes, so that its rows go again as CSV. */
const ONE_POINT: Geometry = { type: 'LineString', coordinates: [[7, 8]] };
const STATEMENTS_OF_COPIES = ['SAVEPOINT copy', 'FORMAT binary', 'ROLLBACK TO SAVEPOINT copy', 'FORMAT csv'];

describe.skipIf(DEBIAN.folder === null)(DEBIAN.name, () => {
  const server = postgresOfTests(DEBIAN);
  const shapes = 'SELECT id, name, ST_AsText(shape) FROM feeds.parcels ORDER BY id';
  const versions = 'SELECT to_version FROM feed_sync.commits ORDER BY commit_number';

  it('F74 commits once where the connection ends on the way of rows that go again as CSV', async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address, { leaseMs: 600 });
    const course = await world.loaded(firstContent(SHAPES, [[1, 'one', ONE_POINT]]));
    let version = 1;
    for (const text of STATEMENTS_OF_COPIES) {
      for (const commit of [world.apply, world.load]) {
        version += 1;
        course.publishRows([[1, `one ${version}`, ONE_POINT]]);
        let cuts = 0;
        proxy.before(text, async () => {
          cuts += 1;
          proxy.cutNow();
        });
        expect(await commit(course)).toMatchObject({ kind: 'committed' });
        expect(cuts).toBe(1);
        expect(await statement(address, shapes)).toEqual([['1', `one ${version}`, 'LINESTRING(7 8)']]);
      }
    }
    const each = Array.from({ length: version }, (_, index) => [String(index + 1)]);
    expect(await statement(address, versions)).toEqual(each);
  });

  it.each(STATEMENTS_OF_COPIES)(
    'F73 an instance that loses the lease before %s writes nothing any more',
    async (text) => {
      const address = await server.database();
      const proxy = await cuttingProxy(address);
      const rows: readonly Row[] = [[1, 'ONE', ONE_POINT]];
      const first = firstContent(SHAPES, [[1, 'one', ONE_POINT]]);
      const world = await databaseAtWork(proxy.address, { leaseMs: 10 * PATIENCE_MS });
      const course = await world.loaded(first);
      course.publishRows(rows);
      const validated = await world.destination.validate(await course.changes(await world.observed()));
      const takenOver = Promise.withResolvers<void>();
      const takeOver = async (): Promise<void> => {
        proxy.lose();
        await statement(address, 'UPDATE feed_sync.lease SET expires_at = clock_timestamp()');
        const other = await databaseAtWork(address, { lockWaitMs: PATIENCE_MS });
        const same = publishedCourse(other.folder, first, 'parcels');
        same.publishRows(rows);
        expect(await other.apply(same)).toMatchObject({ kind: 'committed' });
        proxy.cutNow();
        proxy.restore();
      };
      proxy.before(text, () => takeOver().then(takenOver.resolve, takenOver.reject));
      const [result] = await commitAll(world.destination, [validated]);
      await takenOver.promise;
      expect(result).toMatchObject({ kind: 'failed', error: { code: 'instance_running' } });
      expect(await statement(address, shapes)).toEqual([['1', 'ONE', 'LINESTRING(7 8)']]);
      expect(await statement(address, versions)).toEqual([['1'], ['2']]);
    },
  );
});
