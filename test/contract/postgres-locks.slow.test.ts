/** F75 readers' transactions that hold locks in PostgreSQL: what they keep from going on, for how long, and what goes on all the same. */

import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import type { JobResult } from '../../src/destination/destination.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { PEOPLE } from '../support/people.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

const FIRST: readonly Row[] = [[1, 'one']];
const LOCK_WAIT_MS = 400;

const ROWS = 'SELECT * FROM feeds.parcels FOR UPDATE';

describe.skipIf(EMBEDDED.folder === null)("F75 a reader's transaction", () => {
  const server = postgresOfTests(EMBEDDED);

  /** Two tables, each with a version that was not applied yet. */
  async function twoTables() {
    const world = await databaseAtWork(await server.database(), { lockWaitMs: LOCK_WAIT_MS });
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    const other = await world.loaded(firstContent(PEOPLE, FIRST), 'zones');
    for (const each of [course, other]) each.publishRows([[1, 'ONE']]);
    const reader = new pg.Client({ connectionString: world.address });
    await reader.connect();
    onTestFinished(() => reader.end());
    const hold = (sql: string) => reader.query(`BEGIN; ${sql}`);
    return { world, course, other, hold, letGo: () => reader.query('COMMIT') };
  }

  type World = Awaited<ReturnType<typeof twoTables>>;
  const apply = ({ world, course }: World): Promise<JobResult> => world.apply(course);
  const reload = ({ world, course }: World): Promise<JobResult> => world.load(course);
  const retire = ({ world, course }: World): Promise<JobResult> => world.retire(course, 'archive');

  it.each([
    ['rows', 'changes', ROWS, apply],
    ['rows', 'a reload', ROWS, reload],
    ['a table against writers', 'changes', 'LOCK TABLE feeds.parcels IN SHARE MODE', apply],
    ['a table against everybody', 'a reload', 'LOCK TABLE feeds.parcels', reload],
    ['a table that it reads', 'a retirement', 'SELECT * FROM feeds.parcels', retire],
    ['a table against everybody', 'a retirement', 'LOCK TABLE feeds.parcels', retire],
  ])(
    "F75 a reader's lock on %s keeps %s waiting for lock.wait, and no other dataset",
    async (_, __, sql, act) => {
      const made = await twoTables();
      await made.hold(sql);
      const error = errorOf(await act(made));
      expect([errorCodeOf(error), error.message]).toEqual([
        'table_locked',
        expect.stringContaining('due to lock timeout'),
      ]);
      expect(await made.world.apply(made.other)).toMatchObject({ kind: 'committed' });
      await made.letGo();
      expect(['committed', 'retired']).toContain((await act(made)).kind);
    },
  );

  it("F75 a reader's lock on the catalog keeps the whole run waiting", async () => {
    const made = await twoTables();
    await made.hold('LOCK TABLE feed_sync.commits IN SHARE MODE');
    expect(errorCodeOf(errorOf(await apply(made)))).toBe('mirror_busy');
    await made.letGo();
    expect(await apply(made)).toMatchObject({ kind: 'committed' });
  });

  it("a reader's lock ends export, observed state and commands after lock.wait", async () => {
    const { world, course, hold, letGo } = await twoTables();
    const write = () => world.database.writeTable(course.datasetId, join(world.folder, 'parcels.parquet'));
    const open = () => openPostgresReader({ url: new Secret(world.address), clock: systemClock });
    const busy = { code: 'mirror_busy', message: expect.stringContaining('due to lock timeout') };
    await hold('LOCK TABLE feeds.parcels');
    await expect(write()).rejects.toMatchObject(busy);
    await letGo();
    await hold('LOCK TABLE feed_sync.commits, feed_sync.meta');
    await expect(world.destination.has()).rejects.toMatchObject(busy);
    await expect(open()).rejects.toMatchObject(busy);
    await letGo();
    expect(await write()).toMatchObject({ rowCount: 1 });
    await (await open())?.close();
  });

  it('F75 a deadlock at every attempt, or a limit for statements, fails that dataset alone', async () => {
    const made = await twoTables();
    const { world, other } = made;
    await world.byHand('CREATE TABLE public.state (code text)');
    await world.byHand(`CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = (SELECT code FROM public.state); END $$`);
    const trigger = (table: string) =>
      world.byHand(
        `CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION public.fail()`,
      );
    const codeWith = async (sqlState: string) => {
      await world.byHand(`DELETE FROM public.state; INSERT INTO public.state VALUES ('${sqlState}')`);
      return errorCodeOf(errorOf(await apply(made)));
    };
    await trigger('feeds.parcels');
    expect([await codeWith('40P01'), await codeWith('53400'), await codeWith('XX001')]).toEqual([
      'table_locked',
      'dataset_storage_failed',
      'dataset_storage_failed',
    ]);
    expect(await world.apply(other)).toMatchObject({ kind: 'committed' });
    await world.byHand('DROP TRIGGER fail ON feeds.parcels');
    await trigger('feed_sync.commits');
    expect([await codeWith('53400'), await codeWith('XX001')]).toEqual(['storage_failed', 'storage_failed']);
  });
});
