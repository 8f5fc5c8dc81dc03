/** Two daemons on one database: one works, one stands by and takes over (F72, F73), and the first, woken, does no harm. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { notedLines, notingProgram } from '../support/hook-program.ts';
import { logged } from '../support/logged.ts';
import { eventually } from '../support/patience.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import type { Program } from '../support/program.ts';
import { ask } from '../support/status-server.ts';
import { committedVersions, LEASE_MS, type TwoDaemons, twoDaemons, urlOf } from '../support/two-daemons.ts';

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');

/** A connection and a statement take less on a machine that has time for them. */
const STATEMENT_MS = 250;
/** A check of the lease and a takeover take as many. */
const STATEMENTS = 8;

describe.skipIf(EMBEDDED.folder === null)('two daemons on one database', () => {
  const server = postgresOfTests(EMBEDDED);

  /** The holder of the lease, and its end, in milliseconds by the server's clock. */
  const leaseOf = async (address: string) => {
    const ends = '(extract(epoch FROM expires_at) * 1000)::bigint';
    const [row] = await statement(address, `SELECT holder, ${ends} FROM feed_sync.lease`);
    return { holder: String(row?.[0]), endsMs: Number(row?.[1]) };
  };

  /** The second has the lease within the time that the guide states: two seconds after the lease of the first has ended. */
  async function expectInTime({ second }: TwoDaemons, address: string): Promise<void> {
    const before = await leaseOf(address);
    let slowestMs = 0;
    const after = await eventually(async () => {
      const askedMs = performance.now();
      const lease = await leaseOf(address);
      slowestMs = Math.max(slowestMs, performance.now() - askedMs);
      expect(lease.holder).toContain(`process ${second.pid} `);
      return lease;
    }, 50);
    // The lease that was taken over ends so long after the takeover.
    const tookMs = after.endsMs - LEASE_MS - before.endsMs;
    // A machine that keeps a statement of ours waiting keeps those of a takeover waiting, too.
    const keptWaitingMs = STATEMENTS * Math.max(0, slowestMs - STATEMENT_MS);
    expect(tookMs).toBeLessThanOrEqual(2_000 + keptWaitingMs);
    expect(tookMs).toBeGreaterThan(0);
  }

  /** The commands and the status server of both say which instance works. */
  async function expectStatus({ first, second, firstInstalled, installed }: TwoDaemons, works: string) {
    const jsonOf = async (of: Program) => JSON.parse((await of.run('status', '--json')).stdout);
    const standing = { pid: second.pid, command: 'run', standsBy: true };
    const working = { runningInstance: { pid: first.pid, standsBy: false }, leaseHolder: works };
    expect(await jsonOf(installed)).toMatchObject({ runningInstance: standing, leaseHolder: works });
    expect(await jsonOf(firstInstalled)).toMatchObject(working);
    expect(JSON.parse((await ask(`${await urlOf(first)}/status`)).text)).toMatchObject(working);
    const [here, there] = [await installed.run('status'), await firstInstalled.run('status')];
    expect(here.stdout).toContain(`stands by (run): ${works} works on the database.`);
    expect(there.stdout).toContain(`Instance ${first.pid} on ${hostname()} is running: run.`);
    const third = { FEED_SYNC_DATA_DIR: `${installed.home}/third` };
    const elsewhere = await installed.startWith(third, 'status').ended;
    expect(elsewhere.stdout).toContain(`No instance is running here: ${works} works on the database.`);
  }

  /** The second works: it loads nothing again, and takes what is published now. */
  async function expectTakenOver(
    { second, publishNext, datasetOf }: TwoDaemons,
    address: string,
  ): Promise<void> {
    await logged(second, 'Following the subscriptions.');
    const before = await committedVersions(address);
    publishNext(datasetOf('permits'));
    await eventually(async () =>
      expect((await committedVersions(address)).length).toBeGreaterThan(before.length),
    );
    await eventually(async () => expect((await ask(`${await urlOf(second)}/readyz`)).status).toBe(200));
    expect(second.stderr()).not.toContain('"msg":"Loaded a snapshot.');
    // Each version was committed once, in order.
    const numbers = (await committedVersions(address)).map(([version]) => Number(version));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  }

  it('F72 the second daemon stands by, takes over when the first dies, and loads nothing again', async () => {
    const address = await server.database();
    const daemons = await twoDaemons(address);
    const url = await urlOf(daemons.second);
    const [ready, live, status] = [
      await ask(`${url}/readyz`),
      await ask(`${url}/livez`),
      await ask(`${url}/status`),
    ];
    expect([ready.status, live.status, status.status]).toEqual([503, 200, 503]);
    expect(JSON.parse(ready.text)).toMatchObject({
      status: 'failing',
      reasons: [{ kind: 'standby', message: expect.stringContaining(`process ${daemons.first.pid} `) }],
    });
    const works = `feed-sync run, process ${daemons.first.pid} on ${hostname()}`;
    expect(status.text).toContain(`Another instance works on the database: ${works}.`);
    await expectStatus(daemons, works);
    daemons.first.kill('SIGKILL');
    await daemons.first.ended;
    await expectInTime(daemons, address);
    await expectTakenOver(daemons, address);
    const metrics = await ask(`${await urlOf(daemons.second)}/metrics`);
    const [, bytes] = /^feed_sync_mirror_bytes (\d+)$/m.exec(metrics.text) ?? [];
    expect(Number(bytes)).toBeGreaterThan(100_000);
    daemons.second.kill('SIGTERM');
    expect(await daemons.second.ended).toMatchObject({ exitCode: 0 });
  });

  it('F72 the second does a resync that it passed on to the first, which dies before it has loaded the snapshot', async () => {
    const address = await server.database();
    const { feed, first, second, installed, datasetOf } = await twoDaemons(address);
    const isDead = Promise.withResolvers<void>();
    const held = feed.faults.add({
      match: { operation: 'file' },
      act: { kind: 'wait', until: () => isDead.promise },
    });
    const datasetId = datasetOf('permits');
    expect(await installed.run('resync', datasetId)).toMatchObject({ exitCode: 0 });
    await eventually(async () => expect(held.fired).toBeGreaterThan(0));
    first.kill('SIGKILL');
    await first.ended;
    isDead.resolve();
    await logged(second, 'Loaded a snapshot.');
    expect(await committedVersions(address)).toEqual([['1'], ['1']]);
  });

  it('F72 the second daemon notifies its command of later commits, and not again of those before', async () => {
    const address = await server.database();
    const folder = mkdtempSync(join(tmpdir(), 'feed-sync-noted-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const noted = join(folder, 'noted');
    const settings = join(folder, 'feed-sync.yaml');
    writeFileSync(settings, JSON.stringify({ hooks: { afterCommit: notingProgram(noted) } }));
    const daemons = await twoDaemons(address, { environment: { FEED_SYNC_CONFIG: settings } });
    const notified = () => notedLines(noted).flat();
    const publish = async (commits: readonly number[]): Promise<void> => {
      daemons.publishNext(daemons.datasetOf('permits'));
      await eventually(async () => expect(notified()).toEqual(commits));
    };
    await publish([1, 2]);
    // How far the command got is stored once it has ended well.
    const stored = "SELECT value FROM feed_sync.meta WHERE key = 'hook'";
    await eventually(async () => expect(String(await statement(address, stored))).toContain('"commit":2,'));
    daemons.first.kill('SIGKILL');
    await daemons.first.ended;
    await logged(daemons.second, 'Following the subscriptions.');
    await publish([1, 2, 3]);
    daemons.second.kill('SIGTERM');
    expect(await daemons.second.ended).toMatchObject({ exitCode: 0 });
    expect(notified()).toEqual([1, 2, 3]);
  });

  it('F73 the second takes over from a suspended first, which ends with 75 once it goes on and has changed nothing', async () => {
    const address = await server.database();
    const daemons = await twoDaemons(address);
    daemons.first.kill('SIGSTOP');
    await expectInTime(daemons, address);
    await expectTakenOver(daemons, address);
    const before = await committedVersions(address);
    daemons.first.kill('SIGCONT');
    const { exitCode, stderr } = await daemons.first.ended;
    expect([exitCode, stderr]).toEqual([75, expect.stringContaining('has taken over the database')]);
    expect(await committedVersions(address)).toEqual(before);
  });

  it('F73 the second takes over where a session of the first writes and has not yet checked the lease', async () => {
    const address = await server.database();
    const daemons = await twoDaemons(address);
    daemons.first.kill('SIGSTOP');
    const session = new pg.Client({ connectionString: address });
    const ended = new Promise<Error>((resolve) => session.on('error', resolve));
    await session.connect();
    await session.query('BEGIN');
    await session.query("SELECT pg_advisory_xact_lock('feed_sync.lease'::regclass::oid::bigint)");
    await expectTakenOver(daemons, address);
    expect((await ended).message).toContain('terminating connection');
  });

  it('F73 the second takes over from a first without network, which ends with 75 once it is back', async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const daemons = await twoDaemons(address, { firstAddress: proxy.address });
    proxy.lose();
    await expectTakenOver(daemons, address);
    proxy.restore();
    const { exitCode, stderr } = await daemons.first.ended;
    expect([exitCode, stderr]).toEqual([75, expect.stringContaining('has taken over the database')]);
  });

  it('F73 a first without network ends when it is stopped, and the second takes over', async () => {
    const address = await server.database();
    const proxy = await cuttingProxy(address);
    const daemons = await twoDaemons(address, { firstAddress: proxy.address });
    proxy.lose();
    daemons.first.kill('SIGTERM');
    const { exitCode, stderr } = await daemons.first.ended;
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining('it ends by itself')]);
    await expectTakenOver(daemons, address);
  });

  it('F72 an active instance that is stopped gives the lease back, and a stopped standby ends with 0', async () => {
    const address = await server.database();
    const daemons = await twoDaemons(address);
    const third = daemons.installed.startWith(
      { FEED_SYNC_DATA_DIR: `${daemons.installed.home}/third` },
      'run',
    );
    await logged(third, 'Stands by: another instance works on the database.');
    third.kill('SIGTERM');
    expect(await third.ended).toMatchObject({ exitCode: 0 });
    daemons.first.kill('SIGTERM');
    expect(await daemons.first.ended).toMatchObject({ exitCode: 0 });
    await expectTakenOver(daemons, address);
  });
});
