/** Undo logs, the tables that froze with them, and archived tables have checksums, so that altered ones never pass for history (F70). */

import { expect, it } from 'vitest';
import type { PastTables } from '../../src/destination/past-tables.ts';
import { present } from '../../src/lib/assert.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { inMirror, readerOf } from '../support/duckdb-mirror.ts';
import { recordingLog } from '../support/feed-client.ts';
import { type MirrorAtWork, mirrorAtWork } from '../support/mirror-at-work.ts';
import { EQUAL_PAST, makePastOfEveryKind, statesOf } from '../support/past-of-every-kind.ts';
import { ALL_HISTORY, OWNERS } from '../support/people.ts';

async function everyKind(log: Log = silentLog): Promise<MirrorAtWork> {
  const world = await mirrorAtWork({ history: ALL_HISTORY, log });
  await makePastOfEveryKind(world);
  return world;
}

async function comparing({ path }: MirrorAtWork, tables: PastTables, isEnough: () => boolean) {
  const reader = present(await readerOf(path), 'there is a mirror');
  try {
    return await reader.comparePast(tables, isEnough);
  } finally {
    await reader.close();
  }
}

async function compared(world: MirrorAtWork) {
  return statesOf(await comparing(world, { datasetIds: null, skipped: 0 }, () => false));
}

const renewed = (world: MirrorAtWork, unreadable: readonly string[] = []) =>
  world.mirror.renewChecksums({ datasetIds: ['parcels', 'roads'], unreadable });

const asOf = (world: MirrorAtWork, log: string, commit: number) =>
  inMirror(world.folder, `FROM history.${log}_as_of_commit(${commit})`);

it('finds logs, frozen and archived tables equal to their checksums, compared in several turns', async () => {
  const world = await everyKind();
  expect(await compared(world)).toEqual(EQUAL_PAST);
  expect(await renewed(world)).toEqual({ stored: [], closed: [], kept: [] });
  const names: string[] = [];
  for (let isEnd = false; !isEnd; ) {
    const turn = await comparing(world, { datasetIds: ['parcels'], skipped: names.length }, () => true);
    names.push(...turn.compared.map(({ name }) => name));
    ({ isEnd } = turn);
  }
  expect(names).toEqual(['parcels__3', 'parcels', 'parcels__3_log']);
});

it.each([
  ['log history.parcels', "UPDATE history.parcels SET owner = 'Eve'", 'parcels', 3, 4, 'Bob'],
  ['log history.parcels__3_log', 'DELETE FROM history.parcels__3_log', 'parcels__3_log', 1, 2, 'uno'],
] as const)('closes an altered %s, and keeps only the state of its table', async (...given) => {
  const [kind, statement, log, lost, last, value] = given;
  const world = await everyKind();
  await world.byHand(statement);
  expect(await compared(world)).toEqual(EQUAL_PAST.map((one) => (one[0] === kind ? [kind, 'altered'] : one)));
  expect(await renewed(world)).toEqual({ stored: [], closed: [`history.${log}`], kept: [] });
  await expect(asOf(world, log, lost)).rejects.toThrow('the log was dropped or altered by hand');
  expect(await asOf(world, log, last)).toEqual([['1', value]]);
  expect(await compared(world)).toEqual(EQUAL_PAST);
  expect(await inMirror(world.folder, `SELECT count(*) FROM history.${log}_unusable`)).toHaveLength(1);
});

it.each(["UPDATE history.parcels__3 SET name = 'x'", 'DROP TABLE history.parcels__3'])(
  'closes the log of a frozen table that was altered or dropped: %s',
  async (statement) => {
    const world = await everyKind();
    await world.byHand(statement);
    expect(await renewed(world)).toEqual({ stored: [], closed: ['history.parcels__3_log'], kept: [] });
    expect(await compared(world)).toEqual(EQUAL_PAST.filter(([name]) => !name?.includes('parcels__3')));
    expect(await asOf(world, 'parcels', 3)).toEqual([['1', 'Ann']]);
  },
);

it('drops a log that cannot be read, because no copy of the mirror could carry it', async () => {
  const world = await everyKind();
  expect(await renewed(world, ['history.parcels'])).toEqual({
    stored: [],
    closed: ['history.parcels'],
    kept: [],
  });
  const names = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%unusable%'";
  expect(await inMirror(world.folder, names)).toEqual([]);
  expect(await asOf(world, 'parcels', 4)).toEqual([['1', 'Bob']]);
});

it('reports an altered archived table each time, and none that was dropped', async () => {
  const world = await everyKind();
  const [[name] = []] = await inMirror(world.folder, 'SELECT table_name FROM feed_sync.archived');
  await world.byHand(`DELETE FROM archived.${name}`);
  await renewed(world);
  expect(await compared(world)).toContainEqual(['archived archived.roads', 'altered']);
  await world.byHand(`DROP TABLE archived.${name}`);
  expect((await compared(world)).map(([kind]) => kind)).not.toContain('archived archived.roads');
});

it('computes checksums of another version of the hash once again, and reports them, but not for altered rows', async () => {
  const world = await everyKind();
  const others = ['datasets', 'archived', 'history_logs'].map((table) => {
    return `UPDATE feed_sync.${table} SET checksum = 1, checksum_version = 'another'`;
  });
  await world.byHand(...others, "UPDATE feed_sync.history_logs SET table_checksum_version = 'another'");
  expect((await compared(world)).every(([, state]) => state === 'unrecorded')).toBe(true);
  const { stored, closed } = await renewed(world);
  expect(closed).toEqual([]);
  expect(stored.map((name) => name.replace(/__2_.*/, ''))).toEqual([
    'main.parcels',
    ...EQUAL_PAST.map(([name]) => name?.replace(/.* /, '')),
  ]);
  expect(await compared(world)).toEqual(EQUAL_PAST);
  expect(await renewed(world)).toEqual({ stored: [], closed: [], kept: [] });
  await world.byHand('DELETE FROM parcels', 'UPDATE feed_sync.datasets SET checksum = NULL');
  expect(await renewed(world)).toEqual({ stored: [], closed: [], kept: [] });
});

it('computes checksums of another version of the hash again by a commit, and logs that', async () => {
  const lines: string[] = [];
  const world = await everyKind(recordingLog(lines));
  await world.byHand(
    "UPDATE feed_sync.datasets SET checksum_version = 'another'",
    "UPDATE feed_sync.history_logs SET checksum_version = 'another' WHERE log_name = 'parcels'",
  );
  const course = world.published(firstContent(OWNERS, [[1, 'Cem']]));
  await world.load(course);
  expect(lines.filter((line) => line.includes('The hash of DuckDB is another'))).toHaveLength(1);
  expect(await compared(world)).toEqual(EQUAL_PAST);
});
