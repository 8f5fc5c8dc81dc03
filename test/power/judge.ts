/** Lays out a state of the disk and asks the program to go on from there. */

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { commandLine } from '../support/command-line.ts';
import { mirrorIn } from '../support/duckdb-mirror.ts';
import { openExactly } from '../support/exact-mirror.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { settingsIn } from './record.ts';
import type { DiskState, Reported } from './states.ts';

/** Shared memory of SQLite, which no disk keeps. */
const NOT_ON_DISK = /-shm$/;
const QUARANTINED = /\.corrupt-/;
const TORN = /Corrupt WAL file: entry at byte position/;

/** Returns what is wrong, in words; nothing where everything reported is there and the installation catches up. */
export async function faultsOf(
  { files, reported }: DiskState,
  feed: FixtureFeed,
): Promise<readonly string[]> {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'feed-sync-power-')));
  try {
    layOut(home, files);
    const installed = commandLine({ feed, now: () => new Date(), environment: settingsIn(home) });
    try {
      const data = join(home, 'data');
      const mirror = join(data, 'mirror.duckdb');
      const copy = join(home, 'out', 'copy.duckdb');
      const isTorn = await cutTornLog(data, mirror);
      const lost = [
        ...(await lostFrom(mirror, reported, files.has('data/mirror.duckdb'))),
        ...(await unusableCopy(copy, reported, files.has('out/copy.duckdb'))),
      ];
      const ended = await installed.run('once');
      if (ended.exitCode !== 0)
        return [...lost, `once ended with ${ended.exitCode}: ${ended.stdout}${ended.stderr}`];
      const expected = everythingPublished(feed);
      return [
        ...lost,
        ...readdirSync(data).flatMap((name) =>
          QUARANTINED.test(name) && !(isTorn && name.endsWith('.wal')) ? [`quarantined: ${name}`] : [],
        ),
        ...(await mirrorDifferences(mirror, expected)),
        ...(await mirrorDifferences(copy, expected)).map((difference) => `copy: ${difference}`),
      ];
    } finally {
      installed.remove();
    }
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function layOut(home: string, files: DiskState['files']): void {
  for (const [path, bytes] of files) {
    const place = join(home, path);
    if (NOT_ON_DISK.test(path)) continue;
    mkdirSync(bytes === null ? place : dirname(place), { recursive: true, mode: 0o700 });
    if (bytes !== null) writeFileSync(place, bytes, { mode: 0o600 });
  }
}

/** No reader can open a mirror whose log has a torn end before feed-sync has. */
async function cutTornLog(data: string, path: string): Promise<boolean> {
  const found = existsSync(path) ? await readVersions(path) : '';
  if (typeof found !== 'string' || !TORN.test(found)) return false;
  const mirror = await mirrorIn(data);
  await mirror.has();
  await mirror.close();
  return true;
}

async function lostFrom(
  path: string,
  { versions, commits }: Reported,
  isThere: boolean,
): Promise<readonly string[]> {
  if (commits === 0) return [];
  if (!isThere) return [`${commits} commits were reported, and there is no mirror`];
  const found = await readVersions(path);
  if (typeof found === 'string') return [`the mirror cannot be opened: ${found}`];
  return [
    ...(found.commits < commits ? [`${commits} commits were reported, and ${found.commits} are there`] : []),
    ...[...versions].flatMap(([dataset, version]) =>
      (found.versions.get(dataset) ?? 0) < version ? [`${dataset} was reported at ${version}`] : [],
    ),
  ];
}

async function unusableCopy(
  path: string,
  { isCopyPublished }: Reported,
  isThere: boolean,
): Promise<readonly string[]> {
  if (!isThere) return isCopyPublished ? ['a copy was reported, and there is none'] : [];
  const found = await readVersions(path);
  return typeof found === 'string' ? [`the copy cannot be opened: ${found}`] : [];
}

async function readVersions(path: string) {
  try {
    const mirror = await openExactly(path);
    try {
      const rows = await mirror.rows('SELECT dataset_id, version::VARCHAR FROM feed_sync.datasets');
      const [[commits = '0'] = []] = await mirror.rows('SELECT count(*)::VARCHAR FROM feed_sync.commits');
      const versions = new Map(rows.map(([dataset, version]) => [dataset ?? '', Number(version)]));
      return { versions, commits: Number(commits) };
    } finally {
      mirror.close();
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
