/**
 * A server of PostgreSQL whose disk is full (53100): the old versions serve, nothing is lost, and with room all goes on. The disk is
 * a file system of its own, which only root may mount for a server that runs as another user.
 */

import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { EMBEDDED, PASSWORD, statement } from '../../fixtures/postgres-server.ts';
import { countyFeed } from '../support/county-feed.ts';
import { once } from '../support/expect-mirrored.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { eventually } from '../support/patience.ts';
import { postgresOfTest } from '../support/postgres-of-tests.ts';
import { program } from '../support/program.ts';
import { hasMountedDisks, mountedDisk } from '../support/small-disk.ts';

const PLENTY_BYTES = 600_000_000;
const UNRECORDED = { notRecordedAs: 'flag' } as const;
const NO_SPACE = /cannot be used: could not [^\n]*No space left on device/;
const NOT_AVAILABLE = /The database \S+ is not available: /;
/** A server without room for its own log ends itself. */
const SWITCH_LOG = 'SELECT pg_switch_wal()';

if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');
if (!hasMountedDisks)
  process.stderr.write('SKIPPED: only root may mount a disk for a server of PostgreSQL.\n');

/** A feed of two datasets, and an empty database on a disk of its own. */
async function onDisk() {
  const county = await countyFeed({ kinds: ['parcels', 'permits'], rowsPerDataset: 2_000 });
  const disk = mountedDisk(PLENTY_BYTES);
  const server = await postgresOfTest(EMBEDDED, { disk: disk.path });
  const address = await server.database();
  const environment = { FEED_SYNC_DESTINATION_URL: address, FEED_SYNC_POLL_EVERY: '1s' };
  const installed = await program({ feed: county.feed, environment, secrets: [PASSWORD] });
  const publishAll = (): void => {
    for (const datasetId of county.datasetIds) county.publishNext(datasetId, undefined, UNRECORDED);
  };
  return { ...county, disk, server, address, installed, publishAll };
}

/** The tables: their versions, and their rows as texts. */
async function seen(address: string) {
  const tables = await statement(
    address,
    'SELECT table_name, version FROM feed_sync.datasets WHERE version IS NOT NULL ORDER BY dataset_id',
  );
  const rows = tables.map(async ([name, version]) => {
    const texts = `SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text)) FROM feeds."${name}" AS t`;
    return { version: Number(version), rows: (await statement(address, texts))[0] };
  });
  return await Promise.all(rows);
}

describe.skipIf(EMBEDDED.folder === null || !hasMountedDisks)('a server whose disk is full', () => {
  it('F74 a disk that is full at any time: 74 with clear words, the old versions serve, and with room all goes on', async () => {
    const { disk, address, installed, publishAll } = await onDisk();
    await once(installed);
    const before = await seen(address);
    publishAll();
    const failed: number[] = [];
    for (const freeBytes of [0, 40_000, 160_000, 640_000, 2_600_000]) {
      disk.leave(freeBytes);
      const { exitCode, stdout, stderr } = await installed.run('once');
      if (exitCode === 0) break;
      expect(exitCode, stdout + stderr).toBe(74);
      expect(stdout + stderr).toMatch(NO_SPACE);
      expect(stdout + stderr).toContain('Make room on the disk of the server');
      failed.push(freeBytes);
      // Each table is whole, of the version before or of the next one.
      for (const [index, table] of (await seen(address)).entries())
        if (table.version === 1) expect(table).toEqual(before[index]);
    }
    expect(failed).toContain(0);
    disk.leave(PLENTY_BYTES);
    await once(installed);
    expect((await seen(address)).map(({ version }) => version)).toEqual([2, 2]);
    expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
  });

  it('F74 a disk that is full during the first load: 74, and with room it is loaded', async () => {
    const { disk, address, installed } = await onDisk();
    for (const freeBytes of [0, 300_000]) {
      disk.leave(freeBytes);
      const { exitCode, stdout, stderr } = await installed.run('once');
      expect(exitCode, stdout + stderr).toBe(74);
      expect(stdout + stderr).toMatch(NO_SPACE);
    }
    disk.leave(PLENTY_BYTES);
    await once(installed);
    expect((await seen(address)).map(({ version }) => version)).toEqual([1, 1]);
    expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
  });

  it('F74 a server that ends because its log has no room: 74, then 75, and all goes on once it runs again', async () => {
    const { disk, server, address, installed, publishAll } = await onDisk();
    await once(installed);
    publishAll();
    disk.leave(0);
    await statement(address, SWITCH_LOG).catch(() => {});
    // Whoever is at work when the server ends learns why, unless another session of the server was first.
    const first = await installed.run('once');
    expect([74, 75]).toContain(first.exitCode);
    expect(first.stdout + first.stderr).toMatch(first.exitCode === 74 ? NO_SPACE : NOT_AVAILABLE);
    const { stdout, stderr } = await once(installed, 75);
    expect(stdout + stderr).toMatch(NOT_AVAILABLE);
    disk.leave(PLENTY_BYTES);
    await server.restart();
    expect((await seen(address)).map(({ version }) => version)).toEqual([1, 1]);
    await once(installed);
    expect((await seen(address)).map(({ version }) => version)).toEqual([2, 2]);
    expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
  });

  it('F74 run says why it waits, and goes on by itself once there is room', async () => {
    const { datasetIds, disk, address, installed, publishAll } = await onDisk();
    const daemon = new LastingDaemon(installed);
    await daemon.logged('Loaded a snapshot.', datasetIds.length);
    disk.leave(0);
    publishAll();
    await eventually(() => expect(JSON.stringify(daemon.lines())).toContain('No space left on device'));
    disk.leave(PLENTY_BYTES);
    await daemon.logged('Loaded a snapshot.', 2 * datasetIds.length);
    await daemon.stop();
    expect((await seen(address)).map(({ version }) => version)).toEqual([2, 2]);
  });
});
