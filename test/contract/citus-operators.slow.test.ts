/**
 * A database with Citus in the hands of operators: roles with few rights, settings, names and objects that they change. Skipped where
 * Citus is not installed.
 */

import { beforeAll, describe, expect, it } from 'vitest';
import { statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import type { PostgresOptions } from '../../src/destination/postgres/destination.ts';
import { present } from '../../src/lib/assert.ts';
import { citusOfTests, HAS_CITUS, TEXAS } from '../support/citus-states.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { ENROLMENT } from '../support/mirror-at-work.ts';
import { ALL_HISTORY, PEOPLE, THREE_PEOPLE } from '../support/people.ts';
import { type DatabaseAtWork, databaseAtWork } from '../support/postgres-destination.ts';

const databaseOf = (address: string): string => present(/@\/(\w+)/.exec(address)?.[1], 'it has a database');

const COMMITTED = { kind: 'committed' };
const FOUR: readonly Row[] = [...THREE_PEOPLE, [4, 'four']];
const FIVE: readonly Row[] = [...FOUR, [5, 'five']];

describe.skipIf(!HAS_CITUS)('operators of a database whose schemas Citus distributes', () => {
  const cluster = citusOfTests();
  /** A database of most tests: each has a schema of its own. */
  let shared: string | null = null;
  let schemas = 0;
  beforeAll(async () => {
    shared = await cluster().database();
  });

  const schemaOf = (datasetId: string): string => datasetId.split('-').slice(0, 2).join('_');
  const newDatabase = (): Promise<string> => cluster().database();

  async function worldIn(address: string, options: Partial<PostgresOptions> = {}): Promise<DatabaseAtWork> {
    return await databaseAtWork(address, { schemaOf, history: ALL_HISTORY, lockWaitMs: 3_000, ...options });
  }

  /** Loads a table whose schema is made for it. */
  async function loadedIn(world: DatabaseAtWork, datasetId: string) {
    await world.destination.enroll({ ...ENROLMENT, datasetIds: [datasetId] });
    const course = world.published(firstContent(PEOPLE, THREE_PEOPLE), datasetId);
    expect(await world.load(course)).toMatchObject(COMMITTED);
    return course;
  }

  /** A world with one table in a distributed schema, whose name is returned. */
  async function oneState(options: Partial<PostgresOptions> = {}) {
    const world = await worldIn(present(shared, 'the database is there'), options);
    schemas += 1;
    const datasetId = `us-s${schemas}-parcels`;
    const texas = await loadedIn(world, datasetId);
    return {
      world,
      texas,
      schema: schemaOf(datasetId),
      table: `${schemaOf(datasetId)}.us_s${schemas}_parcels`,
    };
  }

  const countOf = async (world: DatabaseAtWork, table: string) =>
    Number((await world.byHand(`SELECT count(*) FROM ${table}`))[0]?.[0]);
  const distributed = async (world: DatabaseAtWork) =>
    (await world.byHand('SELECT schemaid::regnamespace FROM pg_dist_schema ORDER BY 1')).map(
      ([name]) => name,
    );

  it('a role that owns nothing but its schemas is enough', async () => {
    const address = await newDatabase();
    await statement(address, 'CREATE ROLE mirror LOGIN');
    await statement(address, `GRANT CREATE, TEMPORARY ON DATABASE ${databaseOf(address)} TO mirror`);
    const world = await worldIn(address.replace('//feeds:', '//mirror:'));
    const texas = await loadedIn(world, TEXAS);
    texas.publishRows(FOUR);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await world.retire(texas, 'archive')).toMatchObject({ kind: 'retired' });
    expect(await world.load(texas)).toMatchObject(COMMITTED);
    expect(await countOf(world, 'us_tx.us_tx_parcels')).toBe(4);
  });

  it('the catalog stays on the coordinator where each new schema of the database is distributed', async () => {
    const address = await newDatabase();
    const database = databaseOf(address);
    await statement(address, `ALTER DATABASE ${database} SET citus.enable_schema_based_sharding = on`);
    const world = await worldIn(address);
    const texas = await loadedIn(world, TEXAS);
    texas.publishRows(FOUR);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await distributed(world)).toEqual(['feeds', 'us_tx']);
  });

  it('tables with the longest names have a stage and a log each, and retire without harm to others', async () => {
    const { world } = await oneState();
    const ids = ['us-tx-a', 'us-tx-b'];
    await world.destination.enroll({ ...ENROLMENT, datasetIds: ids });
    const table = (id: string): string => `${'x'.repeat(62)}${id.at(-1)}`;
    const courses = [];
    for (const id of ids) {
      await world.byHand(`UPDATE feed_sync.names SET table_name = '${table(id)}' WHERE dataset_id = '${id}'`);
      const course = world.published(firstContent(PEOPLE, THREE_PEOPLE), id);
      expect(await world.load(course)).toMatchObject(COMMITTED);
      course.publishRows(FOUR);
      expect(await world.apply(course)).toMatchObject(COMMITTED);
      course.publishRows(FIVE);
      expect(await world.load(course)).toMatchObject(COMMITTED);
      courses.push(course);
    }
    const [first] = courses;
    expect(await world.retire(present(first, 'it is loaded'), 'keep')).toMatchObject({ kind: 'retired' });
    for (const id of ids) expect(await countOf(world, `us_tx.${table(id)}`)).toBe(5);
  });

  it.each([
    ['dropped', (states: string) => `DROP TABLE ${states}`],
    ['emptied', (states: string) => `TRUNCATE ${states}`],
    ['given another column', (states: string) => `ALTER TABLE ${states} ADD COLUMN note text`],
  ])('F76 a table of states that was %s by hand costs no commit', async (_how, sql) => {
    const { world, texas, schema, table } = await oneState();
    await world.byHand(sql(`${schema}."feed_sync~states"`));
    texas.publishRows(FOUR);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    texas.publishRows(FIVE);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await countOf(world, table)).toBe(5);
  });

  it.each([
    ['dropped', (stage: string) => `DROP TABLE ${stage}`],
    ['filled', (stage: string) => `INSERT INTO ${stage} VALUES (1, 'mine', true)`],
    ['given another column', (stage: string) => `ALTER TABLE ${stage} ADD COLUMN note text`],
  ])('F76 a stage that was %s by hand costs no commit', async (_how, sql) => {
    const { world, texas, table } = await oneState();
    await world.byHand(sql(`${table.replace('.', '."')}~stage"`));
    texas.publishRows(FOUR);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    texas.publishRows(FIVE);
    expect(await world.load(texas)).toMatchObject(COMMITTED);
    expect(await world.byHand(`SELECT id, name FROM ${table} ORDER BY id`)).toEqual(
      FIVE.map((row) => row.map(String)),
    );
  });

  it.each([
    ['log', (table: string) => `DROP TABLE ${table}_history CASCADE`],
    ['table', (table: string) => `DROP TABLE ${table}`],
  ])('F76 a %s that was dropped by hand is made again', async (_what, sql) => {
    const { world, texas, table } = await oneState();
    await world.byHand(sql(table));
    texas.publishRows(FOUR);
    expect(await world.load(texas)).toMatchObject(COMMITTED);
    texas.publishRows(FIVE);
    expect(await world.apply(texas)).toMatchObject(COMMITTED);
    expect(await countOf(world, table)).toBe(5);
  });

  it('a schema that an operator gives to a node goes on with its tables', async () => {
    const address = present(shared, 'the database is there');
    await statement(address, 'CREATE SCHEMA us_plain; CREATE TABLE us_plain.mine (id integer PRIMARY KEY)');
    const world = await worldIn(address);
    const plain = await loadedIn(world, 'us-plain-parcels');
    expect(await distributed(world)).not.toContain('us_plain');
    await world.byHand("SELECT citus_schema_distribute('us_plain')");
    plain.publishRows(FOUR);
    expect(await world.apply(plain)).toMatchObject(COMMITTED);
    plain.publishRows(FIVE);
    expect(await world.load(plain)).toMatchObject(COMMITTED);
    expect(await countOf(world, 'us_plain.us_plain_parcels')).toBe(5);
  });
});
