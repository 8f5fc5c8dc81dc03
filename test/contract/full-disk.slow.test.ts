/** F07, F11: `feed-sync` on a disk that is full at any time, or cannot be written: the old version serves, and with room all goes on. */

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseManifest } from '../../src/post-commit/export/generation.ts';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, once } from '../support/expect-mirrored.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { expectNewest, expectPublished, type Versions } from '../support/oracle.ts';
import { type Ended, program } from '../support/program.ts';
import { hasSmallDisks, type SmallDisk, smallDisk } from '../support/small-disk.ts';

const PLENTY_BYTES = 200_000_000;
/** More than an installation of two datasets makes. */
const MANY_FILES = 40;
const UNRECORDED = { notRecordedAs: 'flag' } as const;

/** An installation whose data directory is a disk of its own. */
async function onDisk(environment: Readonly<Record<string, string>> = {}) {
  const county = await countyFeed({ kinds: ['parcels', 'permits'], rowsPerDataset: 2_000 });
  const disk = await smallDisk(PLENTY_BYTES);
  const installed = await program({
    feed: county.feed,
    environment: { FEED_SYNC_DATA_DIR: disk.path, FEED_SYNC_DISK_RESERVE: '0MB', ...environment },
    within: disk.within,
  });
  return { ...county, disk, installed, seen: seenBy(disk, county, join(installed.home, 'seen')) };
}

/** The data directory as it is now, where the oracle can read it. */
function seenBy(
  disk: SmallDisk,
  { feed }: Pick<Awaited<ReturnType<typeof countyFeed>>, 'feed'>,
  folder: string,
) {
  const copied = () => {
    disk.copyTo(folder);
    return { feed, folder };
  };
  return {
    published: (since: Versions) => expectPublished(copied(), since),
    newest: () => expectNewest(copied()),
  };
}

/** Expects an end without inodes that says so and names the path, and returns the output. */
function outputWithoutInodes(ended: Ended & { readonly freeInodes: number }, path: string): string {
  expect(ended).toMatchObject({ exitCode: 74 });
  const output = `${ended.stdout}${ended.stderr}`;
  expect(output).toMatch(/no inodes left for another file.*df -i/s);
  expect(output).not.toContain('disk is full');
  expect(output).toContain(path);
  return output;
}

const THERE_ARE_NONE = 'skipped where nobody may have a file system of his own';

describe.skipIf(!hasSmallDisks)(`F07 a disk that is full (${THERE_ARE_NONE})`, () => {
  it('F07 once notices a full disk before any download: 74, with the path, what is needed and what is free', async () => {
    const { feed, datasetIds, publishNext, disk, installed, seen } = await onDisk();
    await once(installed);
    const versions = await seen.published({});
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, UNRECORDED);
    disk.leave(100_000);
    feed.requests.clear();
    const { stdout } = await once(installed, 74);
    expect(stdout).toMatch(
      /Not enough space in \/\S+: the files of dataset \S+ need [\d.]+ KB .* and [\d.]+ KB are free/,
    );
    expect(downloadsOf(feed)).toEqual([]);
    expect(await seen.published({})).toEqual(versions);
  });

  it('F07 F77 a full disk leaves the last generation of an export whole: 74, and with room the next one comes', async () => {
    const { feed, datasetIds, publishNext } = await countyFeed({
      kinds: ['parcels', 'permits'],
      rowsPerDataset: 2_000,
    });
    const disk = await smallDisk(PLENTY_BYTES);
    const installed = await program({
      feed,
      environment: { FEED_SYNC_EXPORT_PATH: join(disk.path, 'export'), FEED_SYNC_DISK_RESERVE: '0MB' },
      within: disk.within,
    });
    const exported = () => {
      disk.copyTo(join(installed.home, 'seen'));
      const folder = join(installed.home, 'seen', 'export');
      const manifest = parseManifest(readFileSync(join(folder, 'manifest.json'), 'utf8'));
      for (const { file, bytes } of manifest?.files ?? [])
        expect(statSync(join(folder, file)).size).toBe(bytes);
      return manifest;
    };
    await once(installed);
    expect(exported()).toMatchObject({ generation: 1 });
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, UNRECORDED);
    disk.leave(8_000);
    const { stdout } = await once(installed, 74);
    expect(stdout).toMatch(/export/i);
    expect(exported()).toMatchObject({ generation: 1 });
    disk.leave(PLENTY_BYTES);
    await once(installed);
    expect(exported()).toMatchObject({ generation: 2, files: datasetIds.map(() => ({ version: 2 })) });
  });

  it('F07 a disk that is full at any time: 74, and the old version serves until there is room', async () => {
    const { feed, datasetIds, publishNext, disk, installed, seen } = await onDisk();
    await once(installed);
    let versions = await seen.published({});
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, UNRECORDED);
    // What is not stated cannot be compared with what is free.
    feed.settings.files.bytes = false;
    const reported: string[] = [];
    for (const freeBytes of [0, 100_000, 300_000, 600_000, 1_000_000, 1_700_000]) {
      disk.leave(freeBytes);
      const { exitCode, stdout, stderr } = await installed.run('once');
      versions = await seen.published(versions);
      if (exitCode === 0) break;
      expect(exitCode, stderr).toBe(74);
      expect(`${stdout}${stderr}`).toContain(disk.path);
      expect(`${stdout}${stderr}`).toMatch(/[\d.]+ [KM]?B (?:are )?free/);
      reported.push(`${stdout}${stderr}`);
    }
    for (const place of ['lock.sqlite', 'staging/', 'mirror.duckdb'])
      expect(reported.join()).toContain(place);
    disk.leave(PLENTY_BYTES);
    await once(installed);
    await seen.newest();
  });

  it('F07 a disk that is full at any time of a first load: 74, and with room it is loaded', async () => {
    const { feed, disk, installed, seen } = await onDisk();
    feed.settings.files.bytes = false;
    for (const freeBytes of [20_000, 100_000, 600_000, 1_000_000]) {
      disk.leave(freeBytes);
      const { exitCode, stdout, stderr } = await installed.run('once');
      if (exitCode === 0) break;
      expect(exitCode, stdout + stderr).toBe(74);
      expect(stdout + stderr).toContain(disk.path);
    }
    disk.leave(PLENTY_BYTES);
    await once(installed);
    await seen.newest();
    expect((await installed.run('verify', '--deep')).exitCode).toBe(0);
  });

  it('F66 once and doctor name missing inodes and the path: 74, and with room once goes on', async () => {
    const { datasetIds, publishNext, disk, installed, seen } = await onDisk();
    await once(installed);
    let versions = await seen.published({});
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, UNRECORDED);
    const reported: string[] = [];
    for (let freeInodes = 0; freeInodes <= MANY_FILES; freeInodes += 1) {
      disk.leaveInodes(freeInodes);
      const ended = await installed.run('once');
      versions = await seen.published(versions);
      if (ended.exitCode === 0) break;
      reported.push(outputWithoutInodes({ ...ended, freeInodes }, disk.path));
    }
    expect(reported.length).toBeGreaterThan(1);
    disk.leaveInodes(0);
    const { exitCode, stdout } = await installed.run('doctor');
    expect(exitCode).toBe(74);
    expect(stdout).toMatch(/has no inodes left for another file.*df -i/s);
    disk.leaveInodes(MANY_FILES);
    await once(installed);
    await seen.newest();
  });

  it('F07 verify --deep on a full disk names the folder: 74, leaves nothing in it, and compares with room', async () => {
    const { feed, datasetIds, publishNext, disk, installed, seen } = await onDisk();
    await once(installed);
    for (const datasetId of datasetIds) publishNext(datasetId);
    await once(installed);
    // What is not stated cannot be compared with what is free.
    feed.settings.files.bytes = false;
    const files = () => {
      const folder = join(installed.home, 'left');
      disk.copyTo(folder);
      return readdirSync(folder, { recursive: true }).toSorted();
    };
    const before = files();
    const reported: string[] = [];
    for (const freeBytes of [0, 30_000, 60_000, 120_000, 300_000]) {
      disk.leave(freeBytes);
      const { exitCode, stdout, stderr } = await installed.run('verify', '--deep');
      expect(files()).toEqual(before);
      if (exitCode === 0) break;
      expect(exitCode, stdout + stderr).toBe(74);
      expect(stdout + stderr).toContain(join(disk.path, 'verify'));
      expect(stdout + stderr).toMatch(/[\d.]+ (?:[KM]?B|bytes) (?:are )?free/);
      reported.push(stdout + stderr);
    }
    for (const place of ['lock.sqlite', 'downloads'])
      expect(reported.join()).toContain(join('verify', place));
    disk.leave(PLENTY_BYTES);
    expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
    expect(files()).toEqual(before);
    await seen.newest();
  });

  it('F66 verify --deep without inodes names them and the folder: 74, and leaves nothing in it', async () => {
    const { datasetIds, publishNext, disk, installed, seen } = await onDisk();
    await once(installed);
    for (const datasetId of datasetIds) publishNext(datasetId);
    await once(installed);
    const folder = join(installed.home, 'left');
    const files = () => {
      disk.copyTo(folder);
      return readdirSync(folder, { recursive: true }).toSorted();
    };
    const before = files();
    const reported: string[] = [];
    for (let freeInodes = 0; freeInodes <= MANY_FILES; freeInodes += 1) {
      disk.leaveInodes(freeInodes);
      const ended = await installed.run('verify', '--deep');
      if (ended.exitCode === 0) break;
      reported.push(outputWithoutInodes({ ...ended, freeInodes }, disk.path));
    }
    expect(reported.length).toBeGreaterThan(1);
    expect(files()).toEqual(before);
    await seen.newest();
  });

  it('F07 run goes on by itself once there is room', async () => {
    const { feed, datasetIds, publishNext, disk, installed, seen } = await onDisk({
      FEED_SYNC_POLL_EVERY: '1s',
    });
    // A dataset whose stated size is found too large before anything is written waits for a minute: that is another wait.
    feed.settings.files.bytes = false;
    const daemon = new LastingDaemon(installed);
    await daemon.logged('Loaded a snapshot.', datasetIds.length);
    disk.leave(0);
    for (const datasetId of datasetIds) publishNext(datasetId, undefined, UNRECORDED);
    await daemon.logged('Failed; will be tried again.');
    expect(daemon.lines().find(({ msg }) => msg.startsWith('Failed;'))?.['why']).toContain(disk.path);
    disk.leave(PLENTY_BYTES);
    await daemon.logged('Loaded a snapshot.', 2 * datasetIds.length);
    await daemon.stop();
    await seen.newest();
  });
});

describe.skipIf(!hasSmallDisks)(`F11 a disk that is mounted read-only (${THERE_ARE_NONE})`, () => {
  it.each(['once', 'run'])(
    'F11 %s on a read-only disk ends with 74 at the start, names path and user, and requests nothing',
    async (command) => {
      const { feed, disk, installed } = await onDisk();
      disk.set('ro');
      const { exitCode, stderr } = await installed.run(command);
      expect(exitCode).toBe(74);
      expect(stderr).toContain(disk.path);
      expect(stderr).toMatch(/user id \d+/);
      expect(feed.requests.entries()).toEqual([]);
    },
  );
});
