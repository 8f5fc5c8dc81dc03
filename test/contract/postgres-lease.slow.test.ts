/** F72: what an instance that is stopped does with its lease while its network is gone. */

import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { GIVE_BACK_WITHIN_MS, Lease, type LeaseOptions } from '../../src/destination/postgres/lease.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { eventually } from '../support/patience.ts';
import { HAS_PGBOUNCER, pgbouncer } from '../support/pgbouncer.ts';
import { openDatabase } from '../support/postgres-destination.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';
import { ranMs } from '../support/ran-for.ts';

/** What a busy machine needs beside the time that is stated. */
const SLACK_MS = 3_000;

function common(address: string, leaseMs: number, logged: string[]): LeaseOptions {
  return {
    url: new Secret(address),
    place: 'a database',
    leaseMs,
    waitMs: 0,
    token: 'a token',
    holder: 'a test',
    clock: systemClock,
    log: { ...silentLog, warn: (_fields, message) => void logged.push(message) },
  };
}

/** Opens a mirror in the database, which makes its catalog, and closes it again. */
async function openOnce(address: string): Promise<void> {
  await using folder = await temporaryFolder();
  await (await openDatabase(address, folder.path)).close();
}

describe.skipIf(EMBEDDED.folder === null)('a lease whose network is gone', () => {
  it.each([
    // The lease is given back by a connection of its own, which is not open yet.
    ['before it was ever renewed', 60_000, 0],
    ['while it is renewed', 600, 1_000],
  ])(
    'F72 a lease is left to its end within the stated time, which is logged: %s',
    async (_, leaseMs, waitMs) => {
      const address = await (await postgresOfTest(EMBEDDED)).database();
      await openOnce(address);
      const proxy = await cuttingProxy(address);
      const logged: string[] = [];
      const lease = await Lease.take(common(proxy.address, leaseMs, logged));
      await systemClock.sleep(waitMs);
      proxy.lose();
      await systemClock.sleep(waitMs);
      expect(await ranMs(() => lease.release())).toBeLessThan(GIVE_BACK_WITHIN_MS + SLACK_MS);
      expect(logged.at(-1)).toBe('The lease of the database could not be given back: it ends by itself.');
      proxy.restore();
    },
  );

  it.skipIf(!HAS_PGBOUNCER)(
    'F72 a lease is left to its end behind PgBouncer, too, and a late renewal takes it from nobody',
    async () => {
      const address = await (await postgresOfTest(EMBEDDED)).database();
      await openOnce(address);
      const pooler = await pgbouncer(address);
      const logged: string[] = [];
      const options = { ...common(pooler.address, 600, logged), token: 'first' };
      const lease = await Lease.take(options);
      const other = new pg.Client({ connectionString: address });
      await other.connect();
      onTestFinished(() => other.end());
      await other.query('BEGIN; SELECT * FROM feed_sync.lease FOR UPDATE');
      const waiting =
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'UPDATE%' AND wait_event_type = 'Lock'";
      await eventually(async () => expect(await statement(address, waiting)).not.toEqual([]));
      expect(await ranMs(() => lease.release())).toBeLessThan(GIVE_BACK_WITHIN_MS + SLACK_MS);
      expect(logged.at(-1)).toBe('The lease of the database could not be given back: it ends by itself.');
      await other.query(
        "UPDATE feed_sync.lease SET epoch = epoch + 1, token = 'second', expires_at = clock_timestamp(); COMMIT",
      );
      await eventually(async () => expect(await statement(address, waiting)).toEqual([]));
      const taken = 'SELECT token, expires_at <= clock_timestamp() FROM feed_sync.lease';
      expect(await statement(address, taken)).toEqual([['second', 't']]);
    },
  );
});

describe.skipIf(EMBEDDED.folder === null)('a lease that a session of a superuser has locked', () => {
  it('F72 a locked lease is reported with the locking session and what ends it, and is taken once it is free', async () => {
    const server = await postgresOfTest(EMBEDDED);
    const address = await server.database();
    const name = address.match(/county_\d+/)?.[0];
    await statement(address, `CREATE ROLE plain LOGIN; GRANT CREATE, TEMP ON DATABASE ${name} TO plain`);
    const plain = address.replace('//feeds:', '//plain:');
    await openOnce(plain);
    const other = new pg.Client({ connectionString: address, application_name: 'psql' });
    await other.connect();
    onTestFinished(() => other.end());
    await other.query('BEGIN; SELECT * FROM feed_sync.lease FOR UPDATE');
    const [[pid] = []] = (await other.query({ text: 'SELECT pg_backend_pid()', rowMode: 'array' })).rows;
    await expect(Lease.take(common(plain, 600, []))).rejects.toMatchObject({
      code: 'mirror_busy',
      message: expect.stringContaining(`(process ${pid}, role feeds, psql)`),
      hint: `Have a superuser end it: SELECT pg_terminate_backend(${pid})`,
    });
    const seen: string[] = [];
    const taking = Lease.take({ ...common(plain, 600, []), onStandby: (holder) => void seen.push(holder) });
    await eventually(async () => expect(seen).not.toEqual([]));
    await other.query('ROLLBACK');
    const lease = await taking;
    await lease.release();
  });
});
