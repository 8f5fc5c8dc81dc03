/** F72: what an instance that is stopped does with its lease while its network is gone. */

import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, startPostgres } from '../../fixtures/postgres-server.ts';
import { GIVE_BACK_WITHIN_MS, Lease } from '../../src/destination/postgres/lease.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { openDatabase } from '../support/postgres-destination.ts';

/** What a busy machine needs beside the time that is stated. */
const SLACK_MS = 3_000;

describe.skipIf(EMBEDDED.folder === null)('a lease whose network is gone', () => {
  it.each([
    // The lease is given back by a connection of its own, which is not open yet.
    ['before it was ever renewed', 60_000, 0],
    ['while it is renewed', 600, 1_000],
  ])('F72 is left to its end within the stated time, which is logged: %s', async (_, leaseMs, waitMs) => {
    const server = await startPostgres(EMBEDDED);
    onTestFinished(() => server.stop());
    const address = await server.database();
    const folder = await temporaryFolder();
    onTestFinished(() => folder[Symbol.asyncDispose]());
    await (await openDatabase(address, folder.path)).close();
    const proxy = await cuttingProxy(address);
    const logged: string[] = [];
    const lease = await Lease.take({
      url: new Secret(proxy.address),
      place: 'a database',
      leaseMs,
      waitMs: 0,
      token: 'a token',
      holder: 'a test',
      clock: systemClock,
      log: { ...silentLog, warn: (_fields, message) => void logged.push(message) },
    });
    await systemClock.sleep(waitMs);
    proxy.lose();
    await systemClock.sleep(waitMs);
    const startedMs = performance.now();
    await lease.release();
    expect(performance.now() - startedMs).toBeLessThan(GIVE_BACK_WITHIN_MS + SLACK_MS);
    expect(logged.at(-1)).toBe('The lease of the database could not be given back: it ends by itself.');
    proxy.restore();
  });
});
