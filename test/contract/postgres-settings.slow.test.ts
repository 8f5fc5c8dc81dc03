/** What an operator has set in a server or a database has no part in a commit: not its time limits, and not the way it writes values. */

import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, type PostgresServer, startPostgres, statement } from '../../fixtures/postgres-server.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { openPostgresReader } from '../../src/destination/postgres/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { eventually } from '../support/patience.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { column } from '../support/small-content.ts';

const people = sourceSchema([column('id', 'integer', false), column('name', 'string')]);
const FIRST: readonly Row[] = [
  [1, 'one'],
  [2, 'two'],
];

describe.skipIf(EMBEDDED.folder === null)('a commit in a database with settings of its own', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres(EMBEDDED);
  });
  afterAll(async () => {
    await server?.stop();
  });

  /** Sessions that begin from now on have the settings. */
  async function set(address: string, settings: Readonly<Record<string, string>>): Promise<void> {
    const name = address.match(/county_\d+/)?.[0];
    for (const [setting, value] of Object.entries(settings))
      await statement(address, `ALTER DATABASE ${name} SET ${setting} = '${value}'`);
  }

  it('F74 is not ended by the time limits for statements, transactions and idle ones', async () => {
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
    const course = await world.loaded(firstContent(people, FIRST));
    await world.byHand(`CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$`);
    await world.byHand(
      'CREATE TRIGGER slow BEFORE INSERT ON feed_sync.commits EXECUTE FUNCTION public.slow()',
    );
    course.publishRows([[1, 'ONE']]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
  });

  it('F74 waits for the rows that a reader has locked, whatever time limit there is for locks', async () => {
    const address = await server.database();
    await set(address, { lock_timeout: '1ms' });
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(people, FIRST));
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

  it('leaves checksums that are compared whatever way the database writes bytes in', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address);
    const places = sourceSchema([column('id', 'integer', false), column('place', 'geometry')]);
    await world.loaded(firstContent(places, [[1, { type: 'Point', coordinates: [-97.7, 30.2] }]]));
    await set(address, { bytea_output: 'escape' });
    const reader = present(
      await openPostgresReader({ url: new Secret(address), clock: systemClock }),
      'the catalog is there',
    );
    onTestFinished(() => reader.close());
    const [counted] = await reader.count(['parcels'], () => false);
    expect(counted?.table).toMatchObject({ rowCount: 1, hasRecordedChecksum: true });
    const digits = (await statement(address, "SELECT encode(place, 'hex') FROM feeds.parcels"))[0]?.[0];
    const { rows } = await reader.query('SELECT place FROM parcels');
    for await (const row of rows) expect(row).toEqual([digits]);
  });
});
