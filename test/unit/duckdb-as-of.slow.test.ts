/** `query --as-of`: tables as they were at an earlier time, and a refusal of tables whose past is not known. */

import { describe, expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import { parseIsoTime } from '../../src/lib/units.ts';
import { firstContent } from '../support/duckdb-changes.ts';
import { manualClock, readerOf } from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { OWNERS, PEOPLE, THREE_PEOPLE } from '../support/people.ts';

const DAY_MS = 86_400_000;
const FIRST = THREE_PEOPLE.slice(0, 2);
const FIRST_READ = FIRST.map((row) => row.map(String));
/** The clock begins with 2026; a commit is made each morning, from the first day on. */
const NOON_OF = (day: number) => new Date(Date.UTC(2026, 0, day, 12));

/** Parcels are loaded on the first of January and change on the second; zones have no history. */
async function twoDays() {
  const clock = manualClock();
  const history = { keeps: (id: string) => id === 'parcels', keepMs: Number.POSITIVE_INFINITY };
  const world = await mirrorAtWork({ clock, history });
  await clock.sleep(DAY_MS / 4);
  const zones = await world.loaded(firstContent(PEOPLE, FIRST), 'zones');
  const parcels = await world.loaded(firstContent(PEOPLE, FIRST));
  await clock.sleep(DAY_MS);
  parcels.publishRows([
    [1, 'ONE'],
    [3, 'three'],
  ]);
  await world.apply(parcels);
  const read = async (sql: string, time: Date) => {
    const reader = present(await readerOf(world.path), 'there is a mirror');
    try {
      const rows: string[][] = [];
      for await (const row of (await reader.query(sql, time)).rows) rows.push(row.map(String));
      return rows;
    } finally {
      await reader.close();
    }
  };
  return { clock, world, parcels, zones, read };
}

describe('query --as-of', () => {
  it.each([
    'SELECT id, name FROM parcels ORDER BY id',
    'SELECT id, name FROM main.PARCELS AS p ORDER BY id',
    'WITH p AS (FROM parcels) SELECT id, name FROM p ORDER BY id',
    "SELECT id, name FROM query('FROM ' || 'parcels') ORDER BY id",
    "SELECT id, name FROM query_table('parcels') ORDER BY id",
    'SELECT id, name FROM by_hand ORDER BY id',
  ])('reads the rows of the time of --as-of: %s', async (sql) => {
    const { world, read } = await twoDays();
    await world.byHand('CREATE VIEW by_hand AS FROM parcels');
    expect(await read(sql, NOON_OF(1))).toEqual(FIRST_READ);
    expect(await read(sql, NOON_OF(2))).toEqual([
      ['1', 'ONE'],
      ['3', 'three'],
    ]);
  });

  it('reads the catalog feed_sync as it is now, whatever time --as-of names', async () => {
    const { read } = await twoDays();
    const sql = "SELECT version FROM feed_sync.datasets WHERE dataset_id = 'parcels'";
    expect(await read(sql, NOON_OF(1))).toEqual([['2']]);
  });

  it.each([
    'SELECT * FROM zones',
    'FROM parcels, main."ZONES" AS z',
    'DESCRIBE zones',
    "SELECT * FROM query('FROM ' || 'zones')",
    'UNPIVOT zones ON name',
  ])('names a table without history in the refusal: %s', async (sql) => {
    const { read } = await twoDays();
    await expect(read(sql, NOON_OF(1))).rejects.toThrow('The table zones has no history');
  });

  it.each([
    'FROM mirror.main.parcels',
    'FROM mirror.parcels',
    'FROM history.parcels',
    "FROM history.parcels_as_of(TIMESTAMPTZ '2026-01-02')",
    'UNPIVOT mirror.main.parcels ON name',
  ])('refuses a statement that reads tables around --as-of: %s', async (sql) => {
    const { read } = await twoDays();
    await expect(read(sql, NOON_OF(1))).rejects.toThrow('which --as-of does not change');
  });

  it('refuses a time before the history of a table begins', async () => {
    const { read } = await twoDays();
    await expect(read('FROM parcels', new Date('2025-12-31'))).rejects.toThrow(
      /The history of parcels begins with commit 2 at 2026-01-01T\d\d.*Earlier states are not known\./,
    );
    expect(await read('SELECT count(*) FROM feed_sync.datasets', new Date('2025-12-31'))).toEqual([['2']]);
  });

  it('refuses a wrong statement with the message of DuckDB', async () => {
    const { read } = await twoDays();
    for (const sql of ['SELEC', 'FROM nowhere', 'SELECT 1; SELECT 2', 'DROP TABLE parcels']) {
      await expect(read(sql, NOON_OF(1))).rejects.toMatchObject({ code: 'usage_invalid' });
    }
  });

  it('reads the columns of the time of --as-of where a schema change replaced them', async () => {
    const { clock, world, parcels, read } = await twoDays();
    await clock.sleep(DAY_MS);
    parcels.publish(firstContent(OWNERS, [[1, 'Ann']]));
    await world.load(parcels);
    const sql = 'SELECT * FROM parcels ORDER BY id';
    expect(await read(sql, NOON_OF(1))).toEqual(FIRST_READ);
    expect(await read(sql, NOON_OF(3))).toEqual([['1', 'Ann']]);
  });

  it.each(['archive', 'keep'] as const)(
    'reads a retired table (%s) as of a time before its retirement',
    async (how) => {
      const { clock, world, parcels, read } = await twoDays();
      await clock.sleep(DAY_MS);
      await world.retire(parcels, how);
      const sql = 'SELECT * FROM parcels ORDER BY id';
      expect(await read(sql, NOON_OF(1))).toEqual(FIRST_READ);
      await expect(read(sql, NOON_OF(3))).rejects.toThrow(
        /The table parcels was retired by commit 4 at 2026/,
      );
      expect(await read('SELECT 1', NOON_OF(1))).toEqual([['1']]);
    },
  );
});

describe('the time of --as-of', () => {
  it.each([
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01T14:30', '2026-03-01T14:30:00.000Z'],
    ['2026-03-01T14:30:05.25', '2026-03-01T14:30:05.250Z'],
    ['2026-03-01T14:30:00+02:00', '2026-03-01T12:30:00.000Z'],
    ['2024-02-29T23:59:59Z', '2024-02-29T23:59:59.000Z'],
  ])('parses a time of ISO 8601, in UTC without an offset: %s', (text, time) => {
    expect(parseIsoTime(text)?.toISOString()).toBe(time);
  });

  it.each([
    '',
    'yesterday',
    '2026-02-30',
    '2026-13-01',
    '2026-03-01 14:30',
    '01.03.2026',
    '2026-03-01T25:00',
    '1',
  ])('refuses a text that is no time of ISO 8601: %j', (text) => {
    expect(parseIsoTime(text)).toBeNull();
  });

  it('refuses an undo log that was emptied or dropped by hand, and reads the other tables (F70)', async () => {
    const { world, read } = await twoDays();
    await world.byHand('DELETE FROM history.parcels');
    await expect(read('FROM parcels', NOON_OF(1))).rejects.toMatchObject({ code: 'dataset_storage_failed' });
    await world.byHand('DROP TABLE history.parcels');
    await expect(read('FROM parcels', NOON_OF(1))).rejects.toThrow(
      'was dropped or altered outside feed-sync',
    );
    expect(await read('SELECT count(*) FROM feed_sync.datasets', NOON_OF(1))).toEqual([['2']]);
    await world.byHand('DELETE FROM feed_sync.columns');
    await expect(read('FROM parcels', NOON_OF(1))).rejects.toThrow('does not list the columns');
  });
});
