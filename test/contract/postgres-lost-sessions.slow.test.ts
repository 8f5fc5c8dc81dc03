/** F74: what the server keeps of a session whose client is gone without a word: nothing for longer than an answer may take. */

import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { Connection, type Transaction } from '../../src/destination/postgres/connection.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { eventually } from '../support/patience.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTest, postgresOfTests } from '../support/postgres-of-tests.ts';

const ANSWER_MS = 500;
/** Whatever the session has, the server has ended it soon. */
const IS_OVER = "SET statement_timeout = '15s'; UPDATE public.asked SET id = 2";

describe.skipIf(EMBEDDED.folder === null)('a session of small statements whose client is lost', () => {
  const server = postgresOfTests(EMBEDDED);

  async function lost(work: (transaction: Transaction) => Promise<void>) {
    const address = await server.database();
    await statement(address, 'CREATE TABLE public.asked AS SELECT 1 AS id');
    const proxy = await cuttingProxy(address);
    const connection = new Connection({
      url: new Secret(proxy.address),
      clock: systemClock,
      answerMs: ANSWER_MS,
    });
    onTestFinished(() => connection.abandon());
    proxy.before('SELECT 2', async () => proxy.leave());
    await expect(connection.transaction(work)).rejects.toMatchObject({ fault: 'unavailable' });
    return address;
  }

  it('F74 a lost session keeps no locks of rows: the server ends it', async () => {
    const address = await lost(async (transaction) => {
      await transaction.run('UPDATE public.asked SET id = 1');
      await transaction.run('SELECT 2');
    });
    await statement(address, IS_OVER);
  });

  it('F74 a lost session keeps no statement that works', async () => {
    const address = await lost(async (transaction) => {
      await transaction.run('UPDATE public.asked SET id = 1');
      await transaction.run('SELECT 2, pg_sleep(3600)');
    });
    await statement(address, IS_OVER);
    const left =
      "SELECT 1 FROM pg_stat_activity WHERE application_name = 'feed-sync' AND xact_start IS NOT NULL";
    await eventually(async () => expect(await statement(address, left)).toEqual([]));
  });
});

describe.skipIf(EMBEDDED.folder === null)('the session of the mirror whose client is lost', () => {
  it('F74 the next renewal ends a lost session of the mirror, also where its transaction only read', async () => {
    const server = await postgresOfTest(EMBEDDED);
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const world = await databaseAtWork(proxy.address, { leaseMs: 600 });
    proxy.before('FROM "feed_sync"."datasets"', async () => proxy.leave());
    await expect(world.destination.has()).rejects.toMatchObject({ code: 'destination_unavailable' });
    const [lostAt] = await statement(address, 'SELECT clock_timestamp()');
    const left = `SELECT state FROM pg_stat_activity WHERE application_name = 'feed-sync' AND xact_start < '${lostAt?.[0]}'`;
    await eventually(async () => expect(await statement(address, left)).toEqual([]));
  });
});
