/** F75 what readers demand of the rows of our tables in PostgreSQL: a commit that breaks it fails its dataset, named, and changes nothing. */

import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import { firstContent, type PublishedCourse, sourceSchema } from '../support/duckdb-changes.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE } from '../support/people.ts';
import { type DatabaseAtWork, databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { column } from '../support/small-content.ts';

const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

/** No algorithm makes it short. */
function longText(length: number): string {
  let state = 1;
  const digits = Array.from({ length }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return String.fromCharCode(33 + (state % 90));
  });
  return digits.join('');
}

/** Expects changes and a reload to fail, because an object of a reader is in the way. */
async function expectRefusedByReader(
  world: DatabaseAtWork,
  course: PublishedCourse,
  named: string,
): Promise<void> {
  for (const act of [() => world.apply(course), () => world.load(course)]) {
    const error = errorOf(await act());
    expect([errorCodeOf(error), error.message]).toEqual([
      'reader_dependency',
      expect.stringContaining(named),
    ]);
  }
}

describe.skipIf(EMBEDDED.folder === null)("F75 commits that a reader's object refuses", () => {
  const server = postgresOfTests(EMBEDDED);

  it.each([
    [
      'an index',
      'CREATE INDEX by_name ON feeds.parcels (name)',
      longText(6_000),
      'DROP INDEX feeds.by_name',
      'by_name',
    ],
    // The server names no index then.
    [
      'the longest index',
      'CREATE INDEX by_name ON feeds.parcels (name)',
      longText(30_000),
      'DROP INDEX feeds.by_name',
      'index row',
    ],
    [
      'a unique index',
      'CREATE UNIQUE INDEX by_name ON feeds.parcels (name)',
      'one',
      'DROP INDEX feeds.by_name',
      'by_name',
    ],
    [
      'a check',
      `ALTER TABLE feeds.parcels ADD CONSTRAINT by_name CHECK (name <> 'three')`,
      'three',
      'ALTER TABLE feeds.parcels DROP CONSTRAINT by_name',
      'by_name',
    ],
  ])(
    'F75 a commit that %s of a reader refuses fails its dataset, and is made once that is gone',
    async (_, made, name, dropped, named) => {
      const world = await databaseAtWork(await server.database());
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      await world.byHand(made);
      course.publishRows([...FIRST, [3, name]]);
      await expectRefusedByReader(world, course, named);
      const keys =
        "SELECT count(*) FROM pg_constraint WHERE conrelid = 'feeds.parcels'::regclass AND contype = 'p'";
      expect(await world.byHand(keys)).toEqual([['1']]);
      expect(await world.byHand('SELECT id, name FROM feeds.parcels ORDER BY id')).toEqual([
        ['1', 'one'],
        ['2', 'two'],
      ]);
      await world.byHand(dropped);
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand('SELECT count(*) FROM feeds.parcels')).toEqual([['3']]);
    },
  );

  it.each([
    [
      'a trigger',
      `CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name = upper(NEW.name); RETURN NEW; END $$;
       CREATE TRIGGER shout BEFORE INSERT OR UPDATE ON feeds.parcels FOR EACH ROW EXECUTE FUNCTION public.shout()`,
      'DROP TRIGGER shout ON feeds.parcels',
    ],
    [
      'a trigger that leaves rows out',
      `CREATE FUNCTION public.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
       CREATE TRIGGER skip BEFORE UPDATE ON feeds.parcels FOR EACH ROW EXECUTE FUNCTION public.skip()`,
      'DROP TRIGGER skip ON feeds.parcels',
    ],
    [
      'a rule',
      'CREATE RULE nothing AS ON UPDATE TO feeds.parcels DO INSTEAD NOTHING',
      'DROP RULE nothing ON feeds.parcels',
    ],
  ])(
    'F75 a commit whose rows %s of a reader alters fails its dataset, also by changes, and is made once that is gone',
    async (_, made, dropped) => {
      const world = await databaseAtWork(await server.database());
      const course = await world.loaded(firstContent(PEOPLE, FIRST));
      await world.byHand(made);
      course.publishRows([
        [1, 'another'],
        [2, 'two'],
      ]);
      await expectRefusedByReader(world, course, 'a trigger, a rule or a policy alters the rows');
      expect(await world.byHand('SELECT name FROM feeds.parcels ORDER BY id')).toEqual([['one'], ['two']]);
      await world.byHand(dropped);
      expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand('SELECT name FROM feeds.parcels ORDER BY id')).toEqual([
        ['another'],
        ['two'],
      ]);
    },
  );

  it.each([
    [
      'a trigger that raises an error',
      `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
       CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON feeds.parcels FOR EACH ROW EXECUTE FUNCTION public.refuse()`,
      'not today',
    ],
    [
      'a publication without a replica identity',
      'CREATE PUBLICATION everything FOR ALL TABLES; ALTER TABLE feeds.parcels REPLICA IDENTITY NOTHING',
      'replica identity',
    ],
  ])('F75 a commit that %s refuses fails its dataset alone', async (_, made, named) => {
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(PEOPLE, FIRST));
    await world.byHand(made);
    course.publishRows([[1, 'ONE']]);
    await expectRefusedByReader(world, course, named);
  });

  it('the pages of a new table are known to be visible to all, and a transaction begun before sees its first version', async () => {
    const world = await databaseAtWork(await server.database());
    const before = new pg.Client({ connectionString: world.address });
    await before.connect();
    onTestFinished(() => before.end());
    await before.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
    const rows = Array.from({ length: 5_000 }, (_, index): Row => [index, `row ${index}`]);
    await world.loaded(firstContent(PEOPLE, rows));
    // PostgreSQL 15 notes so of all pages, 18 of more than half.
    const noted = 'SELECT relallvisible * 2 > relpages FROM pg_class WHERE oid =';
    expect(await world.byHand(`${noted} 'feeds.parcels'::regclass`)).toEqual([['t']]);
    const { rows: seen } = await before.query('SELECT count(*)::int AS rows FROM feeds.parcels');
    expect(seen).toEqual([{ rows: 5_000 }]);
  });

  it('F75 a commit with a row that is too long for a table says so, and blames no reader', async () => {
    const many = Array.from({ length: 1_100 }, (_, index) => column(`c${index}`, 'number'));
    const wide = sourceSchema([column('id', 'integer', false), ...many]);
    const world = await databaseAtWork(await server.database());
    const course = await world.loaded(firstContent(wide, [[1, ...many.map(() => null)]]));
    course.publishRows([[1, ...many.map(() => 0.5)]]);
    const error = errorOf(await world.load(course));
    expect([errorCodeOf(error), error.message]).toEqual([
      'data_invalid',
      expect.stringContaining('row is too big'),
    ]);
  });

  it.each(['apply', 'load'] as const)(
    'F75 a row that its log cannot keep is named where it changes by way of "%s", and goes on without history',
    async (way) => {
      // 8,160 bytes are the most that a page holds. This row has 8,152; the log has columns of its own.
      const many = Array.from({ length: 1_015 }, (_, index) => column(`c${index}`, 'number'));
      const wide = sourceSchema([column('id', 'integer', false), ...many]);
      const rowOf = (id: number, value: number | null): Row => [id, ...many.map(() => value)];
      let isKept = true;
      const world = await databaseAtWork(await server.database(), {
        history: { ...ALL_HISTORY, keeps: () => isKept },
      });
      const course = await world.loaded(firstContent(wide, [rowOf(1, null), rowOf(2, 0.5), rowOf(3, 0.5)]));
      course.publishRows([rowOf(1, 7), rowOf(2, 7), rowOf(3, 0.5)]);
      const error = errorOf(await world[way](course));
      expect([errorCodeOf(error), error.message]).toEqual([
        'dataset_storage_failed',
        expect.stringMatching(
          /^The undo log of parcels cannot keep the row id = "2" as it was.*row is too big/,
        ),
      ]);
      expect(error).toMatchObject({ hint: expect.stringContaining('out of history.datasets') });
      isKept = false;
      expect(await world[way](course)).toMatchObject({ kind: 'committed' });
      expect(await world.byHand('SELECT sum(c0) FROM feeds.parcels')).toEqual([['14.5']]);
    },
  );
});
